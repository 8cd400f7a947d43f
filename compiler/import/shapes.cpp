#include "import/shapes.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "graph/guard.h"
#include "import/bind_symbols.h"
#include "import/size_conditions.h"
#include "import/substitute.h"

namespace aotc::import {
namespace {

std::string range_text(int64_t min, int64_t max, int64_t multiple_of = 1) {
  std::string s = min == max ? fmt::format("{}", min) : fmt::format("{} to {}", min, max == kInf ? "any size" : std::to_string(max));
  if (multiple_of > 1) s += fmt::format(" by {}", multiple_of);
  return s;
}

/// value = slope * symbol + offset
struct Linear {
  SymId symbol;
  int64_t slope, offset;
  /// Smallest and largest symbol whose value is at least, at most, this.
  int64_t least(int64_t value) const { return -most_of(offset - value); }
  int64_t most(int64_t value) const { return most_of(value - offset); }

 private:
  int64_t most_of(int64_t room) const { return room >= 0 ? room / slope : -((-room + slope - 1) / slope); }
};
std::optional<Linear> linear(const Expr& e) {
  const std::set<SymId> open = e.symbols();
  if (open.size() != 1) return std::nullopt;
  const SymId s = *open.begin();
  const auto slope = e.linear_coefficient(s);
  const auto offset = e.substitute({{s, Expr(0)}}).as_const();
  if (!slope || !slope->is_const() || !offset) return std::nullopt;
  const int64_t a = slope->as_const().value_or(0);
  if (a <= 0) return std::nullopt;
  return Linear{s, a, *offset};
}

class Binder {
 public:
  Binder(Program& p, const ShapesSpec& spec) : p_(p), spec_(spec) {}

  std::vector<VariantRange> run() {
    for (const auto& [input, shape] : spec_.inputs) bind_input(input, shape);
    for (const auto& [name, d] : spec_.dims)
      if (!names_.count(name)) throw fault("$.dims." + name, "no input uses this dimension");
    for (const auto& [name, d] : spec_.dims) narrow(name, d);
    fix_single_values();
    check_guards();
    std::vector<VariantRange> out;
    for (size_t i = 0; i < spec_.variants.size(); ++i)
      if (const auto v = variant(i)) out.push_back(*v);
    narrow_by_guards();
    std::erase_if(out, [&](VariantRange& v) { return !clip(v); });
    rename();
    out.push_back(whole());
    return out;
  }

  VariantRange whole() const {
    VariantRange v;
    for (const SymId s : input_symbols(p_)) {
      const SymInfo& i = p_.syms[s];
      v.ranges[s] = {i.min, i.max, i.multiple_of, i.tune};
    }
    return v;
  }

 private:
  Diagnostic fault(std::string path, std::string why) const { return {Loc{.file = spec_.file, .path = std::move(path)}, std::move(why)}; }

  /// "s77 (2 to 64)" or "1024": what the archive says of a dimension.
  std::string archive_text(const Expr& e) const {
    if (e.is_const()) return e.str(p_.syms);
    const Interval i = p_.syms.interval(e);
    return fmt::format("{} ({})", e.str(p_.syms), range_text(i.min, i.max));
  }

  void bind_input(const std::string& input, const std::vector<InputDim>& shape) {
    const std::string path = "$.inputs." + input;
    const auto it = std::find_if(p_.inputs.begin(), p_.inputs.end(),
                                 [&](const ProgramInput& in) { return in.kind == InputKind::user && in.name == input; });
    if (it == p_.inputs.end()) {
      std::string known;
      for (const ProgramInput& in : p_.inputs)
        if (in.kind == InputKind::user) known += (known.empty() ? "" : ", ") + in.name;
      throw fault(path, "the model has no such input").note("its inputs: " + known);
    }
    const size_t rank = p_.tensors.at(input).sizes.size();
    if (shape.size() != rank) throw fault(path + ".shape", fmt::format("{} dimensions, the archive's input has {}", shape.size(), rank));
    for (size_t d = 0; d < rank; ++d) {
      const std::string at = fmt::format("{}.shape[{}]", path, d);
      const Expr archive = p_.tensors.at(input).sizes[d];  // as bound so far
      if (const int64_t* n = std::get_if<int64_t>(&shape[d]))
        fix(archive, *n, at);
      else
        bind_name(std::get<std::string>(shape[d]), archive, at);
    }
  }

  /// The archive's dimension is this number.
  void fix(const Expr& archive, int64_t n, const std::string& at) {
    if (archive.is(n)) return;
    const auto bound = solve(archive, n, {});
    if (!bound) throw fault(at, fmt::format("{} is not what the archive says: {}", n, archive_text(archive)));
    const SymInfo& s = p_.syms[bound->first];
    if (bound->second < s.min || bound->second > s.max || bound->second % s.multiple_of != 0)
      throw fault(at, fmt::format("{} is not within the archive's range: {}", n, archive_text(archive)));
    replace({{bound->first, Expr(bound->second)}});
  }

