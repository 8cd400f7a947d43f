#include "plan/build.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "forms/repeated.h"
#include "graph/states.h"
#include "loop/attached.h"
#include "plan/join.h"
#include "plan/memory.h"
#include "plan/packing.h"
#include "plan/panel_loads.h"
#include "plan/reuse.h"
#include "plan/share_weights.h"
#include "plan/strips.h"
#include "plan/verify.h"

namespace aotc::plan {

using loop::BufferId;
using loop::BufferKind;
using loop::KernelId;
using loop::ParamId;

namespace {

std::string range_text(const SymTable& syms, const SymRange& r) {
  const std::string& name = syms[r.sym].name;
  if (r.min == r.max) return fmt::format("{}={}", name, r.min);
  std::string s = fmt::format("{} in [{}, {}]", name, r.min, r.max == kInf ? "inf" : fmt::format("{}", r.max));
  if (r.multiple_of > 1) s += fmt::format(" by {}", r.multiple_of);
  return s;
}

/// Steps at which a loop buffer is read and written.
struct Uses {
  std::vector<int> reads, writes;
  int last_read() const { return reads.empty() ? -1 : reads.back(); }
  int first_write() const { return writes.empty() ? -1 : writes.front(); }
  int last() const { return std::max(last_read(), writes.empty() ? -1 : writes.back()); }
};

class PlanBuilder {
 public:
  using DecisionMap = std::map<KernelId, forms::Decision>;

  /// `whole`: the decisions for the variant that this is a class of; null where the plan is for all of it.
  PlanBuilder(const loop::Module& m, const PlanOptions& o, PlanSet& set, WeightTable& weights, const SymTable& syms, DecisionMap& decisions,
              const DecisionMap* whole)
      : module_(m), options_(o), set_(set), weights_(weights), syms_(syms), decisions_(decisions), whole_(whole) {}

  Plan build() {
    find_steps();
    find_uses();
    for (const CallsOfStep& s : steps_) add_step(s);
    plan_.steps.insert(plan_.steps.end(), final_copies_.begin(), final_copies_.end());
    finish_lives();
    if (options_.in_place) reuse_in_place();
    place();
    repeat_launches();
    return std::move(plan_);
  }

 private:
  /// Calls [first, last) of the module: one, or those of a group.
  struct CallsOfStep {
    size_t first, last;
    const StripGroup* strips = nullptr;
    const JoinGroup* joined = nullptr;
  };

  void find_steps() {
    strips_ = find_strips(
        module_, syms_, options_.goal.machine, [&](KernelId k) -> const forms::Choice& { return choice_of(k); }, options_.strips);
    if (options_.goal.machine.traits().joined_steps && options_.join)
      joined_ = find_joined(module_, syms_, options_.goal, [&](KernelId k) -> const forms::Decision& { return decision_of(k); });
    size_t strip = 0, join = 0;
    for (size_t call = 0; call < module_.calls.size(); call = steps_.back().last) {
      CallsOfStep s{call, call + 1};
      if (strip < strips_.size() && strips_[strip].first == call) s.strips = &strips_[strip++], s.last = s.strips->last;
      if (join < joined_.size() && joined_[join].first == call) s.joined = &joined_[join++], s.last = s.joined->last;
      steps_.push_back(s);
    }
  }

  template <class F>
  void for_each_arg_of_call(size_t call, const F& f) const {
    const loop::Call& c = module_.calls[call];
    const loop::Kernel& k = module_.kernels[c.kernel];
    const auto params = loop::argument_params(k);
    AOTC_CHECK(params.size() == c.args.size(), "call {} of {}: {} arguments for {} parameters", call, loop::kernel_name(k), c.args.size(),
               params.size());
    for (size_t i = 0; i < params.size(); ++i) f(params[i], loop::kernel_params(k)[params[i]], c.args[i], i);
  }
  /// The buffers that a step is given: not those that the calls of a group hand to each other.
  template <class F>
  void for_each_arg(int step, const F& f) const {
    const CallsOfStep& s = steps_[static_cast<size_t>(step)];
    for (size_t call = s.first; call < s.last; ++call)
      for_each_arg_of_call(call, [&](ParamId p, const loop::Param& param, BufferId b, size_t i) {
        if (!s.strips || s.strips->stages[call - s.first].args[i].ptr >= 0) f(p, param, b);
      });
  }

