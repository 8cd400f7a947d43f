#include "decompose/rule.h"
#include "import/torch_versions.h"

#include <limits>

#include "decompose/complex.h"
#include "decompose/tensor.h"
#include "graph/infer.h"

namespace aotc::decompose {

using import::Arg;

const Arg* Rule::find(std::string_view name) const {
  for (const import::NamedArg& a : node.args)
    if (a.name == name) return &a.value;
  return nullptr;
}

const Arg& Rule::arg(std::string_view name) const {
  const Arg* a = find(name);
  if (!a) refuse(fmt::format("argument '{}' is missing", name));
  return *a;
}

bool Rule::since_torch(int major, int minor) const {
  return !(import::torch_version(program.torch_version) < import::TorchVersion{major, minor});
}

bool Rule::has(std::string_view name) const { return find(name) != nullptr; }

bool Rule::none(std::string_view name) const {
  const Arg* a = find(name);
  return !a || std::holds_alternative<import::NoneArg>(*a);
}

bool Rule::is_tensor(std::string_view name) const {
  const Arg* a = find(name);
  return a && std::holds_alternative<import::TensorRef>(*a);
}

void Rule::wrong_type(std::string_view name, std::string_view expected) const {
  const Arg* a = find(name);
  if (const auto* s = a ? std::get_if<import::SymbolicArg>(a) : nullptr)
    refuse(fmt::format("argument '{}' is computed from sizes ({}); only whole numbers can be", name, s->text),
           "export with these sizes fixed");
  refuse(fmt::format("argument '{}' is not {}", name, expected));
}

ValueId Rule::tensor(std::string_view name) {
  const auto* t = std::get_if<import::TensorRef>(&arg(name));
  if (!t) wrong_type(name, "a tensor");
  return env_.get(t->name);
}

ValueId Rule::memory(std::string_view name) {
  const auto* t = std::get_if<import::TensorRef>(&arg(name));
  if (!t) wrong_type(name, "a tensor");
  const TensorEnv::Owner owner = env_.owner(t->name);
  const std::vector<Expr>&sizes = owner.layout->sizes, &strides = owner.layout->strides;
  if (const import::TensorMeta* own = meta_arg(name); own && own->dtype != owner.layout->dtype)
    refuse(fmt::format("'{}' lies in memory of another type", t->name), "use slicing, permute or unfold");
  // From the innermost dim outwards, each begins where those within end.
  const size_t rank = sizes.size();
  Ints order;
  std::vector<bool> placed(rank, false);
  for (size_t i = 0; i < rank; ++i)
    if (sizes[i].is(1)) order.push_back(static_cast<int64_t>(i)), placed[i] = true;
  for (Expr step = 1; order.size() < rank;) {
    const auto fits = [&](size_t i) { return !placed[i] && b.syms().proves_eq(strides.at(i), step); };
    size_t i = rank;
    while (i > 0 && !fits(i - 1)) --i;
    if (i == 0) refuse(fmt::format("'{}' does not fill the memory that it lies in", t->name), "use slicing, permute or unfold");
    placed[--i] = true;
    order.insert(order.begin(), static_cast<int64_t>(i));
    step *= sizes[i];
  }
  const ValueId ordered = std::is_sorted(order.begin(), order.end()) ? owner.value : b.permute(owner.value, order);
  const ValueId elements = b.reshape(ordered, {product(b.dims(owner.value))});
  const Expr& begin = owner.layout->storage_offset;
  if (begin.is(0)) return elements;
  // Other tensors have what lies before it.
  if (!none("storage_offset") && !b.syms().proves_le(begin, sym("storage_offset")))
    refuse(fmt::format("it reaches memory before '{}'", t->name), "take views of the tensor that holds all of it");
  return b.cat({full(b, b.dtype(elements), {begin}, 0.0), elements}, 0);
}

std::optional<ValueId> Rule::opt_tensor(std::string_view name) {
  if (none(name)) return std::nullopt;
  return tensor(name);
}

std::vector<ValueId> Rule::tensors(std::string_view name) {
  std::vector<ValueId> out;
  const Arg& a = arg(name);
  if (const auto* l = std::get_if<import::TensorList>(&a)) {
    for (const import::TensorRef& t : *l) out.push_back(env_.get(t.name));
  } else if (const auto* o = std::get_if<import::OptTensorList>(&a)) {
    for (const auto& t : *o) {
      if (!t) refuse(fmt::format("argument '{}' holds None", name));
      out.push_back(env_.get(t->name));
    }
  } else if (const auto* one = std::get_if<import::TensorRef>(&a)) {
    out.push_back(env_.get(one->name));
  } else if (const auto* empty = std::get_if<std::vector<Expr>>(&a); !empty || !empty->empty()) {
    wrong_type(name, "a list of tensors");
  }
  return out;
}

std::vector<std::optional<ValueId>> Rule::opt_tensors(std::string_view name) {
  std::vector<std::optional<ValueId>> out;
  const Arg& a = arg(name);
  if (const auto* o = std::get_if<import::OptTensorList>(&a)) {
    for (const auto& t : *o) out.push_back(t ? std::optional(env_.get(t->name)) : std::nullopt);
    return out;
  }
  for (ValueId v : tensors(name)) out.push_back(v);
  return out;
}

Expr Rule::sym(std::string_view name) {
  const Arg& a = arg(name);
  if (const auto* e = std::get_if<Expr>(&a)) return *e;
  if (const auto* bo = std::get_if<bool>(&a)) return Expr(*bo ? 1 : 0);
  if (const auto* l = std::get_if<std::vector<Expr>>(&a); l && l->size() == 1) return (*l)[0];
  wrong_type(name, "an integer");
}

std::optional<ValueId> Rule::read_integer(std::string_view name) {
  const auto* e = none(name) ? nullptr : std::get_if<Expr>(&arg(name));
  return e ? env_.integer(*e) : std::nullopt;
}

std::optional<ValueId> Rule::read_integer(const Expr& e) { return env_.integer(e); }

std::vector<Expr> Rule::syms(std::string_view name) {
  const Arg& a = arg(name);
  if (const auto* l = std::get_if<std::vector<Expr>>(&a)) return *l;
  if (const auto* e = std::get_if<Expr>(&a)) return {*e};
  if (std::holds_alternative<import::NoneArg>(a)) return {};
  if (const auto* l = std::get_if<import::TensorList>(&a); l && l->empty()) return {};
  if (const auto* l = std::get_if<std::vector<double>>(&a); l && l->empty()) return {};
  if (const auto* l = std::get_if<std::vector<bool>>(&a); l && l->empty()) return {};
  if (const auto* l = std::get_if<std::vector<std::string>>(&a); l && l->empty()) return {};
  if (const auto* l = std::get_if<import::OptTensorList>(&a); l && l->empty()) return {};
  wrong_type(name, "a list of integers");
}

int64_t Rule::constant(const Expr& e, std::string_view what) const {
  const std::optional<int64_t> c = b.syms().simplify(e).as_const();
  if (!c) refuse(fmt::format("{} is symbolic ({}), only a number is supported", what, e.str(b.syms())), "export with this size fixed");
  return *c;
}

int64_t Rule::integer(std::string_view name) {
  if (const auto* d = std::get_if<double>(&arg(name)); d && *d == static_cast<double>(static_cast<int64_t>(*d)))
    return static_cast<int64_t>(*d);
  return constant(sym(name), fmt::format("argument '{}'", name));
}

int64_t Rule::integer_or(std::string_view name, int64_t fallback) { return none(name) ? fallback : integer(name); }

Ints Rule::integers(std::string_view name) {
  Ints out;
  for (const Expr& e : syms(name)) out.push_back(constant(e, fmt::format("argument '{}'", name)));
  return out;
}

double Rule::number(std::string_view name) {
  const Arg& a = arg(name);
  if (const auto* d = std::get_if<double>(&a)) return *d;
  if (const auto* bo = std::get_if<bool>(&a)) return *bo;
  if (std::holds_alternative<Expr>(a)) return static_cast<double>(integer(name));
  wrong_type(name, "a number");
}

double Rule::number_or(std::string_view name, double fallback) { return none(name) ? fallback : number(name); }

std::vector<double> Rule::numbers(std::string_view name) {
  const Arg& a = arg(name);
  if (const auto* l = std::get_if<std::vector<double>>(&a)) return *l;
  std::vector<double> out;
  for (int64_t i : integers(name)) out.push_back(static_cast<double>(i));
  return out;
}

bool Rule::boolean(std::string_view name) {
  const Arg& a = arg(name);
  if (const auto* bo = std::get_if<bool>(&a)) return *bo;
  if (std::holds_alternative<Expr>(a)) return integer(name) != 0;
  wrong_type(name, "a bool");
}

bool Rule::boolean_or(std::string_view name, bool fallback) { return none(name) ? fallback : boolean(name); }

std::string Rule::text(std::string_view name) {
  if (const auto* s = std::get_if<std::string>(&arg(name))) return *s;
  wrong_type(name, "a string");
}

std::string Rule::text_or(std::string_view name, std::string fallback) { return none(name) ? std::move(fallback) : text(name); }

std::optional<DType> Rule::opt_dtype(std::string_view name) {
  if (none(name)) return std::nullopt;
  if (const auto* d = std::get_if<DType>(&arg(name))) return *d;
  wrong_type(name, "a dtype");
}

Rule::Number Rule::scalar(std::string_view name) {
  const Arg& a = arg(name);
  Number n;
  if (const auto* d = std::get_if<double>(&a)) {
    n.kind = Number::floating;
    n.f = *d;
  } else if (const auto* bo = std::get_if<bool>(&a)) {
    n.kind = Number::boolean;
    n.i = Expr(*bo ? 1 : 0);
    n.f = *bo;
  } else if (const auto* e = std::get_if<Expr>(&a)) {
    n.kind = Number::integer;
    n.i = *e;
    if (auto c = e->as_const()) n.f = static_cast<double>(*c);
    n.computed = env_.integer(*e);
  } else if (const auto* s = std::get_if<import::SymbolicArg>(&a)) {
    n.kind = Number::floating;
    n.f = std::numeric_limits<double>::quiet_NaN();
    n.computed = env_.number(*s);
  } else if (std::holds_alternative<std::complex<double>>(a)) {
    refuse("complex numbers are not supported");
  } else {
    wrong_type(name, "a number");
  }
  return n;
}

TensorType pair_type(TensorType t) {
  if (!is_complex(t.dtype)) return t;
  t.dtype = t.dtype == DType::c64 ? DType::f32 : DType::f64;
  t.dims.push_back(2);
  return t;
}

int Rule::dim(std::string_view name, int rank) {
  if (pairs) --rank;
  const int64_t d = integer(name);
  const int64_t n = rank == 0 ? 1 : rank;
  if (d < -n || d >= n) refuse(fmt::format("dim {} is out of range for rank {}", d, rank));
  return static_cast<int>(d < 0 ? d + n : d);
}

Ints Rule::dims(std::string_view name, int rank, bool empty_means_all) {
  Ints out;
  if (pairs) --rank;
  const bool all = none(name) || (syms(name).empty() && empty_means_all);
  if (all) {
    for (int i = 0; i < rank; ++i) out.push_back(i);
    return out;
  }
  std::vector<bool> seen(static_cast<size_t>(rank) + 1);
  const int64_t n = rank == 0 ? 1 : rank;
  for (int64_t d : integers(name)) {
    if (d < -n || d >= n) refuse(fmt::format("dim {} is out of range for rank {}", d, rank));
    const int64_t w = d < 0 ? d + n : d;
    if (rank == 0) continue;
    if (seen[static_cast<size_t>(w)]) refuse(fmt::format("dim {} appears twice", d));
    seen[static_cast<size_t>(w)] = true;
  }
  for (int i = 0; i < rank; ++i)
    if (seen[static_cast<size_t>(i)]) out.push_back(i);
  return out;
}

Ints Rule::spatial(std::string_view name, int k, int64_t fallback) {
  Ints v = none(name) ? Ints{} : integers(name);
  if (v.empty()) return Ints(static_cast<size_t>(k), fallback);
  if (v.size() == 1) return Ints(static_cast<size_t>(k), v[0]);
  if (v.size() != static_cast<size_t>(k)) refuse(fmt::format("argument '{}' has {} values for {} dimensions", name, v.size(), k));
  return v;
}

static TensorType type_of(const Rule& r, const std::string& name) {
  auto it = r.program.tensors.find(name);
  if (it == r.program.tensors.end()) r.refuse(fmt::format("the archive has no metadata for '{}'", name));
  const TensorType t{it->second.dtype, it->second.sizes};
  return r.pairs ? pair_type(t) : r.part ? TensorType{pair_type(t).dtype, t.dims} : t;
}

TensorType Rule::meta_result(size_t i) const {
  if (i >= node.results.size()) refuse(fmt::format("the archive has no result {}", i));
  if (const auto* t = std::get_if<import::TensorRef>(&node.results[i])) return type_of(*this, t->name);
  if (const auto* l = std::get_if<import::TensorList>(&node.results[i]); l && !l->empty()) return type_of(*this, (*l)[0].name);
  refuse(fmt::format("result {} is not a tensor", i));
}

std::vector<TensorType> Rule::meta_list(size_t i) const {
  std::vector<TensorType> out;
  if (i >= node.results.size()) refuse(fmt::format("the archive has no result {}", i));
  if (const auto* l = std::get_if<import::TensorList>(&node.results[i]))
    for (const import::TensorRef& t : *l) out.push_back(type_of(*this, t.name));
  return out;
}

bool Rule::wants(size_t i) const { return i < node.results.size() && !std::holds_alternative<import::NoneArg>(node.results[i]); }

const import::TensorMeta* Rule::meta_arg(std::string_view name) const {
  const Arg* a = find(name);
  const auto* t = a ? std::get_if<import::TensorRef>(a) : nullptr;
  if (!t) return nullptr;
  auto it = program.tensors.find(env_.name_now(t->name));
  return it == program.tensors.end() ? nullptr : &it->second;
}

Expr Rule::agree(const Expr& own, const Expr& archive, std::string_view what) const {
  if (own == archive) return archive;
  if (b.syms().proves_ne(own, archive))
    throw fault(fmt::format("a size of {} is {}, the archive says {}", what, own.str(b.syms()), archive.str(b.syms())));
  b.require(ShapeGuard::Kind::eq, own, archive, what);
  return archive;
}

std::vector<Expr> Rule::agree(const std::vector<Expr>& own, const std::vector<Expr>& archive, std::string_view what) const {
  if (own.size() != archive.size()) throw fault(fmt::format("{} has {} dimensions, the archive says {}", what, own.size(), archive.size()));
  for (size_t i = 0; i < own.size(); ++i) agree(own[i], archive[i], what);
  return archive;
}

std::vector<Expr> Rule::agree_argument(std::string_view name, const std::vector<Expr>& archive) const {
  const Arg* a = find(name);
  const auto* sizes = a ? std::get_if<std::vector<Expr>>(a) : nullptr;
  if (!sizes) return archive;
  const size_t dims = archive.size() - (pairs && !archive.empty() ? 1 : 0);
  if (sizes->size() != dims) throw fault(fmt::format("{} sizes for a result of {} dimensions", sizes->size(), dims));
  for (size_t i = 0; i < dims; ++i)
    if (!(*sizes)[i].is(-1)) agree((*sizes)[i], archive[i], fmt::format("argument '{}'", name));
  return archive;
}

Expr Rule::from_start(const Expr& place, const Expr& size) const {
  if (holds(b.graph(), ShapeGuard::Kind::le, 0, place)) return place;
  if (holds(b.graph(), ShapeGuard::Kind::le, place + 1, 0)) return place + size;
  return place + size * min(max(-place, 0), 1);
}

Expr Rule::cut_from_start(const Expr& place, const Expr& size) const {
  return holds(b.graph(), ShapeGuard::Kind::le, 0, place) ? place : max(from_start(place, size), 0);
}

Diagnostic Rule::fault(std::string why) const {
  return {Loc{program.file, node.path, node.name, node.source}, fmt::format("{}: {}", node.target, why)};
}

void Rule::define(const std::string& name, ValueId v) {
  auto it = program.tensors.find(name);
  if (it != program.tensors.end()) {
    TensorType m = pair_type({it->second.dtype, it->second.sizes});
    if (part) m.dims = it->second.sizes;
    if (cast_results) v = b.cast(v, m.dtype);
    if (cast_results && !part && is_complex(it->second.dtype) && b.rank(v) + 1 == m.rank()) v = decompose::join({{b, v}, T(b, v).like(0)});
    const TensorType& t = b.type(v);
    if (!places && t.dtype != m.dtype)
      throw fault(fmt::format("result '{}' has dtype {}, the archive says {}", name, dtype_name(t.dtype), dtype_name(m.dtype)));
    if (t.rank() != m.rank()) throw fault(fmt::format("result '{}' has rank {}, the archive says {}", name, t.rank(), m.rank()));
    agree(t.dims, m.dims, fmt::format("result '{}'", name));
  }
  env_.define(name, v);
}

void Rule::set(size_t i, ValueId v) {
  if (!wants(i)) return;
  if (const auto* t = std::get_if<import::TensorRef>(&node.results[i])) return define(t->name, v);
  if (const auto* l = std::get_if<import::TensorList>(&node.results[i]); l && l->size() == 1) return define((*l)[0].name, v);
  throw fault(fmt::format("result {} is not a tensor", i));
}

void Rule::set_list(size_t i, const std::vector<ValueId>& vs) {
  if (!wants(i)) return;
  const auto* l = std::get_if<import::TensorList>(&node.results[i]);
  if (!l && vs.size() == 1) return set(i, vs[0]);
  if (!l || l->size() != vs.size()) throw fault(fmt::format("{} results, the archive has {}", vs.size(), l ? l->size() : 0));
  for (size_t k = 0; k < vs.size(); ++k) define((*l)[k].name, vs[k]);
}

void Rule::write(std::string_view name, ValueId v) {
  const auto* t = std::get_if<import::TensorRef>(&arg(name));
  if (!t) wrong_type(name, "a tensor");
  env_.write(t->name, v);
}

Expr Rule::found_within_largest(const Expr& archive, ValueId count) {
  const std::optional<Expr> most = archive.is_const() ? archive : env_.largest(archive);
  if (!most)
    refuse("the result's size depends on data, and nothing says how large it can be",
           "state it in the model, as in torch._check(y.shape[0] <= x.shape[0])");
  if (!most->is_const())
    check(b.binary(Op::le, count, b.sym(*most)),
          fmt::format("{} (a size found in data) is more than {}, which the program excludes", archive.str(b.syms()), most->str(b.syms())));
  return env_.found(archive, count, *most);
}

void Rule::refuse(std::string why, std::string hint) const { throw Refused{std::move(why), std::move(hint)}; }

}  // namespace aotc::decompose
