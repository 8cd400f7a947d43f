#include "import/reference.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/ScalarOps.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <set>

#include "import/bind_symbols.h"
#include "import/reference_plan.h"
#include "import/reference_values.h"
#include "import/rounded_caches.h"
#include "import/rounded_rows.h"
#include "import/shared_storage.h"
#include "import/torch_functions.h"
#include "import/torch_values.h"
#include "import/vector_signs.h"
#include "import/written_storage.h"

namespace aotc::import {
namespace {

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

/// The values of list arguments laid flat.
std::vector<IValue> flat(const IValue& v) {
  std::vector<IValue> out;
  if (!v.isTensorList()) return {v};
  for (const at::Tensor& t : v.toTensorVector()) out.emplace_back(t);
  return out;
}

class Runner final : public Reference {
 public:
  Runner(const Program& p, const ReferenceOptions& options)
      : p_(p),
        options_(options),
        plan_(plan_reference(p, options)),
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

 private:
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

  /// cond(predicate, true graph, false graph, operands)
  std::vector<IValue> run_cond(const GraphPlan& g, std::vector<IValue> args) {
    const bool taken = number_of(args.at(0)) != 0;
    std::vector<IValue> operands;
    for (size_t i = 3; i < args.size(); ++i)
      for (IValue& v : flat(args[i])) operands.push_back(std::move(v));
    return run_graph(g.subgraphs.at(static_cast<size_t>(args.at(taken ? 1 : 2).toInt())), std::move(operands));
  }

  /// while_loop(condition graph, body graph, carried, additional)
  std::vector<IValue> run_while(const GraphPlan& g, std::vector<IValue> args) {
    const auto graph = [&](size_t i) -> const GraphPlan& { return g.subgraphs.at(static_cast<size_t>(args.at(i).toInt())); };
    std::vector<IValue> carried = flat(args.at(2));
    const std::vector<IValue> extra = args.size() > 3 ? flat(args[3]) : std::vector<IValue>{};
    const auto operands = [&] {
      std::vector<IValue> all = carried;
      all.insert(all.end(), extra.begin(), extra.end());
      return all;
    };
    while (number_of(run_graph(graph(0), operands()).at(0)) != 0) carried = run_graph(graph(1), operands());
    return carried;
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
    } else if (s.control != Control::none) {
      stack = s.control == Control::cond ? run_cond(g, std::move(stack)) : run_while(g, std::move(stack));
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

}  // namespace

std::unique_ptr<Reference> torch_side::make_reference(const Program& program, const ReferenceOptions& options) {
  return std::make_unique<Runner>(program, options);
}

}  // namespace aotc::import
