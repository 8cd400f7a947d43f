#include "plan/join.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "forms/joined.h"
#include "forms/repeated.h"
#include "loop/attached.h"

namespace aotc::plan {

using forms::Choice;
using forms::Joined;
using forms::StepSpec;

namespace {

/// ns by which a launch that overlaps the one before is longer than a barrier of a block: 600 to 800 and 230 to 510 with what is computed
/// between, of 256 to 2048 elements (an H200).
constexpr double kSavedNs = 300;
/// ns of a kernel by itself from which a launch more is lost in it.
constexpr double kLongNs = 10000;
constexpr size_t kMostBeside = 8;

class Finder {
 public:
  Finder(const loop::Module& m, const SymTable& syms, const Goal& goal, const DecisionOf& decision_of)
      : module_(m), syms_(syms), goal_(goal), decision_of_(decision_of) {}

  std::vector<JoinGroup> find() {
    std::vector<JoinGroup> groups;
    JoinGroup open;
    const auto close = [&](size_t call) {
      open.last = call;
      if (open.choices.size() > 1) groups.push_back(open);
      open = {}, kernels_.clear(), buffers_.clear(), sizes_ = 0;
    };
    for (size_t call = 0; call < module_.calls.size(); ++call) {
      const std::optional<Choice>& part = part_of(module_.calls[call].kernel);
      if (!part || !has_room(call, *part)) close(call);
      if (!part || !has_room(call, *part)) continue;
      if (open.choices.empty()) open.first = call;
      open.choices.push_back(*part);
      take(call, *part);
    }
    close(module_.calls.size());
    find_beside(groups);
    return groups;
  }

 private:
  /// Adds groups of calls that are in none.
  void find_beside(std::vector<JoinGroup>& groups) const {
    const size_t sequences = groups.size();
    for (size_t call = 0, next = 0; call < module_.calls.size();) {
      while (next < sequences && groups[next].last <= call) ++next;
      const size_t limit = next < sequences ? groups[next].first : module_.calls.size();
      const loop::KernelId kernel = module_.calls[call].kernel;
      const Choice& choice = decision_of_(kernel).choice;
      size_t last = call + 1;
      while (last < std::min(limit, call + kMostBeside) && module_.calls[last].kernel == kernel && apart(call, last)) ++last;
      if (last > call + 1 && last <= limit && goes_beside(kernel))
        groups.push_back({call, last, std::vector<Choice>(last - call, choice), true});
      call = std::max(last, call < limit ? call + 1 : groups[next].last);
    }
    std::sort(groups.begin(), groups.end(), [](const JoinGroup& a, const JoinGroup& b) { return a.first < b.first; });
  }
  /// None of calls [first, call) writes what `call` is given, or is given what it writes.
  bool apart(size_t first, size_t call) const {
    const auto writes = [&](size_t c, loop::BufferId b) {
      const loop::Call& x = module_.calls[c];
      const auto params = loop::argument_params(module_.kernels[x.kernel]);
      for (size_t i = 0; i < params.size(); ++i)
        if (x.args[i] == b && loop::writes(loop::kernel_params(module_.kernels[x.kernel])[params[i]])) return true;
      return false;
    };
    for (size_t c = first; c < call; ++c)
      for (const auto& [one, other] : {std::pair(c, call), std::pair(call, c)})
        for (loop::BufferId b : module_.calls[one].args)
          if (writes(other, b)) return false;
    return true;
  }
  bool goes_beside(loop::KernelId id) const {
    const forms::Site site{module_.kernels[id], syms_, goal_.machine, goal_.numerics};
    const forms::Decision& own = decision_of_(id);
    const Choice& c = own.choice;
    if (!c.form->is_part() || dynamic_cast<const forms::Repeated*>(c.form) || c.form->weight(site.kernel, c)) return false;
    const auto taken = std::find_if(own.candidates.begin(), own.candidates.end(), [&](const auto& x) { return x.choice == c; });
    if (taken == own.candidates.end() || taken->cost_ns > kLongNs) return false;
    const StepSpec s = c.form->step(site, c);
    return s.kind == forms::StepKind::cuda && s.maps.empty() && s.block[1] == 1 && s.block[2] == 1 &&
           syms_.simplify(s.scratch_bytes).is(0) && syms_.simplify(s.grid[1]).is(1) && syms_.simplify(s.grid[2]).is(1);
  }

