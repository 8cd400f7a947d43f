#include "plan/size_classes.h"

#include <algorithm>
#include <optional>
#include <set>

#include "plan/verify.h"

namespace aotc::plan {

using forms::Candidate;
using forms::Choice;
using forms::Decision;
using loop::KernelId;

namespace {

constexpr int64_t kLargest = 1 << 16;  ///< sizes beyond are as this one
constexpr double kUnknown = 2;         ///< of the best: a choice that is no candidate at a size

bool stores_alike(const loop::Kernel& kernel, const Choice& a, const Choice& b) {
  const auto x = a.form->weight(kernel, a), y = b.form->weight(kernel, b);
  if (x == y) return true;
  // What is in slabs is so for all forms, for those that find each element themselves, too.
  const auto* k = std::get_if<loop::MatmulKernel>(&kernel);
  const auto is_slabs = [](const auto& w) { return !w || w->second.slabs; };
  return k && k->b_panels_read && is_slabs(x) && is_slabs(y);
}

/// Powers of two, both ends and the tuned sizes, of those that the symbol can have.
std::vector<int64_t> sample_sizes(const SymInfo& s) {
  const int64_t by = std::max<int64_t>(s.multiple_of, 1), top = std::min(s.max, std::max(kLargest, s.min));
  const auto up = [&](int64_t n) { return (n + by - 1) / by * by; };
  std::set<int64_t> sizes = {up(s.min), top / by * by};
  for (int64_t n = 1; n < top; n *= 2) sizes.insert(up(n));
  sizes.insert(s.tune.begin(), s.tune.end());
  std::vector<int64_t> out;
  for (int64_t n : sizes)
    if (n >= s.min && n <= top) out.push_back(n);
  return out;
}

/// What a kernel's candidates cost at each sample size.
struct Costs {
  double calls = 1;
  std::vector<std::vector<Candidate>> at;  ///< those that fit and store the weight as the whole range's choice does, cheapest first
  double of(const Choice& c, size_t point) const {
    for (const Candidate& x : at[point])
      if (x.choice == c) return x.cost_ns;
    return kUnknown * at[point].front().cost_ns;
  }
};

/// The classes of one symbol: cuts between sample sizes.
class Cutter {
 public:
  Cutter(const loop::Module& module, const SymTable& syms, SymId sym, const Goal& goal, const std::map<KernelId, Decision>& whole)
      : tuned_(syms[sym].tune), sizes_(sample_sizes(syms[sym])) {
    std::map<KernelId, double> calls;
    for (const loop::Call& c : module.calls) calls[c.kernel] += 1;
    const auto at_size = [&](int64_t n) {
      SymTable t = syms;
      t.edit(sym).tune = {n};
      return t;
    };
    std::vector<SymTable> tables;
    for (int64_t n : sizes_) tables.push_back(at_size(n));
    for (const auto& [id, n] : calls) {
      const auto w = whole.find(id);
      if (w == whole.end() || sizes_.empty()) continue;
      const loop::Kernel& kernel = module.kernels[id];
      const auto candidates = [&](const SymTable& t) {
        std::vector<Candidate> all = forms::candidates({kernel, t, goal.machine, goal.numerics});
        std::erase_if(all, [&](const Candidate& c) { return !c.fit || !stores_alike(kernel, c.choice, w->second.choice); });
        return all;
      };
      Costs costs{n, {candidates(tables.front()), candidates(tables.back())}};
      if (costs.at[0].empty() || costs.at[1].empty()) continue;
      const Candidate &first = costs.at[0].front(), &last = costs.at[1].front();
      if (first.choice == last.choice && first.cost_ns == last.cost_ns) {
        fixed_ns_ += n * first.cost_ns;
        continue;
      }
      costs.at.resize(1);
      for (size_t p = 1; p < tables.size(); ++p) costs.at.push_back(candidates(tables[p]));
      if (std::none_of(costs.at.begin(), costs.at.end(), [](const auto& c) { return c.empty(); })) kernels_.push_back(std::move(costs));
    }
  }