  void find_uses() {
    uses_.resize(module_.buffers.size());
    for (size_t i = 0; i < steps_.size(); ++i) {
      for_each_arg(static_cast<int>(i), [&](ParamId, const loop::Param& p, BufferId b) {
        if (loop::reads(p)) uses_[idx(b)].reads.push_back(static_cast<int>(i));
        if (loop::writes(p)) uses_[idx(b)].writes.push_back(static_cast<int>(i));
      });
    }
    for (size_t i = 0; i < steps_.size(); ++i)
      for (size_t call = steps_[i].first; call < steps_[i].last; ++call)
        if (const auto* k = std::get_if<loop::LibraryKernel>(&module_.kernels[module_.calls[call].kernel]); k && k->algorithm == "check")
          last_check_ = static_cast<int>(i);
    for (size_t b = 0; b < module_.buffers.size(); ++b) {
      const loop::Buffer& x = module_.buffers.raw()[b];
      const bool made = x.kind == BufferKind::output || x.kind == BufferKind::state_out;
      AOTC_CHECK(!made || !uses_[b].writes.empty(), "buffer {} is never written", x.name);
    }
  }

  /// Whether what `target` gets may be written where `source` lies: all reads of source are over, or the writing call reads it point by
  /// point.
  bool safe_over(BufferId source, BufferId target) const {
    const Uses &s = uses_[idx(source)], &t = uses_[idx(target)];
    if (!syms_.proves_eq(module_.buffers[source].type.bytes(), module_.buffers[target].type.bytes())) return false;
    const int w = t.first_write();
    if (s.last_read() > w) return false;
    return s.last_read() < w || step_may_overwrite(w, source, target);
  }

  bool step_may_overwrite(int step, BufferId source, BufferId target) const {
    const CallsOfStep& s = steps_[static_cast<size_t>(step)];
    if (s.strips) return false;  // others read what one writes
    size_t call = s.first;
    if (s.joined) {  // calls beside each other: both buffers are one call's alone
      const auto names = [&](size_t c) {
        const auto& args = module_.calls[c].args;
        return std::any_of(args.begin(), args.end(), [&](BufferId b) { return b == source || b == target; });
      };
      size_t named = 0;
      for (size_t c = s.first; c < s.last; ++c)
        if (names(c)) call = c, ++named;
      if (!s.joined->beside || named != 1) return false;
    }
    const loop::Kernel& kernel = module_.kernels[module_.calls[call].kernel];
    std::vector<ParamId> ins, outs;
    for_each_arg_of_call(call, [&](ParamId p, const loop::Param& x, BufferId b, size_t) {
      if (b == source && loop::reads(x)) ins.push_back(p);
      if (b == target && loop::writes(x)) outs.push_back(p);
    });
    if (outs.size() != 1) return false;
    const auto& params = loop::kernel_params(kernel);
    return std::all_of(ins.begin(), ins.end(), [&](ParamId p) {
      return dtype_bytes(params[p].dtype) == dtype_bytes(params[outs[0]].dtype) && may_overwrite(kernel, p, outs[0]);
    });
  }

  /// A state that conditions are computed from: a run that fails keeps the old one. (Where nothing waits for a condition, writes are
  /// masked.)
  bool kept_for_checks(BufferId state) const {
    return options_.goal.machine.traits().waits_for_conditions && is_small_state(module_.buffers[state].type) &&
           uses_[idx(state)].first_write() < last_check_;
  }

  PlanBufferId add_buffer(BufferId b, Place place, uint32_t index) {
    PlannedBuffer p;
    p.name = module_.buffers[b].name;
    p.buffer = b;
    p.place = place;
    p.index = index;
    p.bytes = syms_.simplify(module_.buffers[b].type.bytes());
    p.live = {INT32_MAX, 0};
    return plan_.buffers.push(std::move(p));
  }