  void bind_name(const std::string& name, const Expr& archive, const std::string& at) {
    const auto known = names_.find(name);
    if (known == names_.end()) {
      for (const auto& [other, e] : names_)
        if (!e.is_const() && e == archive)
          throw fault(at, fmt::format("\"{}\" and \"{}\" are one size in the archive: {}", name, other, archive_text(archive)))
              .note("use one name for both");
      if (archive.is_const()) {
        const auto d = spec_.dims.find(name);
        const int64_t k = archive.as_const().value_or(0);
        const bool fits = d == spec_.dims.end() || (std::max<int64_t>(d->second.min, 1) == k && d->second.max == k);
        if (!fits)
          throw fault(at, fmt::format("\"{}\" is {}, but the archive fixes this dimension at {}", name,
                                      range_text(std::max<int64_t>(d->second.min, 1), d->second.max.value_or(kInf)), k))
              .note("export the model with dynamic_shapes for this dimension, or write the number");
      }
      names_.emplace(name, archive);
      return;
    }
    const Expr before = known->second;
    if (before == archive) return;
    // One name for two sizes: they become equal.
    if (const auto c = before.as_const()) return fix(archive, *c, at);
    if (const auto c = archive.as_const()) return fix(before, *c, at);
    for (const auto& [from, to] : {std::pair{archive, before}, std::pair{before, archive}}) {
      const auto s = from.as_symbol();
      if (!s || to.depends_on(*s)) continue;
      const SymInfo i = p_.syms[*s];
      constrain(to, {i.min, i.max == kInf ? std::nullopt : std::optional(i.max), i.multiple_of, {}}, at);
      replace({{*s, to}});
      return;
    }
    throw fault(at, fmt::format("\"{}\" cannot be both {} and {}", name, archive_text(before), archive_text(archive)));
  }

  /// Narrows the symbol of `e` so that e lies within d; silent where e already does.
  void constrain(const Expr& e, const DimSpec& d, const std::string& at) {
    const auto l = linear(e);
    if (!l) throw fault(at, fmt::format("a range for {} cannot be turned into one for its symbols", archive_text(e)));
    SymInfo& s = p_.syms.edit(l->symbol);
    s.min = std::max(s.min, l->least(d.min));
    if (d.max) s.max = std::min(s.max, l->most(*d.max));
    if (d.multiple_of > 1) {
      if (l->offset % d.multiple_of != 0) throw fault(at, fmt::format("{} is never a multiple of {}", archive_text(e), d.multiple_of));
      s.multiple_of = std::lcm(s.multiple_of, d.multiple_of / std::gcd(d.multiple_of, l->slope));
    }
    for (const int64_t t : d.tune)
      if ((t - l->offset) % l->slope == 0) s.tune.push_back((t - l->offset) / l->slope);
    if (s.max != kInf && (s.min > s.max || s.max / s.multiple_of * s.multiple_of < s.min))
      throw fault(at, fmt::format("no size is left: {} within the archive's {}", range_text(d.min, d.max.value_or(kInf), d.multiple_of),
                                  archive_text(e)));
  }

  void narrow(const std::string& name, const DimSpec& d) {
    const Expr& e = names_.at(name);
    const std::string at = "$.dims." + name;
    const Interval archive = p_.syms.interval(e);
    if (d.min != 0 && d.min < archive.min)
      throw fault(at + ".min", fmt::format("{} is below the archive's range: {}", d.min, archive_text(e)))
          .note("a range may be narrowed, never widened");
    if (d.max && *d.max > archive.max)
      throw fault(at + ".max", fmt::format("{} is above the archive's range: {}", *d.max, archive_text(e)))
          .note("a range may be narrowed, never widened");
    if (e.is_const()) {
      const int64_t k = e.as_const().value_or(0);
      if (k % d.multiple_of != 0) throw fault(at + ".multiple_of", fmt::format("the dimension is {}", k));
      return;
    }
    constrain(e, d, at);
  }

  void fix_single_values() {
    SymMap fixed;
    for (const SymId s : input_symbols(p_))
      if (p_.syms[s].min == p_.syms[s].max) fixed.emplace(s, Expr(p_.syms[s].min));
    replace(fixed);
  }

  void replace(const SymMap& with) {
    substitute(p_, with);
    for (auto& [name, e] : names_) e = e.substitute(with);
  }

