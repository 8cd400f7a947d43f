#include "import/composite.h"

#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>
#include <set>

#include "base/words.h"
#include "import/aliases.h"
#include "import/composite_values.h"
#include "import/torch_functions.h"

namespace aotc::import {
namespace {

using namespace composite;

/// Where a part comes from: the user's line, and the user's operator.
std::string source_within(const PNode& user) {
  if (user.source.find(kWithin) != std::string::npos) return user.source;  // a part of a part
  return fmt::format("{}{}{}{}", user.source, user.source.empty() ? "" : ", ", kWithin, user.target);
}

/// One operator being taken apart.
class Recorder {
 public:
  Recorder(const HasRule& has_rule, const PNode& user, std::string prefix)
      : has_rule_(has_rule), user_(user), prefix_(std::move(prefix)), source_(source_within(user)) {}

  /// A caller's tensor, as one without data.
  at::Tensor operand(const std::string& name, const TensorMeta& m, const SymTable& syms) {
    const auto it = operands_.find(name);
    if (it != operands_.end()) return it->second;
    at::Tensor t = without_data(name, m, syms);
    operands_.emplace(name, t);
    give_name(t, name);
    caller_.insert(t.unsafeGetTensorImpl());
    return t;
  }

  /// The kernel of an operator that is made of others, with recording on. Throws Refusal when there is none.
  void take_apart(const OperatorHandle& op, Stack& stack) {
    for (const DispatchKey key : kComposite)
      if (op.hasKernelForDispatchKey(key)) return op.callBoxedForDispatchKey(key, stack);
    throw Refusal("no rule, and it is not made of other operators");
  }

  /// The dispatcher's fallback: every operator that the kernel calls comes here.
  void call(const OperatorHandle& op, Stack& stack) {
    const c10::FunctionSchema& schema = op.schema();
    const size_t n = schema.arguments().size();
    const std::vector<IValue> args(stack.end() - static_cast<std::ptrdiff_t>(n), stack.end());
    const std::string target = target_of(op);
    bool meta = false, complex = false;
    for (const IValue& v : args) {
      each_tensor(v, [&](const at::Tensor& t) {
        meta |= t.is_meta();
        complex |= t.is_complex();
      });
      meta |= v.isDevice() && v.toDevice().is_meta();
    }
    if (!meta) return run_real(op, target, stack);
    if (!returns_tensors(schema)) return call_without_tensors(op, target, complex, stack);
    if (const auto functional = functional_view(target); !functional.empty())
      return record_view_in_place(op, std::string(functional), args, stack);
    if (const auto functional = functional_of_out(op)) {
      if (has_rule(target_of(*functional), complex)) return record_out(op, *functional, args, stack);
    }
    if (has_rule(target, complex)) return record(op, target, args, stack);
    if (op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd)) return take_apart(op, stack);
    // A kernel of the other kinds may turn out to be no mere composition; then it is the operator itself that is missing.
    const Mark before = mark();
    const Stack saved = stack;
    try {
      take_apart(op, stack);
      // A kernel that writes by other means than operators has done nothing to tensors without data.
      if (missing_ == before.missing && !(writes(op, args) && trace_.nodes.size() == before.nodes)) return;
    } catch (const Refusal&) {
    } catch (const c10::Error&) {}
    rewind(before);
    stack = saved;
    missing_.insert(target);
    record(op, target, args, stack);  // so that all that is missing is found
  }

  CompositeTrace finish(const OperatorHandle& op, const std::vector<IValue>& args, const Stack& stack) {
    const std::string own = user_.target.substr(0, user_.target.rfind('.') + 1);
    if (std::any_of(missing_.begin(), missing_.end(), [&](const std::string& m) { return m.compare(0, own.size(), own) == 0; }))
      throw Refusal("no rule, and it is not made of other operators");
    if (!missing_.empty()) {
      std::string list;
      for (const std::string& m : missing_) list += (list.empty() ? "" : ", ") + m;
      throw Refusal(fmt::format("no rule, and its kernel is made of operators of which there is none for {}", list));
    }
    each_written(op, args, [&](const at::Tensor& t) {
      if (t.numel() > 0 && !overwritten_.count(t.storage().unsafeGetStorageImpl()))
        throw Refusal("no rule for this use of it, and its kernel writes its operand by other means than operators");
    });
    const auto result = [&](const at::Tensor& t) {
      check_defined(t);
      return TensorRef{name_of(t)};
    };
    for (const IValue& v : stack) {
      if (v.isTensor()) {
        if (v.toTensor().defined())
          trace_.results.emplace_back(result(v.toTensor()));
        else
          trace_.results.emplace_back(NoneArg{});
      } else if (v.isTensorList()) {
        TensorList list;
        for (const at::Tensor& t : v.toTensorVector()) list.push_back(result(t));
        trace_.results.emplace_back(std::move(list));
      } else if (v.isNone()) {
        trace_.results.emplace_back(NoneArg{});
      } else {
        throw Refusal("no rule, and a result of it is not a tensor");
      }
    }
    return std::move(trace_);
  }

