#include "plan/verify.h"

#include <algorithm>
#include <set>

#include "aotc/detail/plan_format.h"
#include "aotc/detail/strips_abi.h"
#include "graph/guard.h"
#include "plan/memory.h"
#include "plan/packing.h"

namespace aotc::plan {

namespace {

/// Values worth trying for one symbol.
std::vector<int64_t> samples_of(const SymInfo& s) {
  const int64_t m = std::max<int64_t>(s.multiple_of, 1);
  const int64_t low = (s.min + m - 1) / m * m;
  std::set<int64_t> v = {low, low + m, low + 2 * m};
  const int64_t top = s.max == kInf ? std::max<int64_t>(low * 4, 1024) / m * m : s.max / m * m;
  v.insert(top);
  v.insert((low + top) / 2 / m * m);
  v.insert(s.tune.begin(), s.tune.end());
  std::vector<int64_t> r;
  for (int64_t x : v)
    if (x >= s.min && x <= s.max && x % m == 0) r.push_back(x);
  if (r.empty()) r.push_back(s.min);
  return r;
}

class Checker {
 public:
  Checker(const Plan& p, const SymTable& syms, std::string_view after) : plan_(p), syms_(syms), after_(after) {}

  void structure() const {
    for (const PlannedBuffer& b : plan_.buffers) {
      AOTC_CHECK(b.live.begin <= b.live.end && b.live.end <= static_cast<int>(plan_.steps.size()), "after {}: {} lives outside the steps",
                 after_, b.name);
      if (!b.in_place_of) continue;
      AOTC_CHECK(plan_.buffers.contains(*b.in_place_of), "after {}: {} is in place of nothing", after_, b.name);
      const PlannedBuffer& o = plan_.buffers[*b.in_place_of];
      AOTC_CHECK(o.live.end == b.live.begin && o.place == b.place && o.offset == b.offset, "after {}: a wrong in-place pair", after_);
    }
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const Step& s = plan_.steps[i];
      const bool needs_two = s.kind == StepKind::copy;
      AOTC_CHECK(!needs_two || s.args.size() == 2, "after {}: copy step {} has {} arguments", after_, i, s.args.size());
      AOTC_CHECK(std::all_of(s.block.begin(), s.block.end(), [](int b) { return b >= 1; }), "after {}: step {} has an empty block", after_,
                 i);
      for (const forms::TensorMap& m : s.maps) {
        const size_t rank = m.dims.size();
        AOTC_CHECK(m.arg < static_cast<int>(s.args.size()), "after {}: step {} has a tensor map of no argument", after_, i);
        const bool windows = !m.steps.empty();
        AOTC_CHECK(rank >= 2 && rank <= AOTC_MAP_MAX_RANK && m.stride_bytes.size() == rank - 1 && m.box.size() == (windows ? 2 : rank),
                   "after {}: step {} has a tensor map of unequal ranks", after_, i);
        for (const std::vector<int32_t>* list : {&m.lower, &m.upper, &m.steps})
          AOTC_CHECK(list->size() == (windows ? rank - 2 : 0), "after {}: step {} has a tensor map of unequal windows", after_, i);
        AOTC_CHECK(std::all_of(m.box.begin(), m.box.end(), [](int b) { return b >= 1 && b <= 256; }),
                   "after {}: step {} has a tensor map with a box that no copy takes", after_, i);
      }
      for (PlanBufferId b : s.args) {
        AOTC_CHECK(plan_.buffers.contains(b), "after {}: step {} has an unknown argument", after_, i);
        const PlannedBuffer& x = plan_.buffers[b];
        // A buffer whose storage is taken over at this step is still read by it, by all of its launches.
        const bool handed_over = std::any_of(s.args.begin(), s.args.end(), [&](PlanBufferId o) {
          return plan_.buffers.contains(o) && plan_.buffers[o].in_place_of == b && launches_of_one(plan_.buffers[o].live.begin, i);
        });
        AOTC_CHECK(x.live.begin <= static_cast<int>(i) && (handed_over || static_cast<int>(i) < x.live.end),
                   "after {}: step {} ({}) uses buffer {} outside its life", after_, i, s.label, idx(b));
      }
    }
  }

