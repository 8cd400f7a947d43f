// Operators on complex tensors that do the same to the real and to the imaginary parts: the rule for real tensors, carried out twice.
#include <algorithm>
#include <map>
#include <set>

#include "decompose/complex.h"
#include "decompose/decompose.h"
#include "decompose/env.h"
#include "decompose/writing.h"

namespace aotc::decompose {
namespace {

/// What says where elements go: not elements themselves.
constexpr std::string_view kPlaces = "condition mask index indices";
/// Arguments that may be a number among the elements.
constexpr std::string_view kNumbers = "self other value fill_value fill s";

/// The node as one part has it: numbers among the elements are their real or imaginary part.
import::PNode part_of(const import::PNode& node, int part){import::PNode own = node;
for (import::NamedArg& a : own.args) {
  if (!has_word(kNumbers, a.name)) continue;
  if (const auto* z = std::get_if<std::complex<double>>(&a.value))
    a.value = part == 0 ? z->real() : z->imag();
  else if (part == 1 && (std::holds_alternative<Expr>(a.value) || std::holds_alternative<double>(a.value) ||
                         std::holds_alternative<bool>(a.value) || std::holds_alternative<import::SymbolicArg>(a.value)))
    a.value = 0.0;
}
return own;
}  // namespace

// In the place of a part.
constexpr int kMagnitude = 2;
constexpr int kMatrix = 3;  ///< the real matrix [[re, -im], [im, re]], which has each singular value twice

/// Complex tensors as one of their parts; real ones among the elements have no imaginary part.
class PartEnv final : public TensorEnv {
 public:
  PartEnv(TensorEnv& whole, const Rule& r, int part, Ints matrix_dims = {})
      : whole_(whole), b_(r.b), program_(r.program), part_(part), matrix_dims_(std::move(matrix_dims)) {
    for (const import::NamedArg& a : r.node.args) {
      if (has_word(kPlaces, a.name)) continue;
      if (const auto* t = std::get_if<import::TensorRef>(&a.value)) elements_.insert(t->name);
      if (const auto* l = std::get_if<import::TensorList>(&a.value))
        for (const import::TensorRef& t : *l) elements_.insert(t.name);
    }
  }
  ValueId get(const std::string& name) override {
    const T x(b_, whole_.get(name));
    if (complex(name) && part_ == kMatrix) return matrix(x.select(-1, 0), x.select(-1, 1));
    if (complex(name)) return part_ == kMagnitude ? binary(Op::hypot, x.select(-1, 0), x.select(-1, 1)) : x.select(-1, part_);
    return part_ == 1 && elements_.count(name) ? x.like(0) : x;
  }
  void define(const std::string& name, ValueId v) override { made.emplace_back(name, v); }
  void write(const std::string&, ValueId) override { throw Refused{"this in-place operator is not supported on complex tensors", ""}; }
  Owner owner(const std::string& name) override {
    Owner o = whole_.owner(name);
    if (!is_complex(o.layout->dtype)) throw Refused{"a complex view of the memory of a real tensor is not supported here", ""};
    o.value = T(b_, o.value).select(-1, part_);
    return o;
  }
  const std::string& name_now(const std::string& name) const override { return whole_.name_now(name); }
  ValueId number(const import::SymbolicArg& arg) override { return whole_.number(arg); }
  std::optional<ValueId> integer(const Expr& e) override { return whole_.integer(e); }
  std::map<ValueId, Selected>& selections() override { return whole_.selections(); }
  void check(ValueId condition, std::string message) override { whole_.check(condition, std::move(message)); }
  std::optional<Expr> largest(const Expr& archive) const override { return whole_.largest(archive); }
  Expr found(const std::optional<Expr>& archive, ValueId count, const Expr& bound) override { return whole_.found(archive, count, bound); }

  std::vector<std::pair<std::string, ValueId>> made;