 private:
  /// An operator that makes complex tensors of real ones has a rule among those for complex ones.
  bool has_rule(const std::string& target, bool complex) const {
    return has_rule_(target, complex) || (!complex && has_rule_(target, true));
  }

  struct Mark {
    size_t nodes;
    std::map<const c10::TensorImpl*, std::string> names;
    std::set<const c10::StorageImpl*> undefined, overwritten;
    std::set<std::string> missing;
  };
  Mark mark() const { return {trace_.nodes.size(), names_, undefined_, overwritten_, missing_}; }
  void rewind(const Mark& m) {
    trace_.nodes.resize(m.nodes);
    names_ = m.names;
    undefined_ = m.undefined;
    overwritten_ = m.overwritten;
    missing_ = m.missing;
  }

  // Names

  void give_name(const at::Tensor& t, const std::string& name) {
    names_[t.unsafeGetTensorImpl()] = name;
    alive_.push_back(t);
  }
  std::string new_name(const at::Tensor& t, std::string_view stem) {
    std::string name = fmt::format("{}.{}_{}", prefix_, stem, next_++);
    trace_.tensors.emplace(name, meta_of(t));
    return name;
  }
  std::string name_of(const at::Tensor& t) {
    if (!t.is_meta()) return constant(t);
    const auto it = names_.find(t.unsafeGetTensorImpl());
    if (it == names_.end()) throw Refusal("no rule, and its kernel makes a tensor by other means than operators");
    return it->second;
  }
  /// A tensor that was computed from numbers alone, as it is now.
  std::string constant(const at::Tensor& tensor) {
    const c10::impl::ExcludeDispatchKeyGuard quiet(kRecord);
    const at::Tensor t = tensor.contiguous().resolve_conj().resolve_neg();
    if (t.nbytes() > kMaxConstantBytes) throw Refusal("its kernel makes a constant too large to be stored");
    const auto bytes = std::make_shared<std::vector<std::byte>>(t.nbytes());
    if (!bytes->empty()) std::memcpy(bytes->data(), t.const_data_ptr(), bytes->size());
    for (const auto& [name, c] : trace_.constants) {
      const TensorMeta& m = trace_.tensors.at(name);
      if (m.dtype == dtype_of(t) && c.bytes == bytes->size() && m.sizes == meta_of(t).sizes &&
          std::equal(bytes->begin(), bytes->end(), c.data))
        return name;
    }
    std::string name = new_name(t, "constant");
    const TensorMeta& m = trace_.tensors.at(name);
    trace_.constants.emplace(name, ConstData{name, {m.dtype, m.sizes}, bytes, bytes->data(), bytes->size()});
    return name;
  }

  // Content of tensors that were only allocated

  void check_defined(const at::Tensor& t) const {
    if (t.is_meta() && t.numel() > 0 && undefined_.count(t.storage().unsafeGetStorageImpl()))
      throw Refusal("no rule, and its kernel fills a tensor by other means than operators");
  }

  // Arguments

  Arg tensor_arg(const at::Tensor& t) {
    if (!t.defined()) return NoneArg{};
    if (t.unsafeGetTensorImpl()->is_wrapped_number()) {
      const c10::impl::ExcludeDispatchKeyGuard quiet(kRecord);
      return *arg_of(IValue(t.item()), ParamType::scalar);
    }
    return TensorRef{name_of(t)};
  }