  /// How much longer the class of samples [first, last] takes at one of them than what is chosen for that one, at most.
  double loss(size_t first, size_t last) const {
    size_t chosen = last;  // the size that the class's choices are made for
    for (size_t p = first; p <= last; ++p)
      if (std::find(tuned_.begin(), tuned_.end(), sizes_[p]) != tuned_.end()) chosen = p;
    double most = 0;
    for (size_t p = first; p <= last; ++p) {
      double best = fixed_ns_, own = fixed_ns_;
      for (const Costs& k : kernels_) {
        best += k.calls * k.at[p].front().cost_ns;
        own += k.calls * k.of(k.at[chosen].front().choice, p);
      }
      most = std::max(most, own / std::max(best, 1e-9) - 1);
    }
    return most;
  }
  double loss() const { return sizes_.empty() ? 0 : loss(0, sizes_.size() - 1); }

  /// The largest size of every class but the last.
  std::vector<int64_t> cuts(double tolerance, int most) const {
    for (;; tolerance *= 1.5) {
      std::vector<int64_t> cuts;
      for (size_t last = sizes_.size(); last-- > 0;) {
        size_t first = last;
        while (first > 0 && loss(first - 1, last) <= tolerance) --first;
        if (first > 0) cuts.push_back(sizes_[first - 1]);
        last = first;
        if (last == 0) break;
      }
      if (static_cast<int>(cuts.size()) < most) {
        std::reverse(cuts.begin(), cuts.end());
        return cuts;
      }
    }
  }

