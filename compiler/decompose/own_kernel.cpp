#include "decompose/own_kernel.h"

#include <algorithm>

#include "decompose/promote.h"
#include "graph/custom_op.h"
#include "graph/guard.h"

namespace aotc::decompose {
namespace {

using import::NamedArg;
using import::NoneArg;
using import::TensorRef;
using own::Formula;
using own::Kernel;
using own::Kernels;

/// Whether the kernel takes the node's tensors.
Fit takes(const Rule& r, const Kernel& k) {
  for (const NamedArg& a : r.node.args) {
    const import::TensorMeta* meta = r.is_tensor(a.name) ? r.meta_arg(a.name) : nullptr;
    if (!meta) continue;
    if (is_complex(meta->dtype)) return refuse("'{}' is complex", a.name);
    const auto rule = k.inputs.find(a.name);
    if (rule == k.inputs.end()) continue;
    const std::vector<DType>& dtypes = rule->second.dtypes;
    if (std::find(dtypes.begin(), dtypes.end(), meta->dtype) == dtypes.end()) {
      std::string names;
      for (const DType t : dtypes) names += (names.empty() ? "" : " or ") + std::string(dtype_name(t));
      return refuse("'{}' is {}, it takes {}", a.name, dtype_name(meta->dtype), names);
    }
    if (rule->second.rank && *rule->second.rank != static_cast<int64_t>(meta->sizes.size()))
      return refuse("'{}' has rank {}, it takes {}", a.name, meta->sizes.size(), *rule->second.rank);
  }
  return Fit::yes();
}

/// The operands and numbers of a use, and what formulas see of them.
class Use {
 public:
  Use(Rule& r, const Kernels& all, const Kernel& k) : r_(r), all_(all), k_(k) {
    for (const NamedArg& a : r.node.args) argument(a);
  }

  std::vector<ValueId> inputs;
  Ints places;  ///< of each tensor argument its input; -1: None
  std::vector<CustomNumber> numbers;
  Exprs sizes;  ///< numbers that are sizes

  Expr resolve(const Formula& f) const {
    return own::resolve(f, r_.b.syms(), all_.file, [&](const std::string& name) { return value_of(name); });
  }
  /// At least `least`: what the runtime makes of it is a count.
  Expr count(const Formula& f, int64_t least) const {
    const Expr e = resolve(f);
    return r_.b.syms().proves_le(least, e) ? e : max(e, least);
  }

  /// Of result i, held to what the archive says.
  TensorType result(size_t i) const {
    const own::ResultRule& rule = k_.results[i];
    const bool wanted = r_.wants(i);
    const TensorType archive = wanted ? r_.meta_result(i) : TensorType();
    const auto differs = [&](const char* key, const std::string& said, const std::string& is) {
      return Diagnostic(all_.at(rule.path + key),
                        fmt::format("{} of result {} of {} is {}, the archive says {}", key + 1, i, r_.node.name, said, is))
          .note(r_.node.source.empty() ? "the operator's fake implementation and the description say different things" : r_.node.source);
    };
    TensorType t;
    t.dtype = rule.dtype ? *rule.dtype : r_.b.dtype(tensor(rule.dtype_of, rule.path + ".dtype_of"));
    if (wanted && t.dtype != archive.dtype)
      throw differs(rule.dtype ? ".dtype" : ".dtype_of", std::string(dtype_name(t.dtype)), std::string(dtype_name(archive.dtype)));
    if (!rule.shape_of.empty()) t.dims = r_.b.dims(tensor(rule.shape_of, rule.path + ".shape_of"));
    for (const Formula& f : rule.shape) t.dims.push_back(resolve(f));
    if (!wanted) return t;
    const char* key = rule.shape_of.empty() ? ".shape" : ".shape_of";
    if (t.dims.size() != archive.dims.size())
      throw differs(key, fmt::format("of rank {}", t.dims.size()), fmt::format("of rank {}", archive.dims.size()));
    for (size_t d = 0; d < t.dims.size(); ++d)
      if (r_.b.syms().proves_ne(t.dims[d], archive.dims[d]))
        throw differs(key, fmt::format("{} in dimension {}", t.dims[d].str(r_.b.syms()), d), archive.dims[d].str(r_.b.syms()));
    return t;
  }