  /// Whether the steps from `first` to `i` are launches of one kernel with the same arguments.
  bool launches_of_one(int first, size_t i) const {
    if (first > static_cast<int>(i)) return false;
    const Step& s = plan_.steps[i];
    return std::all_of(plan_.steps.begin() + first, plan_.steps.begin() + static_cast<std::ptrdiff_t>(i),
                       [&](const Step& x) { return x.kind == s.kind && x.config == s.config && x.args == s.args; });
  }

  void at(const std::map<SymId, int64_t>& point) const {
    const auto evaluate = [&](const Expr& e) {
      return e.try_eval([&](SymId s) -> std::optional<int64_t> {
        auto it = point.find(s);
        AOTC_CHECK(it != point.end(), "after {}: a size of the symbol {}, which no input has", after_, syms_[s].name);
        return it->second;
      });
    };
    // Sizes that overflow are refused by a run.
    if (!evaluate(plan_.arena_bytes) || !evaluate(plan_.scratch_bytes)) return;
    for (const PlannedBuffer& b : plan_.buffers)
      if (!evaluate(b.bytes) || !evaluate(b.offset)) return;
    for (const Step& s : plan_.steps) {
      if (!evaluate(s.work) || !evaluate(s.grain) || !evaluate(s.scratch_bytes) || !evaluate(s.smem_bytes)) return;
      for (const Expr& e : s.grid)
        if (!evaluate(e)) return;
      for (const forms::TensorMap& m : s.maps) {
        for (const Exprs* list : {&m.dims, &m.stride_bytes})
          for (const Expr& e : *list)
            if (!evaluate(e)) return;
        if (!evaluate(m.offset_bytes)) return;
      }
    }
    auto value = [&](const Expr& e, const char* what) {
      const int64_t v = *evaluate(e);
      AOTC_CHECK(v >= 0, "after {}: {} is {} at {}", after_, what, v, describe(point));
      return v;
    };
    const int64_t arena = value(plan_.arena_bytes, "arena_bytes");
    struct Item {
      LiveRange live;
      int64_t begin, end;
    };
    std::vector<Item> items;
    for (const PlannedBuffer& b : plan_.buffers) {
      const int64_t bytes = value(b.bytes, "the size of a buffer");
      if (b.place != Place::arena) continue;
      const int64_t offset = value(b.offset, "an offset");
      AOTC_CHECK(offset % kArenaAlign == 0, "after {}: offset {} is not aligned at {}", after_, offset, describe(point));
      AOTC_CHECK(offset + bytes <= arena, "after {}: a buffer ends outside the arena at {}", after_, describe(point));
      if (bytes > 0) items.push_back({b.live, offset, offset + bytes});
    }
    std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.begin < b.begin; });
    for (size_t i = 0; i < items.size(); ++i) {
      for (size_t j = i + 1; j < items.size() && items[j].begin < items[i].end; ++j)
        AOTC_CHECK(!overlap(items[i].live, items[j].live), "after {}: two live buffers share [{}, {}) at {}", after_, items[j].begin,
                   items[i].end, describe(point));
    }
    for (const Step& s : plan_.steps) {
      if (s.kind == StepKind::copy || s.kind == StepKind::zero) continue;
      value(s.work, "the work of a step");
      AOTC_CHECK(value(s.grain, "the grain of a step") >= 1, "after {}: grain below 1", after_);
      value(s.scratch_bytes, "the scratch of a step");
      value(s.smem_bytes, "the shared memory of a step");
      int64_t blocks = 1;
      for (const Expr& e : s.grid) blocks *= value(e, "the grid of a step") > 0;
      if (blocks == 0) continue;  // no launch, no maps
      for (const forms::TensorMap& m : s.maps) {
        AOTC_CHECK(value(m.offset_bytes, "the offset of a tensor map") % 16 == 0, "after {}: a tensor map begins at {}", after_,
                   *evaluate(m.offset_bytes));
        for (const Expr& e : m.dims) AOTC_CHECK(value(e, "a size of a tensor map") > 0, "after {}: a tensor map of nothing", after_);
        for (const Expr& e : m.stride_bytes)
          AOTC_CHECK(value(e, "a stride of a tensor map") % 16 == 0, "after {}: a tensor map of {} has a stride of {} bytes", after_,
                     s.label, *evaluate(e));
      }
    }
    AOTC_CHECK(value(plan_.scratch_bytes, "scratch_bytes") >= 0);
  }

 private:
  std::string describe(const std::map<SymId, int64_t>& point) const {
    std::string s;
    for (const auto& [id, v] : point) s += fmt::format("{}{}={}", s.empty() ? "" : ", ", syms_[id].name, v);
    return s.empty() ? "the only shape" : s;
  }

  const Plan& plan_;
  const SymTable& syms_;
  std::string_view after_;
};

}  // namespace

