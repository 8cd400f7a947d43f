#include "import/reference_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/words.h"
#include "import/aliases.h"
#include "import/reference_values.h"
#include "import/shared_storage.h"
#include "import/torch_functions.h"
#include "import/torch_values.h"
#include "import/written_storage.h"

namespace aotc::import {
namespace {

/// Checks of types and devices that were right at export; element types differ on purpose in f64.
constexpr std::string_view kSkipped =
    "aten._assert_tensor_metadata.default aten.sym_constrain_range.default aten.sym_constrain_range_for_size.default "
    "aten._assert_scalar.default";

constexpr std::string_view kAntialiased =
    "aten._upsample_bilinear2d_aa.default aten._upsample_bilinear2d_aa.vec aten._upsample_bicubic2d_aa.default "
    "aten._upsample_bicubic2d_aa.vec";

/// Builds the plan of one graph.
class Planner {
 public:
  Planner(const Program& p, const ReferenceOptions& options) : p_(p), options_(options), f64_(options.f64) {}

  GraphPlan plan() {
    GraphPlan g;
    g.program = &p_;
    for (const ProgramInput& in : p_.inputs) {
      const bool tensor = in.kind != InputKind::user_scalar;
      g.inputs.push_back(tensor ? slot(in.name) : -1);
      if (!tensor)
        if (const Expr* e = std::get_if<Expr>(&in.constant)) bound_.merge(e->symbols());
      if (in.kind == InputKind::user)
        for (const Expr& e : p_.tensors.at(in.name).sizes) bound_.merge(e.symbols());
    }
    for (const PNode& n : p_.nodes) {
      if (has_word(kSkipped, n.target)) continue;
      g.steps.push_back(step(n));
    }
    for (const ProgramOutput& o : p_.outputs) g.outputs.push_back(argument(o.value, c10::TypeKind::AnyType));
    g.slots = slots_.size();
    add_last_uses(g);
    for (const Program& s : p_.subgraphs) g.subgraphs.push_back(Planner(s, options_).plan());
    return g;
  }

 private:
  int slot(const std::string& name) { return slots_.emplace(name, static_cast<int>(slots_.size())).first->second; }

  Step step(const PNode& n) {
    Step s;
    s.node = &n;
    s.scalar = find_scalar_op(n.target);
    s.control = n.target == "higher_order.cond"         ? Control::cond
                : n.target == "higher_order.while_loop" ? Control::while_loop
                                                        : Control::none;
    s.map = find_map_node(n.target);
    s.stand_in = find_stand_in(n.target, f64_);
    if (!s.scalar && s.control == Control::none && !s.map && !s.stand_in) {
      s.op = find_operator(n.target);
      if (!s.op)
        throw Diagnostic(ExitCode::unsupported, Loc{.file = p_.file, .node = n.name, .source = n.source},
                         fmt::format("{} cannot be run: LibTorch does not know it", n.target))
            .note(
                "of a custom operator, --torch-library FILE.so (a library that registers it) or --torch-module MODULE (Python, of "
                "torch.library.custom_op) gives the reference");
      if ((f64_ || options_.bf16) && n.target == "aten.view.dtype") s.bits_of = bits_of(n);
    }
    s.turns_narrow_images = has_word(kAntialiased, n.target);
    for (size_t i = 0; i < n.args.size(); ++i) {
      c10::TypeKind kind = c10::TypeKind::AnyType;
      if (s.op) {
        c10::TypePtr t = s.op->schema().arguments().at(i).real_type();
        if (const auto opt = t->cast<c10::OptionalType>()) {
          if (std::holds_alternative<NoneArg>(n.args[i].value)) {
            s.args.emplace_back();  // None
            continue;
          }
          t = opt->getElementType();
        }
        kind = kind_of(t);
      }
      s.args.push_back(argument(n.args[i].value, kind));
      if (s.bits_of && std::holds_alternative<DType>(n.args[i].value)) s.args.back().constant = ivalue_of(n.args[i].value, kind);
    }
    for (const Arg& r : n.results) s.results.push_back(result(r));
    return s;
  }