 private:
  ValueId tensor(const std::string& name, const std::string& path) const {
    const auto it = tensors_.find(name);
    if (it == tensors_.end()) throw Diagnostic(all_.at(path), fmt::format("'{}' is None at {}", name, r_.node.name));
    return it->second;
  }

  void argument(const NamedArg& a) {
    const bool is_tensor = std::holds_alternative<TensorRef>(a.value);
    const bool tensor_parameter = is_tensor || k_.inputs.count(a.name) != 0;
    if (is_tensor) {
      const ValueId v = r_.tensor(a.name);
      tensors_.emplace(a.name, v);
      places.push_back(static_cast<int64_t>(inputs.size()));
      inputs.push_back(v);
    } else if (tensor_parameter) {
      if (!std::holds_alternative<NoneArg>(a.value))
        r_.refuse(fmt::format("its argument '{}' is a number where the kernel takes a tensor", a.name));
      places.push_back(-1);
    } else {
      numbers.push_back(number(a));
    }
  }

  /// Integers, some of which may be sizes: then all are.
  CustomNumber integers(const std::vector<Expr>& values, CustomNumber::Kind kind) {
    CustomNumber n{.kind = kind};
    if (std::all_of(values.begin(), values.end(), [](const Expr& e) { return e.is_const(); })) {
      for (const Expr& e : values) n.integers.push_back(*e.as_const());
      return n;
    }
    for (const Expr& e : values)
      if (r_.read_integer(e)) r_.refuse("an argument is a number that is read out of a tensor", "give it as a tensor");
    n.first_size = static_cast<int>(sizes.size()), n.sizes = static_cast<int>(values.size());
    sizes.insert(sizes.end(), values.begin(), values.end());
    return n;
  }

  CustomNumber number(const NamedArg& a) {
    using Kind = CustomNumber::Kind;
    if (std::holds_alternative<NoneArg>(a.value)) return {};
    if (const auto* b = std::get_if<bool>(&a.value)) return {.kind = Kind::integer, .integers = {*b}};
    if (const auto* d = std::get_if<double>(&a.value)) return {.kind = Kind::real, .reals = {*d}};
    if (const auto* d = std::get_if<std::vector<double>>(&a.value)) return {.kind = Kind::reals, .reals = *d};
    if (const auto* s = std::get_if<std::string>(&a.value)) return {.kind = Kind::text, .text = *s};
    if (const auto* t = std::get_if<DType>(&a.value)) return {.kind = Kind::integer, .integers = {static_cast<int64_t>(*t)}};
    if (const auto* l = std::get_if<std::vector<bool>>(&a.value)) return {.kind = Kind::integers, .integers = {l->begin(), l->end()}};
    if (const auto* e = std::get_if<Expr>(&a.value)) {
      integers_[a.name] = *e;
      return integers({*e}, Kind::integer);
    }
    if (const auto* l = std::get_if<std::vector<Expr>>(&a.value)) {
      for (size_t i = 0; i < l->size(); ++i) integers_[fmt::format("{}.{}", a.name, i)] = (*l)[i];
      return integers(*l, Kind::integers);
    }
    if (const auto* s = std::get_if<import::SymbolicArg>(&a.value))
      r_.refuse(fmt::format("its argument '{}' is {}, computed from sizes", a.name, s->text),
                "give it as a tensor, or the sizes themselves");
    r_.refuse(fmt::format("its argument '{}' is of a kind that kernels are not given", a.name));
  }