SymTable narrowed(const SymTable& syms, const std::vector<SymRange>& ranges) {
  SymTable r = syms;
  for (const SymRange& x : ranges) {
    SymInfo& s = r.edit(x.sym);
    s.min = std::max(s.min, x.min);
    s.max = std::min(s.max, x.max);
    if (x.multiple_of > 1 && x.multiple_of % std::max<int64_t>(s.multiple_of, 1) == 0) s.multiple_of = x.multiple_of;
    AOTC_CHECK(s.min <= s.max, "an empty range of {}", s.name);
    s.tune.erase(std::remove_if(s.tune.begin(), s.tune.end(), [&](int64_t t) { return t < s.min || t > s.max || t % s.multiple_of; }),
                 s.tune.end());
  }
  return r;
}

std::vector<std::map<SymId, int64_t>> sample_points(const SymTable& syms, const std::vector<SymId>& symbols) {
  std::vector<std::map<SymId, int64_t>> points(1);
  if (symbols.empty()) return points;
  std::vector<std::vector<int64_t>> values;
  size_t longest = 0;
  for (SymId s : symbols) {
    values.push_back(samples_of(syms[s]));
    longest = std::max(longest, values.back().size());
  }
  points.clear();
  // All together from small to large, then each symbol against the others.
  for (size_t i = 0; i < longest; ++i) {
    for (size_t shift = 0; shift < (symbols.size() == 1 ? 1 : 3); ++shift) {
      std::map<SymId, int64_t> p;
      for (size_t k = 0; k < symbols.size(); ++k) p[symbols[k]] = values[k][(i + shift * k * (k + 1)) % values[k].size()];
      points.push_back(std::move(p));
    }
  }
  for (size_t k = 0; k < symbols.size() && symbols.size() > 1; ++k) {
    std::map<SymId, int64_t> p;
    for (size_t q = 0; q < symbols.size(); ++q) p[symbols[q]] = q == k ? values[q].back() : values[q].front();
    points.push_back(std::move(p));
  }
  return points;
}

/// Of the config with number `own`.
static void verify(const forms::Strips& s, size_t own, std::string_view after) {
  const size_t stages = s.stages.size();
  AOTC_CHECK(stages >= 2 && stages <= AOTC_STRIP_MAX_STAGES && s.scratch_bytes % 64 == 0, "after {}: strips of {} stages", after, stages);
  for (const forms::StripStage& x : s.stages)
    AOTC_CHECK(static_cast<size_t>(x.config) < own && x.args.size() <= AOTC_STRIP_MAX_ARGS && x.sizes <= AOTC_STRIP_MAX_SIZES &&
                   static_cast<size_t>(x.x) < x.args.size(),
               "after {}: a stage of strips that is no call", after);
}