  NamedArg argument(const c10::Argument& a, const IValue& v) {
    NamedArg out{a.name(), NoneArg{}};
    const TypeOf type = type_of(a.real_type());
    if (v.isTensor()) {
      out.value = tensor_arg(v.toTensor());
    } else if (v.isTensorList() && type.type == ParamType::tensor_list) {
      TensorList list;
      for (const at::Tensor& t : v.toTensorVector()) list.push_back({name_of(t)});
      out.value = std::move(list);
    } else if (v.isTensorList() || v.isOptionalTensorList()) {
      OptTensorList list;
      const auto add = [&](const std::optional<at::Tensor>& t) {
        list.push_back(t && t->defined() ? std::optional(TensorRef{name_of(*t)}) : std::nullopt);
      };
      if (v.isTensorList())
        for (const at::Tensor& t : v.toTensorVector()) add(t);
      else
        for (const auto& t : v.toOptionalTensorVector()) add(t);
      out.value = std::move(list);
    } else if (auto plain = arg_of(v, type.type)) {
      out.value = std::move(*plain);
      if (std::holds_alternative<DeviceArg>(out.value)) out.value = DeviceArg{"cpu"};
      out.defaulted = v.isNone() || (a.default_value() && !v.isTensor() && *a.default_value() == v);
    } else {
      throw Refusal(fmt::format("the argument '{}' of {} has a form that is not known", a.name(), user_.target));
    }
    return out;
  }

  // Kernels

  /// Operators of numbers alone are run; what they make is a constant.
  void run_real(const OperatorHandle& op, const std::string& target, Stack& stack) {
    if (op.hasTag(at::Tag::nondeterministic_seeded))
      throw Refusal(fmt::format("no rule, and its kernel makes random numbers ({})", target));
    const c10::impl::ExcludeDispatchKeyGuard quiet(kRecord);
    op.callBoxed(stack);
  }

  void call_without_tensors(const OperatorHandle& op, const std::string& target, bool complex, Stack& stack) {
    const c10::FunctionSchema& schema = op.schema();
    if (has_word(kTypeQueries, base_name(op))) {
      const c10::impl::ExcludeDispatchKeyGuard quiet(kRecord);
      return op.callBoxed(stack);
    }
    const bool writes = std::any_of(schema.arguments().begin(), schema.arguments().end(), written);
    if (!writes && values_.answer(op, stack)) return;
    if (schema.returns().empty() && !writes && has_rule(target, complex)) {  // a check
      const std::vector<IValue> args = torch::jit::pop(stack, schema.arguments().size());
      if (!has_word("_linalg_check_errors _assert_async", base_name(op))) return;  // of types and sizes
      PNode n = node_of(op, target, args);
      n.name = fmt::format("{}.{}_{}", prefix_, base_name(op), next_++);
      return trace_.nodes.push_back(std::move(n));
    }
    if (op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) || (writes && is_composite(op))) return take_apart(op, stack);
    throw Refusal(writes ? fmt::format("no rule, and its kernel calls {}, which only writes its arguments", target)
                         : fmt::format("no rule, and what its kernel does depends on the values of its operands ({})", target));
  }

  /// Runs the operator for its results' types. Leaves the results on the stack.
  void run_for_types(const OperatorHandle& op, const std::string& target, const std::vector<IValue>& args, Stack& stack) {
    const c10::impl::ExcludeDispatchKeyGuard quiet(kRecord);
    torch::jit::drop(stack, args.size());
    const size_t below = stack.size();
    for (IValue v : args) {
      each_tensor(v, [](at::Tensor& t) {
        if (!t.is_meta() && !t.unsafeGetTensorImpl()->is_wrapped_number()) t = on_meta(t);
      });
      stack.push_back(std::move(v));
    }
    try {
      return op.callBoxed(stack);
    } catch (const c10::Error& e) {
      stack.resize(below);
      trial_run(op, target, args, stack, first_line(e));
    }
  }

  /// An operator that LibTorch cannot run without data is run on zeros. Only for those whose results' sizes follow from the operands'.
  void trial_run(const OperatorHandle& op, const std::string& target, const std::vector<IValue>& args, Stack& stack,
                 const std::string& why) {
    const auto refuse = [&](const std::string& reason) {
      throw Refusal(fmt::format("no rule, and the results of {} in its kernel have no known sizes: {}", target, reason));
    };
    const c10::FunctionSchema& schema = op.schema();
    for (const at::Tag tag : {at::Tag::dynamic_output_shape, at::Tag::data_dependent_output})
      if (op.hasTag(tag)) refuse("they depend on data");
    const auto aliased = [](const c10::Argument& a) { return a.alias_info() != nullptr; };
    if (std::any_of(schema.arguments().begin(), schema.arguments().end(), aliased)) refuse(why);
    int64_t bytes = 0;
    for (IValue v : args) {
      each_tensor(v, [&](at::Tensor& t) {
        if (!t.is_meta()) return;
        bytes += t.numel() * static_cast<int64_t>(t.element_size());
        if (bytes > kMaxTrialBytes) refuse("it is too large to be tried");
        t = at::zeros(t.sizes(), t.options().device(at::kCPU));
      });
      if (v.isDevice()) v = c10::Device(at::kCPU);
      stack.push_back(std::move(v));
    }
    try {
      op.callBoxed(stack);
    } catch (const c10::Error& e) { refuse(first_line(e)); }
    for (size_t i = stack.size() - schema.returns().size(); i < stack.size(); ++i)
      each_tensor(stack[i], [](at::Tensor& t) { t = on_meta(t); });
  }