 private:
  std::vector<int64_t> tuned_, sizes_;
  std::vector<Costs> kernels_;  ///< whose costs depend on the symbol
  double fixed_ns_ = 0;         ///< of the others
};

/// Whether every size that these symbols can have is taken by one of the classes.
bool covered(const std::vector<SymTable>& classes, const std::vector<SymId>& symbols, const SymTable& syms) {
  using Box = std::vector<std::pair<int64_t, int64_t>>;  // a range a symbol
  Box all;
  for (SymId s : symbols) all.push_back({syms[s].min, syms[s].max});
  std::vector<Box> left = {all};  // what no class takes
  for (const SymTable& c : classes) {
    const bool whole = std::all_of(symbols.begin(), symbols.end(), [&](SymId s) {
      return std::max<int64_t>(syms[s].multiple_of, 1) % std::max<int64_t>(c[s].multiple_of, 1) == 0;
    });
    std::vector<Box> rest;
    for (Box& b : left) {
      bool meets = whole;
      for (size_t i = 0; i < b.size(); ++i) meets = meets && b[i].first <= c[symbols[i]].max && c[symbols[i]].min <= b[i].second;
      if (!meets) {
        rest.push_back(std::move(b));
        continue;
      }
      for (size_t i = 0; i < b.size(); ++i) {  // what lies below and above the class in each symbol; b shrinks to what it takes
        const SymInfo& r = c[symbols[i]];
        if (b[i].first < r.min) rest.push_back(b), rest.back()[i].second = r.min - 1, b[i].first = r.min;
        if (b[i].second > r.max) rest.push_back(b), rest.back()[i].first = r.max + 1, b[i].second = r.max;
      }
    }
    left = std::move(rest);
  }
  return left.empty();
}

}  // namespace

std::vector<SymId> symbols_of_inputs(const Graph& graph) {
  std::set<SymId> symbols;
  for (const InputInfo& in : graph.inputs)
    for (const Expr& d : graph.type(in.value).dims) symbols.merge(d.symbols());
  return {symbols.begin(), symbols.end()};
}

std::map<KernelId, Decision> decide_all(const loop::Module& module, const SymTable& syms, const Goal& goal, const ChooseFn& choose) {
  std::map<KernelId, Decision> all;
  for (const loop::Call& c : module.calls)
    if (const auto [it, fresh] = all.try_emplace(c.kernel); fresh) {
      const forms::Site site{module.kernels[c.kernel], syms, goal.machine, goal.numerics};
      it->second = choose ? choose(site) : forms::decide(site);
    }
  return all;
}

std::vector<SizeClass> classes_of(const Graph& graph, const loop::Module& module, const std::vector<std::vector<SymRange>>& variants,
                                  const Goal& goal, const ClassRules& rules, const ChooseFn& choose) {
  const std::vector<SymId> symbols = symbols_of_inputs(graph);
  std::vector<SizeClass> all;
  std::vector<SymTable> taken;
  for (size_t v = 0; v < std::max<size_t>(variants.size(), 1); ++v) {
    const std::vector<SymRange> ranges = variants.empty() ? std::vector<SymRange>() : variants[v];
    const SymTable syms = narrowed(module.syms, ranges);
    if (covered(taken, symbols, syms)) continue;
    for (const auto& of : size_classes(module, ranges, goal, decide_all(module, syms, goal, choose), rules)) {
      const SymTable own = narrowed(module.syms, of);
      if (covered(taken, symbols, own)) continue;
      all.push_back({v, of});
      taken.push_back(own);
    }
  }
  return all;
}

Decision with_dense_weight(Decision d, const loop::Kernel& kernel) {
  if (!d.choice.form->weight(kernel, d.choice)) return d;
  for (const Candidate& c : d.candidates)
    if (c.fit && !c.choice.form->weight(kernel, c.choice)) {
      d.choice = c.choice;
      d.by = "cost model";
      break;
    }
  return d;
}

Decision with_stored_form(Decision d, const loop::Kernel& kernel, const Choice& whole) {
  if (stores_alike(kernel, d.choice, whole)) return d;
  for (const Candidate& c : d.candidates)
    if (c.fit && stores_alike(kernel, c.choice, whole)) {
      d.choice = c.choice;
      d.by = "cost model";
      break;
    }
  return d;
}

std::vector<std::vector<SymRange>> size_classes(const loop::Module& module, const std::vector<SymRange>& ranges, const Goal& goal,
                                                const std::map<KernelId, Decision>& whole, const ClassRules& rules) {
  const SymTable syms = narrowed(module.syms, ranges);
  struct Cut {
    size_t range;
    Cutter cutter;
    double loss;
  };
  std::vector<Cut> all;
  for (size_t r = 0; r < ranges.size(); ++r) {
    const SymInfo& s = syms[ranges[r].sym];
    if (s.kind != SymKind::shape || s.min >= s.max) continue;
    Cutter cutter(module, syms, ranges[r].sym, goal, whole);
    const double loss = cutter.loss();
    if (loss > rules.tolerance) all.push_back({r, std::move(cutter), loss});
  }
  std::stable_sort(all.begin(), all.end(), [](const Cut& a, const Cut& b) { return a.loss > b.loss; });
  std::vector<std::vector<SymRange>> classes = {ranges};
  for (const Cut& c : all) {
    // What is left is shared with the symbols that follow.
    const int most = rules.most / static_cast<int>(classes.size()) / (&c == &all.back() ? 1 : 2);
    if (most < 2) break;
    const SymInfo& s = syms[ranges[c.range].sym];
    std::vector<std::vector<SymRange>> finer;
    for (const std::vector<SymRange>& of : classes) {
      int64_t from = s.min;
      std::vector<int64_t> ends = c.cutter.cuts(rules.tolerance, most);
      ends.push_back(s.max);
      for (int64_t end : ends) {
        finer.push_back(of);
        finer.back()[c.range].min = from, finer.back()[c.range].max = end;
        from = end + 1;
      }
    }
    classes = std::move(finer);
  }
  return classes;
}

}  // namespace aotc::plan