  /// The one form of a constant that other code than its products reads from the panels.
  const std::optional<forms::WeightForm>& panels_read(BufferId b) {
    auto [it, fresh] = panels_read_.try_emplace(b);
    for (size_t i = 0; fresh && i < module_.calls.size() && !it->second; ++i) {
      const loop::Kernel& kernel = module_.kernels[module_.calls[i].kernel];
      const auto* m = std::get_if<loop::MatmulKernel>(&kernel);
      if (!m || !m->b_panels_read) continue;
      for_each_arg_of_call(i, [&](ParamId p, const loop::Param&, BufferId arg, size_t) {
        if (arg == b && (is_few_bits(*m, p) || p == m->b.param)) it->second = shared_form(kernel, options_.goal.machine.arch);
      });
    }
    AOTC_CHECK(it->second, "no product has the panels of {}", module_.buffers[b].name);
    return it->second;
  }

  PlanBufferId planned(BufferId b, std::optional<forms::WeightForm> panels) {
    if (module_.buffers[b].panels) panels = panels_read(b);
    const loop::Buffer& x = module_.buffers[b];
    if (x.kind == BufferKind::constant) {
      const uint32_t w = weights_.add(static_cast<ConstId>(x.index), panels);
      auto [it, fresh] = constant_buffers_.try_emplace({b, w});
      if (fresh) {
        it->second = add_buffer(b, Place::weight, w);
        plan_.buffers[it->second].bytes = static_cast<int64_t>(weights_.weights()[w].bytes);
      }
      return it->second;
    }
    if (auto it = buffers_.find(b); it != buffers_.end()) return it->second;
    return buffers_[b] = place_buffer(b, x);
  }

  PlanBufferId place_buffer(BufferId b, const loop::Buffer& x) {
    switch (x.kind) {
      case BufferKind::input: return add_buffer(b, Place::input, x.index);
      case BufferKind::state: return add_buffer(b, Place::state, x.index);
      case BufferKind::state_out: {
        const auto old = find(BufferKind::state, x.index);
        const bool over = (!old || safe_over(*old, b)) && !kept_for_checks(b);
        return add_buffer(b, over ? Place::state : Place::state_next, x.index);
      }
      case BufferKind::output: {
        const auto input = x.alias_input >= 0 ? find(BufferKind::input, static_cast<uint32_t>(x.alias_input)) : std::nullopt;
        if (!input || uses_[idx(*input)].last() < 0 || safe_over(*input, b)) return add_buffer(b, Place::output, x.index);
        // The caller may give the input's own memory for this result: it is written when nobody reads the input any more.
        const PlanBufferId made = add_buffer(b, Place::arena, 0), out = add_buffer(b, Place::output, x.index);
        Step copy;
        copy.kind = StepKind::copy;
        copy.args = {made, out};
        copy.label = x.name;
        final_copies_.push_back(std::move(copy));
        return made;
      }
      default: return add_buffer(b, Place::arena, 0);
    }
  }

  std::optional<BufferId> find(BufferKind kind, uint32_t index) const {
    for (size_t b = 0; b < module_.buffers.size(); ++b) {
      const loop::Buffer& x = module_.buffers.raw()[b];
      if (x.kind == kind && x.index == index) return static_cast<BufferId>(b);
    }
    return std::nullopt;
  }

  const forms::Choice& choice_of(KernelId id) { return decision_of(id).choice; }
  const forms::Decision& decision_of(KernelId id) {
    auto [it, fresh] = decisions_.try_emplace(id);
    if (fresh) {
      const forms::Site site{module_.kernels[id], syms_, options_.goal.machine, options_.goal.numerics};
      try {
        it->second = options_.choose ? options_.choose(site) : forms::decide(site);
      } catch (const Diagnostic& d) {  // at the largest sizes alone no form may fit; that of the whole range is legal at all of them
        if (!whole_ || !whole_->count(id) || d.code() != ExitCode::unsupported) throw;
        it->second = whole_->at(id);
      }
      if (const auto of_whole = whole_ ? whole_->find(id) : DecisionMap::const_iterator(); whole_ && of_whole != whole_->end())
        it->second = with_stored_form(std::move(it->second), site.kernel, of_whole->second.choice);
      else if (whole_)
        it->second = with_dense_weight(std::move(it->second), site.kernel);
    }
    return it->second;
  }

  int this_plan() const { return static_cast<int>(set_.plans.size()); }