  PNode node_of(const OperatorHandle& op, const std::string& target, const std::vector<IValue>& args) {
    if (trace_.nodes.size() >= kMaxNodes) throw Refusal("no rule, and its kernel comes apart into too many operators");
    PNode n;
    n.target = target;
    n.source = source_, n.place = user_.place;
    n.module_path = user_.module_path;
    for (size_t i = 0; i < args.size(); ++i) n.args.push_back(argument(op.schema().arguments()[i], args[i]));
    return n;
  }

  void note_reads(const OperatorHandle& op, const std::vector<IValue>& args) {
    const std::string_view name = base_name(op);
    const auto& params = op.schema().arguments();
    for (size_t i = 0; i < args.size(); ++i) {
      const bool view = params[i].alias_info() && !written(params[i]);
      if (view || only_type(op) || (written(params[i]) && has_word(kOverwriting, name))) continue;
      each_tensor(args[i], [&](const at::Tensor& t) { check_defined(t); });
    }
  }
  template <class Fn>
  static void each_written(const OperatorHandle& op, const std::vector<IValue>& args, Fn&& fn) {
    for (size_t i = 0; i < args.size(); ++i)
      if (written(op.schema().arguments()[i])) each_tensor(args[i], fn);
  }
  static bool writes(const OperatorHandle& op, const std::vector<IValue>& args) {
    bool some = false;
    each_written(op, args, [&](const at::Tensor& t) { some |= t.numel() > 0; });
    return some;
  }
  void note_writes(const OperatorHandle& op, const std::vector<IValue>& args) {
    each_written(op, args, [&](const at::Tensor& t) {
      if (!t.is_meta()) throw Refusal("no rule, and its kernel writes operands into a tensor made from numbers");
      const c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
      undefined_.erase(storage);
      overwritten_.insert(storage);
      values_.forget(storage);
    });
  }

  /// Writes the operator down as one node.
  void record(const OperatorHandle& op, const std::string& target, const std::vector<IValue>& args, Stack& stack) {
    note_reads(op, args);
    PNode n = node_of(op, target, args);
    run_for_types(op, target, args, stack);
    note_writes(op, args);
    const std::string_view stem = base_name(op);
    const bool allocates = stem == "empty" || stem == "empty_like" || stem == "empty_strided" || stem == "empty_permuted" ||
                           stem == "new_empty" || stem == "new_empty_strided";
    const bool writes = std::any_of(op.schema().arguments().begin(), op.schema().arguments().end(), written);
    bool fresh = writes;  // a result that is no operand
    const auto define = [&](const at::Tensor& t) {
      const std::string name = new_name(t, stem);
      if (!names_.count(t.unsafeGetTensorImpl())) {
        fresh = true;
        give_name(t, name);
        if (allocates) undefined_.insert(t.storage().unsafeGetStorageImpl());
      }
      if (n.name.empty()) n.name = name;
      return TensorRef{name};
    };
    for (size_t i = stack.size() - op.schema().returns().size(); i < stack.size(); ++i) {
      const IValue& v = stack[i];
      if (v.isTensor() && v.toTensor().defined()) {
        n.results.emplace_back(define(v.toTensor()));
      } else if (v.isTensorList()) {
        TensorList list;
        for (const at::Tensor& t : v.toTensorVector()) list.push_back(define(t));
        n.results.emplace_back(std::move(list));
      } else {
        n.results.emplace_back(NoneArg{});
      }
    }
    if (!fresh) return;
    trace_.nodes.push_back(std::move(n));
    if (!writes && !allocates) values_.note(op, args, stack);
  }

  /// x.t_() gives x another shape: from here on the tensor is the view.
  void record_view_in_place(const OperatorHandle& op, const std::string& functional, const std::vector<IValue>& args, Stack& stack) {
    const at::Tensor self = args.at(0).toTensor();
    if (caller_.count(self.unsafeGetTensorImpl())) throw Refusal("no rule, and its kernel changes the shape of an operand in place");
    PNode n = node_of(op, functional, args);
    run_for_types(op, functional, args, stack);
    n.name = new_name(self, base_name(op));
    n.results.emplace_back(TensorRef{n.name});
    give_name(self, n.name);
    trace_.nodes.push_back(std::move(n));
  }