 private:
  bool complex(const std::string& name) const {
    const auto it = program_.tensors.find(name);
    return it != program_.tensors.end() && is_complex(it->second.dtype);
  }
  ValueId matrix(const T& re, const T& im) const {
    const int rows = static_cast<int>(matrix_dims_[0]), cols = static_cast<int>(matrix_dims_[1]);
    const ValueId upper = b_.cat({re, -im}, cols), lower = b_.cat({im, re}, cols);
    return b_.cat({upper, lower}, rows);
  }
  TensorEnv& whole_;
  Builder& b_;
  const import::Program& program_;
  int part_;
  Ints matrix_dims_;  ///< kMatrix: rows, columns
  std::set<std::string> elements_;
};

RuleFn rule_for_real(std::string_view target) {
  if (const RuleFn fn = find_rule(target)) return fn;
  return find_rule(functional_name(std::string(target)));
}

/// The dims of the matrices whose singular values a norm asks for; empty where it asks for none.
Ints singular_dims(Rule& r) {
  const bool matrices = r.node.target.rfind("aten.linalg_matrix_norm.", 0) == 0 || r.node.target.rfind("aten.linalg_norm.", 0) == 0;
  if (!matrices || r.none("ord")) return {};
  const int rank = static_cast<int>(r.meta_arg(r.has("self") ? "self" : "A")->sizes.size());
  if (std::holds_alternative<std::string>(r.arg("ord")) ? r.text("ord") != "nuc" : std::abs(r.number("ord")) != 2) return {};
  Ints dims = r.none("dim") ? Ints{0, rank - 1} : r.integers("dim");
  for (int64_t& d : dims) d = d < 0 ? d + rank : d;
  return dims.size() == 2 && dims[0] != dims[1] ? dims : Ints{};
}

void by_parts(Rule& r) { r.on_parts(rule_for_real(r.node.target)); }
void by_magnitude(Rule& r) { r.on_magnitudes(rule_for_real(r.node.target)); }
ValueId added(Builder& b, ValueId re, ValueId im) { return T(b, re) + T(b, im); }
ValueId hypotenuse(Builder& b, ValueId re, ValueId im) { return binary(Op::hypot, T(b, re), T(b, im)); }
void variance(Rule& r) { r.on_parts(rule_for_real(r.node.target), added); }
void deviation(Rule& r) { r.on_parts(rule_for_real(r.node.target), hypotenuse); }

constexpr RuleRow kReal[] = {
    {"aten.all.default aten.all.dim aten.all.dims aten.any.default aten.any.dim aten.any.dims aten.argwhere.default "
     "aten.count_nonzero.default aten.count_nonzero.dim_IntList aten.linalg_matrix_norm.default aten.linalg_matrix_norm.str_ord "
     "aten.linalg_norm.default aten.linalg_norm.ord_str aten.linalg_vector_norm.default aten.logical_and.default aten.logical_not.default "
     "aten.logical_or.default aten.logical_xor.default aten.nonzero.default aten.nonzero_numpy.default aten.norm.Scalar "
     "aten.norm.ScalarOpt_dim",
     by_magnitude},
    {"aten.std.correction aten.std.default aten.std.dim", deviation},
    {"aten.var.correction aten.var.default aten.var.dim", variance},
};

constexpr std::string_view kByParts =
    "aten.as_strided.default aten.atleast_1d.default aten.atleast_2d.default aten.atleast_3d.default aten.block_diag.default "
    "aten.broadcast_tensors.default aten.broadcast_to.default aten.column_stack.default aten.concat.default aten.concatenate.default "
    "aten.cumsum.default aten.diag.default aten.diag_embed.default aten.diagflat.default aten.diagonal.default aten.diagonal_copy.default "
    "aten.diagonal_scatter.default aten.dsplit.array aten.dsplit.int aten.dstack.default aten.empty.memory_format aten.empty_like.default "
    "aten.empty_permuted.default aten.empty_strided.default aten.expand_as.default aten.fft_fftshift.default aten.fft_ifftshift.default "
    "aten.fill.Scalar aten.fill.Tensor aten.fliplr.default aten.flipud.default aten.full.default aten.full_like.default "
    "aten.gather.default aten.hsplit.array aten.hsplit.int aten.hstack.default aten.index_add.default aten.index_copy.default "
    "aten.index_fill.int_Scalar aten.index_fill.int_Tensor aten.index_put.default aten.lerp.Scalar aten.lift.default "
    "aten.lift_fresh.default aten.linalg_diagonal.default aten.masked_fill.Scalar aten.masked_fill.Tensor aten.masked_scatter.default "
    "aten.masked_select.default aten.meshgrid.default aten.meshgrid.indexing aten.moveaxis.int aten.moveaxis.intlist aten.movedim.int "
    "aten.movedim.intlist aten.nan_to_num.default aten.narrow_copy.default aten.new_empty.default aten.new_empty_strided.default "
    "aten.new_full.default aten.new_zeros.default aten.numpy_T.default aten.put.default aten.ravel.default aten.repeat.default "
    "aten.repeat_interleave.self_int aten.replication_pad3d.default aten.roll.default aten.rot90.default aten.row_stack.default "
    "aten.scalar_tensor.default aten.scatter.src aten.scatter.value aten.scatter_add.default aten.select_scatter.default "
    "aten.slice_scatter.default aten.sum_to_size.default aten.swapaxes.default aten.swapdims.default aten.take.default "
    "aten.take_along_dim.default aten.tensor_split.indices aten.tensor_split.sections aten.tile.default aten.trace.default "
    "aten.tril.default aten.triu.default aten.unfold.default aten.unsafe_chunk.default aten.unsafe_split.Tensor "
    "aten.unsafe_split_with_sizes.default aten.vsplit.array aten.vsplit.int aten.vstack.default aten.where.Scalar aten.where.ScalarOther "
    "aten.where.ScalarSelf aten.where.self aten.zero.default";

}  // namespace aotc::decompose

void Rule::on_parts(void (*fn)(Rule&), ValueId (*together)(Builder&, ValueId, ValueId)) {
  std::vector<std::pair<std::string, ValueId>> made[2];
  for (int i = 0; i < 2; ++i) {
    const import::PNode own = part_of(node, i);
    PartEnv env(env_, *this, i);
    Rule one(b, program, own, env);
    one.part = true;
    one.places = places;
    one.cast_results = cast_results;
    fn(one);
    made[i] = std::move(env.made);
  }
  AOTC_CHECK(made[0].size() == made[1].size(), "{}: {} real and {} imaginary results", node.target, made[0].size(), made[1].size());
  for (size_t k = 0; k < made[0].size(); ++k) {
    const auto& [name, re] = made[0][k];
    const ValueId im = made[1][k].second;
    const auto meta = program.tensors.find(name);
    const bool real = meta != program.tensors.end() && !is_complex(meta->second.dtype);  // of a real tensor, to the sizes of a complex one
    define(name, together ? together(b, re, im) : real ? re : join({T(b, re), T(b, im)}));
  }
}

void Rule::on_magnitudes(void (*fn)(Rule&)) {
  const Ints matrix = singular_dims(*this);
  PartEnv env(env_, *this, matrix.empty() ? kMagnitude : kMatrix, matrix);
  Rule one(b, program, node, env);
  one.cast_results = cast_results;
  fn(one);
  const bool summed = !matrix.empty() && std::holds_alternative<std::string>(arg("ord"));
  for (const auto& [name, v] : env.made) define(name, summed ? ValueId(T(b, v) * 0.5) : v);
}

void with_pair(Rule& r) {
  const auto real = [&](const std::string& name) {
    const auto it = r.program.tensors.find(name);
    return it != r.program.tensors.end() && !is_complex(it->second.dtype);
  };
  bool mixed = false;
  for (const import::NamedArg& a : r.node.args) {
    if (has_word(kPlaces, a.name)) continue;
    if (const auto* t = std::get_if<import::TensorRef>(&a.value)) mixed = mixed || real(t->name);
    if (const auto* l = std::get_if<import::TensorList>(&a.value))
      mixed = mixed || std::any_of(l->begin(), l->end(), [&](const import::TensorRef& t) { return real(t.name); });
  }
  for (const std::string& name : import::result_names(r.node)) mixed = mixed || real(name);
  mixed ? by_parts(r) : rule_for_real(r.node.target)(r);
}

RuleFn find_rule_by_parts(std::string_view overload) {
  for (const RuleRow& row : kReal)
    if (has_word(row.overloads, overload)) return row.fn;
  return has_word(kByParts, overload) ? by_parts : nullptr;
}

}  // namespace aotc::decompose