static void verify(const forms::Joined& j, const PlanSet& set, std::string_view after) {
  AOTC_CHECK(j.calls.size() >= 2 && !j.parts.empty() && j.parts.size() <= forms::Joined::kMostParts,
             "after {}: {} kernels joined in {} calls", after, j.parts.size(), j.calls.size());
  AOTC_CHECK(!j.beside || j.parts.size() == 1, "after {}: {} kernels beside each other", after, j.parts.size());
  for (const forms::JoinedPart& p : j.parts)
    AOTC_CHECK(idx(p.kernel) < set.kernels.size() && p.choice.form && p.choice.form->is_part() && forms::check(p.choice),
               "after {}: a kernel that no launch is joined of", after);
  for (const forms::JoinedCall& c : j.calls)
    AOTC_CHECK(static_cast<size_t>(c.part) < j.parts.size(), "after {}: a joined call of no kernel", after);
}

void verify(const PlanSet& set, std::string_view after) {
  for (size_t i = 0; i < set.configs.size(); ++i) {
    const KernelConfig& c = set.configs[i];
    AOTC_CHECK(c.plan >= 0 && static_cast<size_t>(c.plan) < std::max<size_t>(1, set.plans.size()), "after {}: a config of plan {}", after,
               c.plan);
    if (c.strips) {
      verify(*c.strips, i, after);
      continue;
    }
    if (c.joined) {
      verify(*c.joined, set, after);
      continue;
    }
    AOTC_CHECK(idx(c.kernel) < set.kernels.size(), "after {}: a config of no kernel", after);
    const Fit fit = forms::check(c.choice);
    AOTC_CHECK(fit, "after {}: the config of {}: {}", after, set.kernels[idx(c.kernel)], fit.why);
  }
  uint64_t end = 0;
  for (const Weight& w : set.weights) {
    AOTC_CHECK(w.offset >= end && w.bytes <= set.weights_bytes && w.offset <= set.weights_bytes - w.bytes,
               "after {}: weight {} lies in another one or outside the blob", after, w.name);
    end = w.offset + w.bytes;
    if (!w.panels) continue;
    for (const Panels::Matrix& m : w.panels->matrices)
      AOTC_CHECK(!w.panels->slabs || (w.panels->bits && w.panels->rows.at(m.rows).inner >= w.panels->rows[m.rows].count),
                 "after {}: slabs of weight {} have no bits, or rows apart", after, w.name);
    for (const Panels::Matrix& m : w.panels->matrices)
      AOTC_CHECK(
          m.rows < w.panels->rows.size() && (!w.panels->column_groups || w.panels->rows[m.rows].count % w.panels->rows[m.rows].inner == 0),
          "after {}: a matrix of weight {} has no rows, or parts of a group", after, w.name);
  }
  for (int w : set.state_initial)
    AOTC_CHECK(w >= -1 && w < static_cast<int>(set.weights.size()), "after {}: a state starts with weight {}", after, w);
  for (const Plan& p : set.plans) {
    for (const Step& s : p.steps) {
      AOTC_CHECK(s.config < static_cast<int>(set.configs.size()), "after {}: plan {} uses config {}", after, p.name, s.config);
      AOTC_CHECK(s.kernel == kNone<loop::KernelId> || idx(s.kernel) < set.kernels.size(), "after {}: a step of no kernel", after);
    }
    for (const PlannedBuffer& b : p.buffers)
      AOTC_CHECK(b.place != Place::weight || b.index < set.weights.size(), "after {}: {} is weight {}", after, b.name, b.index);
    verify(p, set.syms, after);
  }
}

void verify(const Plan& plan, const SymTable& syms, std::string_view after) {
  const Checker check(plan, syms, after);
  check.structure();
  std::vector<SymId> symbols;
  for (const SymRange& r : plan.ranges) symbols.push_back(r.sym);
  const SymTable ranges = narrowed(syms, plan.ranges);
  std::set<std::map<SymId, int64_t>> seen;
  for (const auto& point : sample_points(ranges, symbols))
    if (const auto run = sizes_near(ranges, plan.guards, point); run && seen.insert(*run).second) check.at(*run);
}

}  // namespace aotc::plan