  void record_out(const OperatorHandle& op, const OperatorHandle& functional, std::vector<IValue> args, Stack& stack) {
    const at::Tensor out = args.back().toTensor();
    torch::jit::drop(stack, args.size());
    args.pop_back();
    for (const IValue& v : args) stack.push_back(v);
    record(functional, target_of(functional), args, stack);
    const at::Tensor made = torch::jit::pop(stack).toTensor();
    if (!out.is_meta()) throw Refusal("no rule, and its kernel writes operands into a tensor made from numbers");
    if (made.sizes() != out.sizes()) {
      if (out.numel() != 0 || caller_.count(out.unsafeGetTensorImpl()) || made.scalar_type() != out.scalar_type())
        throw Refusal(fmt::format("no rule, and its kernel calls {} with an output of other sizes", target_of(op)));
      const c10::impl::ExcludeDispatchKeyGuard quiet(kRecord);
      out.resize_(made.sizes());
      give_name(out, name_of(made));
    } else {
      const auto copy = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
      const std::vector<IValue> operands = {out, made, false};
      stack.insert(stack.end(), operands.begin(), operands.end());
      record(copy, "aten.copy_.default", operands, stack);
      torch::jit::drop(stack, 1);
    }
    stack.emplace_back(out);
  }

  const HasRule& has_rule_;
  const PNode& user_;
  std::string prefix_, source_;
  CompositeTrace trace_;
  std::map<const c10::TensorImpl*, std::string> names_;
  std::map<std::string, at::Tensor> operands_;
  std::set<const c10::TensorImpl*> caller_;
  std::set<const c10::StorageImpl*> undefined_;    ///< allocated and not written yet
  std::set<const c10::StorageImpl*> overwritten_;  ///< written by an operator of the trace
  KnownValues values_;
  std::vector<at::Tensor> alive_;  ///< so that no address is given twice
  std::set<std::string> missing_;
  int next_ = 0;
};

class Tracer final : public CompositeTracer {
 public:
  explicit Tracer(HasRule has_rule) : has_rule_(std::move(has_rule)) {}

  Result<CompositeTrace> trace(const Program& program, const PNode& node, const std::string& prefix) override {
    const auto fail = [](std::string why) { return Result<CompositeTrace>::fail(std::move(why)); };
    const auto op = find_operator(node.target);
    if (!op) return fail("no rule, and LibTorch does not know it");
    if (!is_composite(*op)) return fail("no rule, and it is not made of other operators");
    const c10::InferenceMode inference;
    Recorder recorder(has_rule_, node, prefix);
    try {
      // The fallback acts only on threads that ask for it.
      const auto fallback = c10::Dispatcher::singleton().registerFallback(
          kRecord, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Fallback>(recorder)),
          "aotc: operators of a composite kernel");
      Stack stack = stack_of(*op, node, [&](const std::string& name) {
        const auto it = program.tensors.find(name);
        if (it == program.tensors.end()) throw Refusal(fmt::format("no rule, and nothing is known of its operand '{}'", name));
        return recorder.operand(name, it->second, program.syms);
      });
      const std::vector<IValue> args = stack;
      const c10::impl::IncludeDispatchKeyGuard record(kRecord);
      recorder.take_apart(*op, stack);
      return recorder.finish(*op, args, stack);
    } catch (const Refusal& r) { return fail(r.why); } catch (const c10::Error& e) {
      return fail("no rule, and its kernel does not run without data: " + first_line(e));
    } catch (const Diagnostic&) { throw; } catch (const InternalError&) {
      throw;
    } catch (const std::exception& e) { return fail(std::string("no rule, and its kernel does not run without data: ") + e.what()); }
  }

 private:
  struct Fallback final : c10::OperatorKernel {
    explicit Fallback(Recorder& r) : recorder(r) {}
    void operator()(const OperatorHandle& op, c10::DispatchKeySet, Stack* stack) { recorder.call(op, *stack); }
    Recorder& recorder;
  };
  HasRule has_rule_;
};

}  // namespace

std::unique_ptr<CompositeTracer> torch_side::make_tracer(HasRule has_rule) { return std::make_unique<Tracer>(std::move(has_rule)); }

}  // namespace aotc::import