  std::optional<Expr> value_of(const std::string& name) const {
    if (const auto it = integers_.find(name); it != integers_.end()) return it->second;
    const size_t dot = name.rfind('.');
    if (dot == std::string::npos) return std::nullopt;
    const auto it = tensors_.find(name.substr(0, dot));
    if (it == tensors_.end()) return std::nullopt;
    const std::vector<Expr>& dims = r_.b.dims(it->second);
    const std::string what = name.substr(dot + 1);
    if (what == "numel") return product(dims);
    if (what == "rank") return Expr(static_cast<int64_t>(dims.size()));
    if (what == "last") return dims.empty() ? std::nullopt : std::optional(dims.back());
    if (what.empty() || what.size() > 2 || what.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
    const size_t d = static_cast<size_t>(std::stoi(what));
    return d < dims.size() ? std::optional(dims[d]) : std::nullopt;
  }

  Rule& r_;
  const Kernels& all_;
  const Kernel& k_;
  std::map<std::string, ValueId> tensors_;
  std::map<std::string, Expr> integers_;
};

void call_code(Rule& r, const Kernels& all, const Kernel& k) {
  Use use(r, all, k);
  std::map<Attr, AttrValue> attrs;
  std::vector<DType> types;
  std::vector<Exprs> dims;
  Ints ranks;
  Exprs sizes;
  for (size_t i = 0; i < k.results.size(); ++i) {
    const TensorType t = use.result(i);
    types.push_back(t.dtype);
    ranks.push_back(t.rank());
    sizes.insert(sizes.end(), t.dims.begin(), t.dims.end());
  }
  sizes.insert(sizes.end(), use.sizes.begin(), use.sizes.end());
  Exprs launch(CustomLaunch::count, Expr(1));
  for (const size_t i : {CustomLaunch::scratch, CustomLaunch::shared, CustomLaunch::gpu_scratch}) launch[i] = 0;
  if (k.cpu) {
    launch[CustomLaunch::work] = use.count(k.cpu->work, 0), launch[CustomLaunch::grain] = use.count(k.cpu->grain, 1);
    launch[CustomLaunch::scratch] = use.count(k.cpu->scratch, 0);
    attrs[Attr::function] = own::entry_symbol(all, k.cpu->code, k.cpu->function);
  } else {
    attrs[Attr::function] = std::string();
  }
  if (k.cuda) {
    for (size_t i = 0; i < 3; ++i) {
      launch[CustomLaunch::grid + i] = use.count(k.cuda->grid[i], 0);
      launch[CustomLaunch::block + i] = k.cuda->block[i];
    }
    launch[CustomLaunch::shared] = use.count(k.cuda->shared, 0), launch[CustomLaunch::gpu_scratch] = use.count(k.cuda->scratch, 0);
    const std::vector<size_t>& compiled = k.cuda->binaries;
    attrs[Attr::kind] =
        custom_cuda_text({compiled.empty() ? own::cuda_header(k.cuda->source) : "", {compiled.begin(), compiled.end()}, k.cuda->function});
    if (!compiled.empty() &&
        std::any_of(use.numbers.begin(), use.numbers.end(), [](const CustomNumber& n) { return n.kind == CustomNumber::Kind::text; }))
      r.refuse("an argument is text, which compiled kernels are not given");
  }
  attrs[Attr::op] = k.op;
  attrs[Attr::types] = custom_types_text(types);
  attrs[Attr::ranks] = ranks;
  attrs[Attr::places] = use.places;
  attrs[Attr::numbers] = custom_numbers_text(use.numbers);
  attrs[Attr::sizes] = std::move(sizes);
  attrs[Attr::launch] = std::move(launch);
  const std::vector<ValueId> results = r.b.make(Op::custom, use.inputs, std::move(attrs));
  for (size_t i = 0; i < results.size(); ++i) r.set(i, results[i]);
}

void compute_pointwise(Rule& r, const Kernels& all, const Kernel& k) {
  for (size_t i = 0; i < k.pointwise.size(); ++i) {
    if (!r.wants(i)) continue;
    std::vector<Expr> dims;
    for (const NamedArg& a : r.node.args)
      if (r.is_tensor(a.name)) dims = broadcast_dims(r.b.syms(), dims, r.b.dims(r.tensor(a.name)));
    const TensorType archive = r.meta_result(i);
    const ValueId v = r.b.cast(pointwise_value(r, all, k.pointwise[i]), archive.dtype);
    r.set(i, expand(r.b, v, dims));
  }
}

}  // namespace

void run_own(Rule& r, const Kernels& all) {
  std::string why;
  for (const Kernel& k : all.rows) {
    if (k.target != r.node.target) continue;
    const Fit fit = takes(r, k);
    if (fit) return k.pointwise.empty() ? call_code(r, all, k) : compute_pointwise(r, all, k);
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", k.path, fit.why);
  }
  r.refuse(fmt::format("no kernel in {} takes its tensors: {}", all.file, why), "add one for these types, or cast in the model");
}

}  // namespace aotc::decompose