  /// Whether kernels for GPUs have the text for the sizes of this plan that they have for those of another one, which is made.
  bool same_text(int plan, const std::vector<forms::JoinedPart>& parts) const {
    if (plan == this_plan()) return true;
    const SymTable others = narrowed(module_.syms, set_.plans[static_cast<size_t>(plan)].ranges);
    return std::all_of(parts.begin(), parts.end(), [&](const forms::JoinedPart& p) {
      const loop::Kernel& k = module_.kernels[p.kernel];
      const auto text = [&](const SymTable& syms) {
        return p.choice.form->source({k, syms, options_.goal.machine, options_.goal.numerics}, p.choice, "k");
      };
      return text(others) == text(syms_);
    });
  }

  int config_of(KernelId id, const forms::Choice& choice, const forms::StepSpec& step) {
    auto& all = set_.configs;
    size_t others = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].kernel != id) continue;
      if (all[i].choice == choice && (step.kind != StepKind::cuda || same_text(all[i].plan, {{id, choice}}))) {
        all[i].max_smem_bytes = std::max(all[i].max_smem_bytes, step.max_smem_bytes);
        return static_cast<int>(i);
      }
      ++others;
    }
    std::string symbol = step.kind == StepKind::cuda ? step.symbol : "";
    if (others && !symbol.empty()) symbol += fmt::format("_c{}", others);
    all.push_back(
        {id, choice, std::nullopt, std::nullopt, std::move(symbol), step.max_smem_bytes, step.kind == StepKind::cuda ? this_plan() : 0});
    return static_cast<int>(all.size() - 1);
  }
  int config_of(forms::Strips strips) {
    auto& all = set_.configs;
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].strips == strips) return static_cast<int>(i);
    all.push_back({kNone<KernelId>, {}, std::move(strips), std::nullopt, "", 0});
    return static_cast<int>(all.size() - 1);
  }
  int config_of(forms::Joined joined, int64_t max_smem_bytes) {
    auto& all = set_.configs;
    int others = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!all[i].joined) continue;
      ++others;
      if (all[i].joined != joined || !same_text(all[i].plan, joined.parts)) continue;
      all[i].max_smem_bytes = std::max(all[i].max_smem_bytes, max_smem_bytes);
      return static_cast<int>(i);
    }
    all.push_back(
        {kNone<KernelId>, {}, std::nullopt, std::move(joined), fmt::format("joined_{}_kernel", others), max_smem_bytes, this_plan()});
    return static_cast<int>(all.size() - 1);
  }

  void add_step(const CallsOfStep& s) {
    if (s.joined) return plan_.steps.push_back(joined_step(*s.joined));
    if (!s.strips) return plan_.steps.push_back(step_of(s.first));
    std::vector<Step> stages;
    for (size_t call = s.first; call < s.last; ++call) stages.push_back(step_of(call, s.strips));
    plan_.steps.push_back(strips_step(*s.strips, stages, syms_));
    plan_.steps.back().config = config_of(strips_of(*s.strips, stages));
  }

  /// How a call is made with a choice, simplified.
  forms::StepSpec spec_of(KernelId kernel, const forms::Choice& choice) const {
    forms::StepSpec s = choice.form->step({module_.kernels[kernel], syms_, options_.goal.machine, options_.goal.numerics}, choice);
    for (Expr* e : {&s.work, &s.grain, &s.scratch_bytes, &s.smem_bytes}) *e = syms_.simplify(*e);
    for (Expr& e : s.sizes) e = syms_.simplify(e);
    for (Expr& e : s.grid) e = syms_.simplify(e);
    for (forms::TensorMap& m : s.maps) {
      m.offset_bytes = syms_.simplify(m.offset_bytes);
      for (Expr& e : m.dims) e = syms_.simplify(e);
      for (Expr& e : m.stride_bytes) e = syms_.simplify(e);
    }
    return s;
  }

  /// The step of a call; within a group without buffers for what is handed on.
  Step step_of(size_t number, const StripGroup* group = nullptr) {
    const loop::Call& c = module_.calls[number];
    const loop::Kernel& k = module_.kernels[c.kernel];
    const forms::Choice& choice = choice_of(c.kernel);
    Step s;
    static_cast<forms::StepSpec&>(s) = spec_of(c.kernel, choice);
    if (s.kind == StepKind::cuda || s.library) s.config = config_of(c.kernel, choice, s);
    if (s.kind == StepKind::cuda) s.symbol = set_.configs[static_cast<size_t>(s.config)].symbol;
    const auto stored = s.kind == StepKind::copy ? std::nullopt : choice.form->weight(k, choice);
    s.kernel = c.kernel;
    s.label = c.label;
    for_each_arg_of_call(number, [&](ParamId p, const loop::Param&, BufferId b, size_t i) {
      const bool handed = group && group->stages[number - group->first].args[i].ptr < 0;
      const auto form = stored && p == stored->first ? std::optional(stored->second) : std::nullopt;
      s.args.push_back(handed ? kNone<PlanBufferId> : planned(b, form));
    });
    return s;
  }

  /// The one launch of several calls.
  Step joined_step(const JoinGroup& group) {
    constexpr size_t kLabels = 3;
    Step s;
    s.kind = StepKind::cuda;
    s.block[0] = forms::Joined::kThreads;
    s.overlaps = true;
    const auto place_of = [](auto& all, const auto& what) {
      const auto at = std::find(all.begin(), all.end(), what);
      const auto place = static_cast<int>(at - all.begin());
      if (at == all.end()) all.push_back(what);
      return place;
    };
    forms::Joined joined;
    joined.beside = group.beside;
    for (size_t call = group.first; call < group.last; ++call) {
      const loop::Call& c = module_.calls[call];
      const forms::Choice& choice = group.choices[call - group.first];
      const forms::StepSpec spec = spec_of(c.kernel, choice);
      forms::JoinedCall& made = joined.calls.emplace_back();
      made.part = place_of(joined.parts, forms::JoinedPart{c.kernel, choice});
      for (BufferId b : c.args) made.args.push_back(place_of(s.args, planned(b, std::nullopt)));
      for (const Expr& e : spec.sizes) made.sizes.push_back(place_of(s.sizes, e));
      s.smem_bytes = syms_.simplify(max(s.smem_bytes, spec.smem_bytes));
      s.max_smem_bytes = std::max(s.max_smem_bytes, spec.max_smem_bytes);
      if (group.beside) s.block = spec.block, joined.threads = spec.block[0], s.grid = spec.grid, s.overlaps = spec.overlaps;
      if (joined.calls.size() <= kLabels) s.label += (s.label.empty() ? "" : "; ") + c.label;
    }
    if (joined.calls.size() > kLabels) s.label += fmt::format("; and {} more", joined.calls.size() - kLabels);
    if (group.beside) s.grid[1] = static_cast<int64_t>(joined.calls.size());
    s.note = group.beside
                 ? fmt::format("{} calls of one kernel are one launch: none needs another's results", joined.calls.size())
                 : fmt::format("{} kernels of one block each are one launch: a barrier takes less than a launch", joined.calls.size());
    s.config = config_of(std::move(joined), s.max_smem_bytes);
    s.symbol = set_.configs[static_cast<size_t>(s.config)].symbol;
    return s;
  }

  void finish_lives() {
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      for (PlanBufferId b : plan_.steps[i].args) {
        LiveRange& l = plan_.buffers[b].live;
        l.begin = std::min(l.begin, static_cast<int>(i));
        l.end = static_cast<int>(i) + 1;
      }
    }
    const int end = static_cast<int>(plan_.steps.size());
    for (PlannedBuffer& b : plan_.buffers) {
      if (b.place == Place::arena) continue;
      const bool made_here = b.place == Place::output || b.place == Place::state_next;
      b.live = {made_here ? std::min(b.live.begin, end) : 0, end};
    }
  }

  /// A result takes over the storage of an operand that dies at its step.
  void reuse_in_place() {
    std::set<BufferId> taken;
    const int steps = static_cast<int>(steps_.size());
    for (int i = 0; i < steps; ++i) {
      std::vector<BufferId> ins, outs;
      for_each_arg(i, [&](ParamId, const loop::Param& p, BufferId b) {
        auto it = buffers_.find(b);
        if (it == buffers_.end() || plan_.buffers[it->second].place != Place::arena) return;
        const PlannedBuffer& x = plan_.buffers[it->second];
        if (p.role == loop::ParamRole::input && x.live.end == i + 1 && uses_[idx(b)].writes.size() > 0) ins.push_back(b);
        if (p.role == loop::ParamRole::output && x.live.begin == i) outs.push_back(b);
      });
      for (BufferId out : outs) {
        for (BufferId in : ins) {
          if (in == out || taken.count(in) || !safe_over(in, out)) continue;
          PlannedBuffer &o = plan_.buffers[buffers_[out]], &x = plan_.buffers[buffers_[in]];
          o.in_place_of = buffers_[in];
          x.live.end = i;
          taken.insert(in);
          break;
        }
      }
    }
  }

  void place() {
    std::vector<MemoryItem> items;
    std::vector<PlanBufferId> ids;
    std::vector<size_t> order, item_of(plan_.buffers.size());
    for (size_t b = 0; b < plan_.buffers.size(); ++b)
      if (plan_.buffers.raw()[b].place == Place::arena) order.push_back(b);
    // In-place items follow what they replace.
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return plan_.buffers.raw()[a].live.begin < plan_.buffers.raw()[b].live.begin; });
    for (size_t b : order) {
      const PlannedBuffer& x = plan_.buffers.raw()[b];
      item_of[b] = items.size();
      MemoryItem m{x.bytes, x.live, std::nullopt};
      if (x.in_place_of) m.in_place_of = item_of[idx(*x.in_place_of)];
      items.push_back(std::move(m));
      ids.push_back(static_cast<PlanBufferId>(b));
    }
    const MemoryPlan memory = plan_memory(items, syms_);
    for (size_t i = 0; i < items.size(); ++i) plan_.buffers[ids[i]].offset = memory.offsets[i];
    plan_.arena_bytes = memory.arena_bytes;
    Expr scratch;
    for (const Step& s : plan_.steps)
      if (s.scratch_bytes != scratch) scratch = syms_.simplify(max(scratch, s.scratch_bytes));
    plan_.scratch_bytes = scratch;
    totals(items);
  }

  /// A step a launch; lives go by steps.
  void repeat_launches() {
    std::vector<Step> all;
    std::vector<int> first;  // of what a step became
    for (const Step& s : plan_.steps) {
      first.push_back(static_cast<int>(all.size()));
      const bool alone = s.kind == StepKind::cuda && !set_.configs[static_cast<size_t>(s.config)].joined;
      const forms::Choice* choice = alone ? &set_.configs[static_cast<size_t>(s.config)].choice : nullptr;
      const auto* repeated = choice ? dynamic_cast<const forms::Repeated*>(choice->form) : nullptr;
      const int launches = repeated ? repeated->launches(module_.kernels[s.kernel], *choice) : 1;
      for (int i = 0; i < launches; ++i) {
        all.push_back(s);
        if (repeated) all.back().sizes.back() = i;
      }
    }
    first.push_back(static_cast<int>(all.size()));
    plan_.steps = std::move(all);
    const auto moved = [&](int step) { return first[std::min(static_cast<size_t>(step), first.size() - 1)]; };
    for (PlannedBuffer& b : plan_.buffers) b.live = {moved(b.live.begin), moved(b.live.end)};
  }

  void totals(const std::vector<MemoryItem>& items) {
    auto top = [&](const Expr& e) {
      auto v =
          e.try_eval([&](SymId s) -> std::optional<int64_t> { return syms_[s].max != kInf ? syms_[s].max : syms_.hint(Expr::symbol(s)); });
      return v.value_or(kInf);
    };
    auto aligned = [&](const Expr& e) {
      const int64_t v = top(e);
      return v == kInf ? v : (v + kArenaAlign - 1) / kArenaAlign * kArenaAlign;
    };
    std::vector<LiveRange> lives;
    std::vector<int64_t> sizes;
    bool known = true;
    for (const MemoryItem& m : items) {
      lives.push_back(m.live);
      sizes.push_back(aligned(m.bytes));
      known &= sizes.back() < (int64_t{1} << 50);
    }
    plan_.arena_bytes_max = top(plan_.arena_bytes);
    plan_.live_bytes_max = known ? largest_live_set(lives, sizes) : kInf;
    plan_.sum_bytes_max = 0;
    for (int64_t s : sizes) plan_.sum_bytes_max = known ? plan_.sum_bytes_max + s : kInf;
  }

  const loop::Module& module_;
  const PlanOptions& options_;
  PlanSet& set_;
  WeightTable& weights_;
  const SymTable& syms_;
  DecisionMap& decisions_;
  const DecisionMap* whole_;
  Plan plan_;
  std::vector<StripGroup> strips_;
  std::vector<JoinGroup> joined_;
  std::vector<CallsOfStep> steps_;  ///< of the plan, without the final copies
  std::vector<Uses> uses_;
  int last_check_ = -1;  ///< the last step that checks a condition
  std::vector<Step> final_copies_;
  std::map<BufferId, PlanBufferId> buffers_;
  std::map<std::pair<BufferId, uint32_t>, PlanBufferId> constant_buffers_;
  std::map<BufferId, std::optional<forms::WeightForm>> panels_read_;
};