  bool one_block(const StepSpec& s) const {
    return std::all_of(s.grid.begin(), s.grid.end(), [&](const Expr& e) {
      const auto range = syms_.interval(syms_.simplify(e));
      return range.min == 1 && range.max == 1;
    });
  }
  bool takes_part(const forms::Site& site, const Choice& c) const {
    if (!c.form->is_part() || dynamic_cast<const forms::Repeated*>(c.form) || c.form->weight(site.kernel, c)) return false;
    const StepSpec s = c.form->step(site, c);
    return s.kind == forms::StepKind::cuda && s.block == std::array{Joined::kThreads, 1, 1} && s.maps.empty() &&
           syms_.simplify(s.scratch_bytes).is(0) && one_block(s);
  }

  /// How a kernel that has one block by itself is computed in a joined launch.
  const std::optional<Choice>& part_of(loop::KernelId id) {
    auto [it, fresh] = parts_.try_emplace(id);
    if (!fresh) return it->second;
    const forms::Site site{module_.kernels[id], syms_, goal_.machine, goal_.numerics};
    const forms::Decision& own = decision_of_(id);
    const StepSpec alone = own.choice.form->step(site, own.choice);
    if (alone.kind != forms::StepKind::cuda || !one_block(alone)) return it->second;
    if (takes_part(site, own.choice)) return it->second = own.choice;
    const auto taken = std::find_if(own.candidates.begin(), own.candidates.end(), [&](const auto& c) { return c.choice == own.choice; });
    if (taken == own.candidates.end()) return it->second;
    for (const forms::Candidate& c : own.candidates)
      if (c.fit && c.choice.form == own.choice.form && c.cost_ns < taken->cost_ns + kSavedNs && takes_part(site, c.choice))
        return it->second = c.choice;
    return it->second;
  }

  size_t sizes_of(size_t call, const Choice& c) const {
    const loop::KernelId id = module_.calls[call].kernel;
    return c.form->step({module_.kernels[id], syms_, goal_.machine, goal_.numerics}, c).sizes.size();
  }
  /// Whether the open group, which may be empty, can have it as well.
  bool has_room(size_t call, const Choice& c) const {
    const loop::Call& x = module_.calls[call];
    std::set<loop::BufferId> buffers = buffers_;
    buffers.insert(x.args.begin(), x.args.end());
    return buffers.size() + sizes_ + sizes_of(call, c) <= Joined::kMostWords &&
           kernels_.size() + (kernels_.count(x.kernel) == 0) <= Joined::kMostParts;
  }
  void take(size_t call, const Choice& c) {
    kernels_.insert(module_.calls[call].kernel);
    buffers_.insert(module_.calls[call].args.begin(), module_.calls[call].args.end());
    sizes_ += sizes_of(call, c);
  }

  const loop::Module& module_;
  const SymTable& syms_;
  const Goal& goal_;
  const DecisionOf& decision_of_;
  std::map<loop::KernelId, std::optional<Choice>> parts_;
  std::set<loop::KernelId> kernels_;  ///< of the open group, as the following
  std::set<loop::BufferId> buffers_;
  size_t sizes_ = 0;
};

}  // namespace

std::vector<JoinGroup> find_joined(const loop::Module& m, const SymTable& syms, const Goal& goal, const DecisionOf& decision_of) {
  return Finder(m, syms, goal, decision_of).find();
}

}  // namespace aotc::plan
