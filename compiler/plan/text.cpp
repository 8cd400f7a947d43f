#include "plan/text.h"

#include <algorithm>

#include "plan/spelling.h"

namespace aotc::plan {

namespace {

std::string bytes_text(int64_t b) {
  if (b == kInf) return "unbounded";
  if (b >= 10 << 20) return fmt::format("{:.1f} MB", static_cast<double>(b) / (1 << 20));
  if (b >= 10 << 10) return fmt::format("{:.1f} KB", static_cast<double>(b) / (1 << 10));
  return fmt::format("{} B", b);
}

/// One row a buffer, by offset; a column is one or more steps, a letter where the buffer lives.
std::string arena_map(const Plan& plan, const SymTable& syms) {
  constexpr int kColumns = 72;
  std::vector<PlanBufferId> arena;
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers.raw()[i].place == Place::arena) arena.push_back(static_cast<PlanBufferId>(i));
  if (arena.empty()) return {};
  auto at = [&](PlanBufferId b) { return syms.hint(plan.buffers[b].offset); };
  std::stable_sort(arena.begin(), arena.end(), [&](PlanBufferId a, PlanBufferId b) {
    return std::pair(at(a), plan.buffers[a].live.begin) < std::pair(at(b), plan.buffers[b].live.begin);
  });
  const int steps = static_cast<int>(plan.steps.size()), per = (steps + kColumns - 1) / kColumns, columns = (steps + per - 1) / per;
  std::string s = fmt::format("arena, by offset; a column is {} step{}:\n", per, per == 1 ? "" : "s");
  for (PlanBufferId id : arena) {
    const PlannedBuffer& b = plan.buffers[id];
    std::string row(static_cast<size_t>(columns), '.');
    for (int c = b.live.begin / per; c <= (std::max(b.live.end, b.live.begin + 1) - 1) / per; ++c)
      row[static_cast<size_t>(c)] = b.in_place_of ? '=' : '#';
    s += fmt::format("  {:>10} {:>10} |{}| {}\n", at(id), bytes_text(syms.hint(b.bytes)), row, b.name);
  }
  return s;
}

/// What a reader wants to know and no parser needs.
std::string remarks(const Plan& plan, const Scope& scope) { return summary(plan) + "\n" + arena_map(plan, scope.syms); }

class Printer {
 public:
  explicit Printer(const PlanSet& set) : scope_(set) {}

  std::string run() {
    line("plans");
    block(scope_);
    return std::move(out_);
  }

 private:
  void line(const std::string& text) { out_ += std::string(indent_, ' ') + text + '\n'; }

  template <HasFields S>
  void block(const S& s) {
    for_each_field<S>([&]<class F>(const F& f) {
      if constexpr (kIsRows<F>)
        list(f.name, s.*f.member);
      else if (f.presence != Presence::positional && !is_default(s, f))
        line(fmt::format("{} {}", f.name, spell(s.*f.member, scope_)));
    });
    if constexpr (requires { remarks(s, scope_); }) {
      const std::string text = remarks(s, scope_);
      for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
        end = std::min(text.find('\n', begin), text.size());
        line("# " + text.substr(begin, end - begin));
      }
    }
  }

  void list(std::string_view, const SymTable& syms) {
    for (size_t i = 0; i < syms.size(); ++i) line(symbol_text(syms[static_cast<SymId>(i)]));
  }
  template <class T>
  void list(std::string_view name, const std::vector<T>& all) {
    for (size_t i = 0; i < all.size(); ++i) row(fmt::format("{} {}", name, i), all[i]);
  }
  template <class Id, class T>
  void list(std::string_view name, const IdVec<Id, T>& all) {
    for (size_t i = 0; i < all.size(); ++i) row(fmt::format("{} {}", name, spell(static_cast<Id>(i), scope_)), all.raw()[i]);
  }
  template <class T>
  void row(const std::string& head, const T& v) {
    if constexpr (!HasFields<T>) {
      line(head + ' ' + spell(v, scope_));
    } else if constexpr (!kHasRows<T>) {
      line(head + ' ' + fields_text(v, scope_));
    } else {
      line(head + ' ' + fields_text(v, scope_, true) + " {");
      indent_ += 2;
      block(v);
      indent_ -= 2;
      line("}");
    }
  }

  const PlanSet& scope_;
  std::string out_;
  size_t indent_ = 0;
};

}  // namespace

std::string summary(const Plan& plan) {
  const double over = plan.live_bytes_max > 0 && plan.live_bytes_max != kInf
                          ? 100.0 * (static_cast<double>(plan.arena_bytes_max) / static_cast<double>(plan.live_bytes_max) - 1)
                          : 0;
  return fmt::format("arena {} ({:+.1f} % of the largest live set {}), all buffers {}", bytes_text(plan.arena_bytes_max), over,
                     bytes_text(plan.live_bytes_max), bytes_text(plan.sum_bytes_max));
}

std::string print(const PlanSet& set) { return Printer(set).run(); }

std::string print(const forms::WeightForm& form) { return spell(form, Scope{}); }

}  // namespace aotc::plan