/// Throws one Diagnostic (unsupported) with every kernel that no form of the machine takes.
void require_forms(const loop::Module& module, const SymTable& syms, const Goal& goal) {
  std::vector<std::string> refused;
  std::set<KernelId> called;
  for (const loop::Call& c : module.calls) called.insert(c.kernel);
  for (KernelId k : called) try {
      forms::decide({module.kernels[k], syms, goal.machine, goal.numerics});
    } catch (const Diagnostic& d) {
      if (d.code() != ExitCode::unsupported) throw;
      refused.push_back(d.message());
      for (const std::string& why : d.notes()) refused.back() += "; " + why;
    }
  if (refused.empty()) return;
  Diagnostic all(ExitCode::unsupported, {},
                 fmt::format("{} kernel(s) of this model have no {} form", refused.size(), goal.machine.traits().code));
  for (const std::string& r : refused) all.note(r);
  if (goal.machine.traits().device_code) all.note("build this model for the CPU (--cpu), or run the operator outside the model");
  throw all;
}

bool all_zero(const ConstData& c) {
  if (c.exchangeable) return false;
  return std::all_of(c.data, c.data + c.bytes, [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

PlanSet build_plans(const Graph& graph, const loop::Module& module, const PlanOptions& options) {
  PlanSet set;
  set.syms = module.syms;
  for (const loop::Kernel& k : module.kernels) set.kernels.push_back(loop::kernel_name(k));
  set.symbols = symbols_of_inputs(graph);

  WeightTable weights(graph.constants);
  for (const StateInfo& s : graph.states) {
    const bool zero = s.initial == kNone<ConstId> || all_zero(graph.constants[s.initial]);
    set.state_initial.push_back(zero ? -1 : static_cast<int>(weights.add(s.initial)));
  }
  const auto variants = options.variants.empty() ? std::vector<std::vector<SymRange>>{{}} : options.variants;
  for (const auto& ranges : variants) require_forms(module, narrowed(module.syms, ranges), options.goal);
  std::vector<SizeClass> classes = options.size_classes;
  if (classes.empty() && options.classes)
    classes = classes_of(graph, module, variants, options.goal, *options.classes, options.choose);
  else if (classes.empty())
    for (size_t v = 0; v < variants.size(); ++v) classes.push_back({v, variants[v]});
  std::map<size_t, std::map<KernelId, forms::Decision>> whole;  // by variant that has several classes
  for (const SizeClass& of : classes) {
    const bool part = std::count_if(classes.begin(), classes.end(), [&](const SizeClass& c) { return c.variant == of.variant; }) > 1;
    if (part && !whole.count(of.variant))
      whole[of.variant] = decide_all(module, narrowed(module.syms, variants[of.variant]), options.goal, options.choose);
    std::optional<loop::Module> own;
    if (of.calls >= 0) own.emplace(module), own->calls = module.other_calls.at(static_cast<size_t>(of.calls));
    std::map<KernelId, forms::Decision> decisions;
    const SymTable syms = narrowed(module.syms, of.ranges);
    Plan plan = PlanBuilder(own ? *own : module, options, set, weights, syms, decisions, part ? &whole.at(of.variant) : nullptr).build();
    plan.guards = graph.guards;
    if (options.decisions) options.decisions->push_back(std::move(decisions));
    for (SymId s : set.symbols) plan.ranges.push_back({s, syms[s].min, syms[s].max, syms[s].multiple_of});
    for (const SymRange& r : of.ranges) plan.name += (plan.name.empty() ? "" : ", ") + range_text(syms, r);
    if (plan.name.empty()) plan.name = "default";
    set.plans.push_back(std::move(plan));
  }
  set.weights = weights.weights();
  set.weights_bytes = weights.blob_bytes();
  verify(set, "planning");
  return set;
}

}  // namespace aotc::plan