  /// The type whose bits a view as another type reads. It reads a copy here, through which nothing can be written.
  at::ScalarType bits_of(const PNode& n) const {
    std::map<std::string, std::string> owners;
    for (const ProgramInput& in : p_.inputs)
      if (const std::string* state = state_of(p_, in)) owners[in.name] = *state;
    const auto owner = [&](const std::string& name) { return owners.count(name) ? owners.at(name) : name; };
    const auto first = [](const PNode& m) { return m.args.empty() ? nullptr : std::get_if<TensorRef>(&m.args[0].value); };
    std::set<std::string> written;
    for (const PNode& m : p_.nodes) {
      const std::vector<std::string> names = result_names(m);
      const std::vector<Alias> shares = aliases_of(m, p_.tensors, p_.syms);
      for (size_t i = 0; i < names.size() && i < shares.size(); ++i)
        if (shares[i].kind != Alias::none) owners[names[i]] = owner(shares[i].of);
      const std::string_view op = std::string_view(m.target).substr(0, m.target.rfind('.'));
      if (op.ends_with('_') && !op.ends_with("__") && first(m)) written.insert(owner(first(m)->name));
    }
    const TensorRef* x = first(n);
    if (!x || written.count(owner(x->name)))
      throw Diagnostic(ExitCode::unsupported, Loc{.file = p_.file, .node = n.name, .source = n.source},
                       fmt::format("bits that are written to have no {} counterpart", f64_ ? "float64" : "bf16"));
    return to_torch(p_.tensors.at(x->name).dtype);
  }

  ArgPlan argument(const Arg& a, c10::TypeKind kind) {
    ArgPlan plan;
    plan.kind = kind;
    plan.arg = &a;
    if (const auto* t = std::get_if<TensorRef>(&a)) {
      plan.slots = {slot(t->name)};
    } else if (const auto* l = std::get_if<TensorList>(&a)) {
      for (const TensorRef& t : *l) plan.slots.push_back(slot(t.name));
    } else if (const auto* ol = std::get_if<OptTensorList>(&a)) {
      for (const auto& t : *ol) plan.slots.push_back(t ? slot(t->name) : -1);
    } else if (const auto* s = std::get_if<SymbolicArg>(&a)) {
      plan.slots = {slot("$" + s->name)};
    } else if (const auto* e = std::get_if<Expr>(&a); e && !e->is_const()) {
    } else if (const auto* es = std::get_if<std::vector<Expr>>(&a);
               es && std::any_of(es->begin(), es->end(), [](const Expr& x) { return !x.is_const(); })) {
    } else {
      plan.constant = constant(a, kind);
      plan.arg = nullptr;
    }
    return plan;
  }

  IValue constant(const Arg& a, c10::TypeKind kind) const {
    const DType* d = f64_ ? std::get_if<DType>(&a) : nullptr;
    return ivalue_of(d ? Arg(widened(*d)) : a, kind);
  }

  ResultPlan result(const Arg& a) {
    ResultPlan r;
    const auto add = [&](const std::string& name) {
      r.slots.push_back(slot(name));
      const auto it = p_.tensors.find(name);
      if (it == p_.tensors.end()) return;
      for (size_t d = 0; d < it->second.sizes.size(); ++d)
        if (const auto s = it->second.sizes[d].as_symbol(); s && !bound_.count(*s)) r.data_dims.emplace_back(static_cast<int64_t>(d), *s);
    };
    if (const auto* t = std::get_if<TensorRef>(&a)) add(t->name);
    if (const auto* l = std::get_if<TensorList>(&a)) {
      r.list = true;
      for (const TensorRef& t : *l) add(t.name);
    }
    if (const auto* s = std::get_if<SymbolicArg>(&a)) r.slots = {slot("$" + s->name)};
    if (const auto* e = std::get_if<Expr>(&a)) r.symbol = e->as_symbol();
    return r;
  }

  void add_last_uses(GraphPlan& g) const {
    std::set<int> seen;
    for (const ArgPlan& a : g.outputs) seen.insert(a.slots.begin(), a.slots.end());
    seen.insert(g.inputs.begin(), g.inputs.end());  // weights and caller's tensors stay
    for (size_t i = g.steps.size(); i-- > 0;) {
      Step& s = g.steps[i];
      const auto use = [&](const std::vector<int>& slots) {
        for (const int v : slots)
          if (v >= 0 && seen.insert(v).second) s.last_uses.push_back(v);
      };
      for (const ArgPlan& a : s.args) use(a.slots);
      for (const ResultPlan& r : s.results) use(r.slots);
    }
  }

  const Program& p_;
  ReferenceOptions options_;
  bool f64_;
  std::map<std::string, int> slots_;
  std::set<SymId> bound_;
};

}  // namespace

GraphPlan plan_reference(const Program& p, const ReferenceOptions& options) { return Planner(p, options).plan(); }

}  // namespace aotc::import
