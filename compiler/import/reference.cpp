#include "import/reference.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include "base/words.h"
#include "import/aliases.h"
#include "import/bind_symbols.h"
#include "import/reference_values.h"
#include "import/rounded_caches.h"
#include "import/rounded_rows.h"
#include "import/scalar_ops.h"
#include "import/shared_storage.h"
#include "import/torch_functions.h"
#include "import/torch_maps.h"
#include "import/torch_stand_ins.h"
#include "import/torch_values.h"
#include "import/vector_signs.h"
#include "import/written_storage.h"

namespace aotc::import {
namespace {

using c10::IValue;

/// How one argument becomes an IValue: a constant, or from slots and symbols at each run.
struct ArgPlan {
  const Arg* arg = nullptr;  ///< null: `constant`
  IValue constant;
  c10::TypeKind kind = c10::TypeKind::AnyType;  ///< of the schema's parameter, without Optional
  std::vector<int> slots;                       ///< of the tensors or symbolic values; -1: None
};
struct ResultPlan {
  std::vector<int> slots;  ///< one for a tensor or symbolic value, several for a list, none when unused
  bool list = false;
  std::optional<SymId> symbol;                       ///< an integer that the operator read from data
  std::vector<std::pair<int64_t, SymId>> data_dims;  ///< sizes that depend on data
};

struct Step;
struct GraphPlan {
  const Program* program = nullptr;
  std::vector<Step> steps;
  std::vector<int> inputs;  ///< slot by position; -1 for those that are not tensors
  std::vector<ArgPlan> outputs;
  size_t slots = 0;
  std::vector<GraphPlan> subgraphs;
};
struct Step {
  const PNode* node = nullptr;
  std::optional<c10::OperatorHandle> op;
  bool turns_narrow_images = false;  ///< see call_resize
  ScalarFn scalar = nullptr;
  std::vector<IValue> (*control)(class Runner&, const GraphPlan&, const Step&, std::vector<IValue>) = nullptr;
  const MapNode* map = nullptr;
  const StandIn* stand_in = nullptr;
  std::optional<at::ScalarType> bits_of;  ///< a view as another type: the bits of this one
  std::vector<ArgPlan> args;
  std::vector<ResultPlan> results;
  std::vector<int> last_uses;  ///< slots to empty after this step
};

/// Checks of types and devices that were right at export; element types differ on purpose in f64.
constexpr std::string_view kSkipped =
    "aten._assert_tensor_metadata.default aten.sym_constrain_range.default aten.sym_constrain_range_for_size.default "
    "aten._assert_scalar.default";

constexpr std::string_view kAntialiased =
    "aten._upsample_bilinear2d_aa.default aten._upsample_bilinear2d_aa.vec aten._upsample_bicubic2d_aa.default "
    "aten._upsample_bicubic2d_aa.vec";

/// LibTorch's antialiased resizing repeats a row where the result is one element wide: its loop, made for rows, then runs down the column
/// and takes all weights of the first row it meets (which one depends on the threads). The turned image is resized right.
/// Arguments: input, output size, align_corners, then scales of height and width, or a list of both.
void call_resize(const c10::OperatorHandle& op, std::vector<IValue>& stack) {
  std::vector<IValue> turned = stack;
  op.callBoxed(stack);
  const at::Tensor y = stack.at(0).toTensor();
  if (y.size(3) != 1 || y.size(2) == 1) return;
  const auto swap_ends = [](IValue& v) {
    if (v.isIntList()) {
      std::vector<int64_t> x = v.toIntVector();
      std::reverse(x.begin(), x.end());
      v = x;
    } else if (v.isDoubleList()) {
      std::vector<double> x = v.toDoubleVector();
      std::reverse(x.begin(), x.end());
      v = x;
    }
  };
  turned[0] = turned[0].toTensor().transpose(2, 3).contiguous();
  swap_ends(turned[1]);
  if (turned.size() == 5)
    std::swap(turned[3], turned[4]);
  else
    swap_ends(turned[3]);
  op.callBoxed(turned);
  stack = {turned.at(0).toTensor().transpose(2, 3).contiguous()};
}

double number_of(const IValue& v) {
  if (v.isInt()) return static_cast<double>(v.toInt());
  if (v.isBool()) return v.toBool() ? 1 : 0;
  if (v.isDouble()) return v.toDouble();
  return v.toTensor().item().toDouble();
}

std::vector<IValue> run_cond(Runner&, const GraphPlan&, const Step&, std::vector<IValue>);
std::vector<IValue> run_while(Runner&, const GraphPlan&, const Step&, std::vector<IValue>);
struct Control {
  std::string_view target;
  std::vector<IValue> (*fn)(Runner&, const GraphPlan&, const Step&, std::vector<IValue>);
};
constexpr Control kControls[] = {{"higher_order.cond", run_cond}, {"higher_order.while_loop", run_while}};

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
    for (const Control& c : kControls)
      if (c.target == n.target) s.control = c.fn;
    s.map = find_map_node(n.target);
    s.stand_in = find_stand_in(n.target, f64_);
    if (!s.scalar && !s.control && !s.map && !s.stand_in) {
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

  IValue constant(const Arg& a, c10::TypeKind kind) const;

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

IValue Planner::constant(const Arg& a, c10::TypeKind kind) const {
  const DType* d = f64_ ? std::get_if<DType>(&a) : nullptr;
  return ivalue_of(d ? Arg(widened(*d)) : a, kind);
}

class Runner final : public Reference {
 public:
  Runner(const Program& p, const ReferenceOptions& options)
      : p_(p),
        options_(options),
        plan_(Planner(p, options).plan()),
        rows_(options.row_errors),
        caches_(options.caches_float8),
        written_(written_buffers(p)),
        data_(constants(p, options)) {
    const c10::InferenceMode guard;
    for (const SharedStorage& s : p.storages)
      if (WrittenStorage::is_written(p, s, written_))
        storages_.emplace_back(p, s, widen(to_tensor(s.data.type.dtype, {*s.data.type.dims.at(0).as_const()}, s.data.data)));
    for (const std::string& name : options.int8_rows)
      if (const at::Tensor* t = data_.find(name)) rows_.add(name, *t);
  }

  std::vector<HostTensor> run(const std::vector<HostTensor>& inputs) override {
    const c10::InferenceMode guard;
    if (at::get_num_threads() != options_.threads) at::set_num_threads(options_.threads);
    const auto default_dtype = c10::get_default_dtype();
    if (options_.f64) c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
    struct Restore {
      caffe2::TypeMeta dtype;
      ~Restore() { c10::set_default_dtype(dtype); }
    } restore{default_dtype};

    const OpenMaps open_maps;
    symbols_ = bind_symbols(p_, inputs);
    std::map<std::string, at::Tensor> shared;
    for (const WrittenStorage& s : storages_) shared.merge(s.views());
    std::vector<IValue> values;
    size_t next = 0;
    caches_.clear();
    narrow_.assign(plan_.slots, false);
    for (const ProgramInput& in : p_.inputs) {
      if (in.kind == InputKind::user_scalar) {
        values.emplace_back();
        continue;
      }
      at::Tensor t;
      if (const auto view = shared.find(in.target); view != shared.end()) {
        values.emplace_back(view->second);
        continue;
      }
      if (in.kind == InputKind::user) {
        const HostTensor& h = inputs[next++];
        t = widen(to_tensor(h.dtype, h.dims, h.bytes.empty() ? nullptr : h.bytes.data()));
      } else {
        t = data_.at(in.target);
        if (const int slot = plan_.inputs.at(values.size()); slot >= 0 && data_.narrow(in.target)) {
          if (written_.count(in.name))
            t = widen(t);
          else
            narrow_[static_cast<size_t>(slot)] = true;
        }
      }
      if (written_.count(in.name)) t = t.clone();
      if (std::find(options_.caches.begin(), options_.caches.end(), in.target) != options_.caches.end()) t = caches_.add(t);
      values.emplace_back(t);
    }
    std::vector<HostTensor> out;
    for (const IValue& v : run_graph(plan_, std::move(values))) add_output(v, out);
    return out;
  }

  std::vector<IValue> run_graph(const GraphPlan& g, std::vector<IValue> inputs) {
    std::vector<IValue> slots(g.slots);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (g.inputs.at(i) >= 0) slots[static_cast<size_t>(g.inputs[i])] = std::move(inputs[i]);
    for (const Step& s : g.steps) {
      try {
        run_step(g, s, slots);
      } catch (const c10::Error& e) { throw failed(*s.node, e.what_without_backtrace()); } catch (const Diagnostic&) {
        throw;
      } catch (const std::exception& e) { throw failed(*s.node, e.what()); }
      for (const int v : s.last_uses) slots[static_cast<size_t>(v)] = IValue();
    }
    std::vector<IValue> out;
    for (const ArgPlan& a : g.outputs) out.push_back(value(g, a, slots));
    return out;
  }

 private:
  Diagnostic failed(const PNode& n, const std::string& why) const {
    return {ExitCode::failed, Loc{.file = p_.file, .node = n.name, .source = n.source},
            fmt::format("LibTorch could not run {}: {}", n.target, why)};
  }
  static std::set<std::string> written_buffers(const Program& p) {
    std::set<std::string> written;
    for (const ProgramOutput& o : p.outputs)
      if (const TensorRef* t = std::get_if<TensorRef>(&o.value); t && is_mutation(o.kind)) written.insert(t->name);
    return written;
  }
  static ReferenceValues constants(const Program& p, const ReferenceOptions& options) {
    const c10::InferenceMode guard;
    std::set<std::string> whole(options.int8_rows.begin(), options.int8_rows.end());  // rows and caches are known by their memory
    whole.insert(options.caches.begin(), options.caches.end());
    return {p, options, whole};
  }
  at::Tensor widen(const at::Tensor& t) const { return widened(t, options_); }
  int64_t size_of(const Expr& e) const {
    const auto v = e.try_eval([this](SymId s) -> std::optional<int64_t> {
      const auto it = symbols_.find(s);
      if (it == symbols_.end()) return std::nullopt;
      return it->second;
    });
    if (!v)
      throw Diagnostic(ExitCode::unsupported, Loc{.file = p_.file},
                       fmt::format("the size {} is not known when it is needed", e.str(p_.syms)));
    return *v;
  }

  IValue value(const GraphPlan& g, const ArgPlan& a, const std::vector<IValue>& slots) const {
    if (!a.arg) return a.constant;
    const auto at = [&](size_t i) -> IValue {
      const auto slot = static_cast<size_t>(a.slots[i]);
      const IValue& v = slots[slot];
      return &g == &plan_ && narrow_[slot] ? IValue(widen(v.toTensor())) : v;
    };
    if (std::holds_alternative<TensorRef>(*a.arg)) {
      const IValue v = at(0);
      const bool scalar = a.kind == c10::TypeKind::NumberType || a.kind == c10::TypeKind::FloatType || a.kind == c10::TypeKind::IntType;
      return scalar && v.isTensor() ? number_ivalue(v.toTensor().item(), a.kind) : v;
    }
    if (std::holds_alternative<TensorList>(*a.arg)) {
      c10::List<at::Tensor> l;
      for (size_t i = 0; i < a.slots.size(); ++i) l.push_back(at(i).toTensor());
      return l;
    }
    if (std::holds_alternative<OptTensorList>(*a.arg)) {
      c10::List<std::optional<at::Tensor>> l;
      for (size_t i = 0; i < a.slots.size(); ++i) l.push_back(a.slots[i] < 0 ? std::nullopt : std::optional<at::Tensor>(at(i).toTensor()));
      return l;
    }
    if (const Expr* e = std::get_if<Expr>(a.arg)) return number_ivalue(c10::Scalar(size_of(*e)), a.kind);
    if (const auto* es = std::get_if<std::vector<Expr>>(a.arg)) {
      c10::List<int64_t> l;
      for (const Expr& e : *es) l.push_back(size_of(e));
      return l;
    }
    const IValue v = at(0);  // a symbolic float or bool
    if (v.isNone())
      throw Diagnostic(ExitCode::unsupported, Loc{.file = p_.file},
                       fmt::format("the value {} cannot be computed", std::get<SymbolicArg>(*a.arg).text));
    if (a.kind == c10::TypeKind::BoolType || a.kind == c10::TypeKind::SymBoolType) return number_of(v) != 0;
    return number_ivalue(c10::Scalar(number_of(v)), a.kind);
  }

  void run_step(const GraphPlan& g, const Step& s, std::vector<IValue>& slots) {
    std::vector<IValue> stack;
    stack.reserve(s.args.size());
    for (const ArgPlan& a : s.args) stack.push_back(value(g, a, slots));
    rows_.apply(s.node->target, stack);
    const bool writes_cache = caches_.apply(s.node->target, stack);
    if (s.scalar) {
      std::vector<double> xs;
      for (const IValue& v : stack) xs.push_back(number_of(v));
      stack = {IValue(s.scalar(xs))};
    } else if (s.map) {
      stack = s.map->run(stack);
    } else if (s.stand_in) {
      stack = s.stand_in->run(*s.node, stack);
    } else if (s.control) {
      stack = s.control(*this, g, s, std::move(stack));
    } else if (s.bits_of) {
      stack[0] = stack[0].toTensor().to(*s.bits_of);
      call(s, stack);
      stack[0] = widen(stack[0].toTensor());
    } else if (options_.bf16) {
      call_in_bf16(s, stack);
    } else if (options_.f64) {
      call_in_f64(g, s, stack);
    } else {
      call(s, stack);
    }
    settle_signs(s.node->target, stack);
    if (writes_cache && !stack.empty()) caches_.written(stack[0]);
    if (stack.size() != s.results.size()) throw failed(*s.node, fmt::format("{} results instead of {}", stack.size(), s.results.size()));
    for (size_t i = 0; i < stack.size(); ++i) set(s.results[i], std::move(stack[i]), slots);
  }

  static void call(const Step& s, std::vector<IValue>& stack) {
    if (s.turns_narrow_images)
      call_resize(*s.op, stack);
    else
      s.op->callBoxed(stack);
  }

  /// Every tensor of type `from` in another.
  static void turn(std::vector<IValue>& stack, at::ScalarType from, at::ScalarType to) {
    const auto one = [&](const at::Tensor& t) { return t.defined() && t.scalar_type() == from ? t.to(to) : t; };
    for (IValue& v : stack) {
      if (v.isTensor()) {
        v = one(v.toTensor());
      } else if (v.isTensorList()) {
        c10::List<at::Tensor> l;
        for (const at::Tensor& t : v.toTensorVector()) l.push_back(one(t));
        v = l;
      }
    }
  }

  static void call_in_bf16(const Step& s, std::vector<IValue>& stack) {
    std::vector<IValue> wide = stack;
    try {
      return call(s, stack);
    } catch (const std::exception&) { turn(wide, at::kBFloat16, at::kFloat); }  // c10::Error, and oneDNN's own of layers it has not
    call(s, wide);
    turn(wide, at::kFloat, at::kBFloat16);
    stack = std::move(wide);
  }

  /// An operator that has no float64 (one of the user's, scales of channels that PyTorch wants in float32) runs in the archive's types, and
  /// its results are widened.
  void call_in_f64(const GraphPlan& g, const Step& s, std::vector<IValue>& stack) const {
    std::vector<IValue> given = stack;
    try {
      return call(s, stack);
    } catch (const std::exception&) {}
    for (size_t i = 0; i < given.size(); ++i) {
      const auto* t = std::get_if<TensorRef>(&s.node->args[i].value);
      if (t && given[i].isTensor()) given[i] = given[i].toTensor().to(to_torch(g.program->tensors.at(t->name).dtype));
    }
    call(s, given);
    for (IValue& v : given)
      if (v.isTensor()) v = widen(v.toTensor());
    stack = std::move(given);
  }

  void set(const ResultPlan& r, IValue v, std::vector<IValue>& slots) {
    if (r.symbol && (v.isInt() || v.isDouble() || v.isBool())) symbols_.emplace(*r.symbol, static_cast<int64_t>(number_of(v)));
    if (r.slots.empty()) return;
    if (v.isTensor() && v.toTensor().defined())
      for (const auto& [d, s] : r.data_dims) symbols_.emplace(s, v.toTensor().size(d));
    if (!r.list) {
      slots[static_cast<size_t>(r.slots[0])] = std::move(v);
      return;
    }
    const c10::List<at::Tensor> l = v.toTensorList();
    for (size_t i = 0; i < r.slots.size() && i < l.size(); ++i) slots[static_cast<size_t>(r.slots[i])] = l.get(i);
  }

  static void add_output(const IValue& v, std::vector<HostTensor>& out) {
    at::Tensor t;
    if (v.isTensor()) {
      t = v.toTensor().contiguous().resolve_conj().resolve_neg();
    } else if (v.isInt()) {
      t = at::scalar_tensor(v.toInt(), at::kLong);
    } else if (v.isDouble()) {
      t = at::scalar_tensor(v.toDouble(), at::kDouble);
    } else if (v.isBool()) {
      t = at::scalar_tensor(v.toBool(), at::kBool);
    } else {
      return;
    }
    const auto dtype = from_torch(t.scalar_type());
    if (!dtype) throw Diagnostic(ExitCode::unsupported, {}, "an output of an element type that is not supported");
    HostTensor h{*dtype, t.sizes().vec(), {}};
    const auto* p = static_cast<const std::byte*>(t.const_data_ptr());
    h.bytes.assign(p, p + t.nbytes());
    out.push_back(std::move(h));
  }

  const Program& p_;
  ReferenceOptions options_;
  GraphPlan plan_;
  RoundedRows rows_;
  RoundedCaches caches_;
  const std::set<std::string> written_;
  const ReferenceValues data_;
  std::vector<WrittenStorage> storages_;
  std::vector<bool> narrow_;  ///< by slot of plan_: a constant that is widened at each use
  std::map<SymId, int64_t> symbols_;
};

/// The values of list arguments laid flat.
std::vector<IValue> flat(const IValue& v) {
  std::vector<IValue> out;
  if (!v.isTensorList()) return {v};
  for (const at::Tensor& t : v.toTensorVector()) out.emplace_back(t);
  return out;
}

/// cond(predicate, true graph, false graph, operands)
std::vector<IValue> run_cond(Runner& r, const GraphPlan& g, const Step&, std::vector<IValue> args) {
  const bool taken = number_of(args.at(0)) != 0;
  std::vector<IValue> operands;
  for (size_t i = 3; i < args.size(); ++i)
    for (IValue& v : flat(args[i])) operands.push_back(std::move(v));
  return r.run_graph(g.subgraphs.at(static_cast<size_t>(args.at(taken ? 1 : 2).toInt())), std::move(operands));
}

/// while_loop(condition graph, body graph, carried, additional)
std::vector<IValue> run_while(Runner& r, const GraphPlan& g, const Step&, std::vector<IValue> args) {
  const auto graph = [&](size_t i) -> const GraphPlan& { return g.subgraphs.at(static_cast<size_t>(args.at(i).toInt())); };
  std::vector<IValue> carried = flat(args.at(2));
  const std::vector<IValue> extra = args.size() > 3 ? flat(args[3]) : std::vector<IValue>{};
  const auto operands = [&] {
    std::vector<IValue> all = carried;
    all.insert(all.end(), extra.begin(), extra.end());
    return all;
  };
  while (number_of(r.run_graph(graph(0), operands()).at(0)) != 0) carried = r.run_graph(graph(1), operands());
  return carried;
}

}  // namespace

std::unique_ptr<Reference> torch_side::make_reference(const Program& program, const ReferenceOptions& options) {
  return std::make_unique<Runner>(program, options);
}

}  // namespace aotc::import