  void check_guards() {
    std::erase_if(p_.guards, [&](const ShapeGuard& g) {
      if (may_be_negative(p_, g)) return false;
      const std::optional<bool> holds = decided(g, p_.syms);
      if (holds == false)
        throw fault("$", fmt::format("the sizes contradict a condition of the archive: {}", guard_text(g, p_.syms))).note(g.why);
      return holds == true;
    });
    decide_conditions(p_);
  }

  /// What guards say about one symbol alone becomes its range: the run's message then names the dimension.
  void narrow_by_guards() {
    if (!narrow_ranges(p_.syms, p_.guards)) {
      Diagnostic d = fault("$", "the conditions of the archive leave no size");
      for (const ShapeGuard& g : p_.guards) d.note(g.why);
      throw d;
    }
    fix_single_values();
    check_guards();
  }

  /// The variant within the ranges as they are now; false where nothing is left of it.
  bool clip(VariantRange& v) const {
    const std::set<SymId> open = input_symbols(p_);
    for (auto it = v.ranges.begin(); it != v.ranges.end();) {
      const SymInfo& i = p_.syms[it->first];
      DimSpec& r = it->second;
      const int64_t max = std::min(r.max.value_or(kInf), i.max);
      r.min = std::max(r.min, i.min);
      r.max = max;
      r.multiple_of = std::lcm(r.multiple_of, i.multiple_of);
      if (r.min > max || (max != kInf && max - max % r.multiple_of < r.min)) return false;
      it = open.count(it->first) ? std::next(it) : v.ranges.erase(it);
    }
    return true;
  }

  void rename() {
    for (const auto& [name, e] : names_) {
      const auto s = e.as_symbol();
      if (!s) continue;
      if (const auto other = p_.syms.find(name); other && *other != *s) p_.syms.edit(*other).name += "_archive";
      p_.syms.edit(*s).name = name;
    }
    std::function<void(Program&)> share = [&](Program& p) {
      for (Program& s : p.subgraphs) {
        s.syms = p_.syms;
        share(s);
      }
    };
    share(p_);
  }

  /// Nothing when the variant is the whole range, which comes last anyway, or can never be chosen.
  std::optional<VariantRange> variant(size_t i) const {
    VariantRange v = whole();
    bool narrower = false;
    for (const auto& [name, d] : spec_.variants[i]) {
      const std::string at = fmt::format("$.variants[{}].{}", i, name);
      const auto it = names_.find(name);
      if (it == names_.end()) throw fault(at, "no input uses this dimension");
      const Expr& e = it->second;
      const Interval all = p_.syms.interval(e);
      if ((d.min != 0 && d.min < all.min) || (d.max && *d.max > all.max))
        throw fault(at, fmt::format("{} is not within the dimension's range: {}",
                                    range_text(d.min ? d.min : all.min, d.max.value_or(all.max)), archive_text(e)));
      if (e.is_const()) continue;
      const auto l = linear(e);
      if (!l) throw fault(at, fmt::format("a range for {} cannot be turned into one for its symbols", archive_text(e)));
      DimSpec& r = v.ranges.at(l->symbol);
      const DimSpec before = r;
      r.min = std::max(r.min, l->least(d.min));
      if (d.max) r.max = std::min(r.max.value_or(kInf), l->most(*d.max));
      if (d.multiple_of > 1 && l->offset % d.multiple_of == 0)
        r.multiple_of = std::lcm(r.multiple_of, d.multiple_of / std::gcd(d.multiple_of, l->slope));
      const int64_t max = r.max.value_or(kInf);
      if (r.min > max || (max != kInf && max / r.multiple_of * r.multiple_of < r.min)) throw fault(at, "no size is left");
      r.tune.clear();
      for (const int64_t t : d.tune.empty() ? p_.syms[l->symbol].tune : d.tune) {
        const int64_t own = d.tune.empty() ? t : (t - l->offset) / l->slope;
        if (own >= r.min && own <= max && own % r.multiple_of == 0) r.tune.push_back(own);
      }
      narrower |= r.min != before.min || r.max != before.max || r.multiple_of != before.multiple_of;
    }
    if (!narrower) return std::nullopt;
    return v;
  }

  Program& p_;
  const ShapesSpec& spec_;
  std::map<std::string, Expr> names_;
};

}  // namespace

std::set<SymId> input_symbols(const Program& program) {
  std::set<SymId> out;
  for (const ProgramInput& in : program.inputs) {
    if (in.kind == InputKind::user)
      for (const Expr& e : program.tensors.at(in.name).sizes) out.merge(e.symbols());
    if (const Expr* e = std::get_if<Expr>(&in.constant)) out.merge(e->symbols());
  }
  return out;
}

std::vector<VariantRange> apply_shapes(Program& program, const std::optional<ShapesSpec>& spec) {
  return Binder(program, spec ? *spec : ShapesSpec{}).run();
}

}  // namespace aotc::import
