// Reductions of what a mask selects: sums that leave the others out, and the number of those that are left.
#include <algorithm>
#include <limits>

#include "decompose/masked_walk.h"

namespace aotc::decompose::masked {

using namespace import;

namespace {
/// A reduction over all elements: 1 is the mean of a loss, 2 its sum.
int64_t reduction(PNode& n) {
  const Arg* a = arg(n, "reduction");
  const Expr* e = a ? std::get_if<Expr>(a) : nullptr;
  return e ? e->as_const().value_or(0) : 1;
}

/// What is taken off the number of elements by which a variance divides: whole numbers alone.
std::optional<int64_t> correction_of(PNode& n) {
  if (const Arg* unbiased = arg(n, "unbiased"))
    return std::get_if<bool>(unbiased) ? std::optional<int64_t>(*std::get_if<bool>(unbiased)) : std::nullopt;
  const Arg* a = arg(n, "correction");
  if (!a || std::holds_alternative<NoneArg>(*a)) return 1;
  if (const auto* e = std::get_if<Expr>(a)) return e->as_const();
  const auto* d = std::get_if<double>(a);
  return d && *d == static_cast<double>(static_cast<int64_t>(*d)) ? std::optional(static_cast<int64_t>(*d)) : std::nullopt;
}

std::optional<Arg> neutral_of(Neutral kind, DType t) {
  if (kind == Neutral::zero || kind == Neutral::one) {
    const bool one = kind == Neutral::one;
    if (t == DType::boolean) return Arg(one);
    return is_float(t) ? Arg(one ? 1.0 : 0.0) : Arg(Expr(int64_t{one}));
  }
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const bool least = kind == Neutral::least;
  if (t == DType::boolean) return Arg(!least);
  if (is_float(t)) return Arg(least ? -infinity : infinity);
  if (!is_int(t)) return std::nullopt;
  const int bits = static_cast<int>(dtype_bytes(t)) * 8;
  const int64_t greatest = t == DType::u8 ? 255 : static_cast<int64_t>(UINT64_MAX >> (65 - bits));
  return Arg(Expr(!least ? greatest : t == DType::u8 ? 0 : -greatest - 1));
}
}  // namespace

bool Walk::of_rows(PNode& n, const Packed& p, bool keep) {
  const std::vector<Expr> dims = std::get<std::vector<Expr>>(*arg(n, "dim"));
  const std::vector<Expr>& x = sizes(*tensor_name(arg(n, "self")));
  std::vector<Expr> whole;
  for (size_t d = 0; d < x.size(); ++d) {
    const bool reduced = std::count(dims.begin(), dims.end(), Expr(static_cast<int64_t>(d))) > 0;
    if (reduced && d < p.at) return false;
    if (!reduced || keep) whole.push_back(reduced ? Expr(1) : x[d]);
  }
  const std::string result = std::get<TensorRef>(n.results[0]).name;
  set_sizes(result, std::move(whole));
  packed_[result] = p;
  p_.nodes.push_back(std::move(n));
  return true;
}

bool Walk::whole_dims(PNode& n, const Packed& p, bool& over_selected, Expr& others) {
  const std::string x = *tensor_name(arg(n, "self"));
  const size_t k = mask_rank(p), rank = sizes(x).size() - k + 1;
  const auto* keep = std::get_if<bool>(arg(n, "keepdim"));
  const auto* given = std::get_if<std::vector<Expr>>(arg(n, "dim"));
  if (!given || given->empty() || !keep || (*keep && k > 1)) return false;
  std::vector<Expr> dims;
  for (const Expr& e : *given) {
    int64_t d = e.as_const().value_or(INT64_MIN);
    if (d < 0) d += static_cast<int64_t>(rank);
    if (d < 0 || d >= static_cast<int64_t>(rank)) return false;
    const auto at = static_cast<size_t>(d);
    over_selected |= at == p.at;
    for (size_t i = 0; i < (at == p.at ? k : 1); ++i) dims.emplace_back(static_cast<int64_t>(at + i + (at > p.at ? k - 1 : 0)));
    if (at != p.at) others *= sizes(x)[at + (at > p.at ? k - 1 : 0)];
  }
  *arg(n, "dim") = dims;
  return true;
}

bool Walk::fold(PNode& n, const Packed& p, Neutral kind) {
  const std::string* self = tensor_name(arg(n, "self"));
  if (!self) return false;
  const std::string x = *self;
  for (const std::string_view name : {"ord", "p"})  // norms of other orders are no sums of powers
    if (const Arg* order = arg(n, name); order && !std::holds_alternative<NoneArg>(*order)) {
      const auto* real = std::get_if<double>(order);
      const auto* whole = std::get_if<Expr>(order);
      if (!(real ? *real > 0 : whole && whole->as_const().value_or(0) > 0)) return false;
    }
  Arg* dim = arg(n, "dim");
  const bool single = dim && std::holds_alternative<Expr>(*dim);  // a schema that takes one dim
  if (single && mask_rank(p) > 1) return false;
  if (single) *dim = std::vector<Expr>{std::get<Expr>(*dim)};
  const auto* list = dim ? std::get_if<std::vector<Expr>>(dim) : nullptr;
  const bool all = !dim || std::holds_alternative<NoneArg>(*dim) || (list && list->empty());
  bool over_selected = all;
  Expr others(1);
  if (all) {
    const Arg* keep = arg(n, "keepdim");
    if (keep && *std::get_if<bool>(keep)) return false;
  } else if (!whole_dims(n, p, over_selected, others)) {
    return false;
  }
  if (single && !over_selected) return false;
  if (!over_selected) return of_rows(n, p, *std::get_if<bool>(arg(n, "keepdim")));
  if (single) *dim = Arg(std::vector<Expr>(std::get<std::vector<Expr>>(*dim)).front());
  std::optional<Arg> other = neutral_of(kind, p_.tensors.at(x).dtype);
  if (!other) return false;
  const std::string kept = selected_or(n, p, x, std::move(*other));
  *arg(n, "self") = TensorRef{kept};
  p_.nodes.push_back(std::move(n));
  return true;
}

bool Walk::sum(PNode& n, const Packed& p, bool mean) {
  const std::string x = *tensor_name(arg(n, "self"));
  const DType t = p_.tensors.at(x).dtype;
  const bool all = n.target == "aten.sum.default" || n.target == "aten.mean.default";
  const size_t k = mask_rank(p);
  if (!all && n.target != "aten.sum.dim_IntList" && n.target != "aten.mean.dim") return false;
  if (mean && t != DType::f32 && t != DType::f64) return false;
  if (Arg* dtype = arg(n, "dtype"); mean && dtype && !std::holds_alternative<NoneArg>(*dtype)) return false;
  Expr others(1);  // elements that are summed for each selected one
  bool over_selected = all;
  if (all) {
    for (size_t d = 0; d < sizes(x).size(); ++d)
      if (d < p.at || d >= p.at + k) others *= sizes(x)[d];
  } else if (!whole_dims(n, p, over_selected, others)) {
    return false;
  }
  const std::vector<Expr> dims = all ? std::vector<Expr>() : std::get<std::vector<Expr>>(*arg(n, "dim"));
  if (!over_selected) return of_rows(n, p, *std::get_if<bool>(arg(n, "keepdim")));
  const std::string kept = selected_or(n, p, x, Expr(0));
  *arg(n, "self") = TensorRef{kept};
  if (!mean) {
    p_.nodes.push_back(std::move(n));
    return true;
  }
  const std::string result = std::get<TensorRef>(n.results[0]).name;
  std::vector<NamedArg> args = {{"self", TensorRef{kept}}};
  if (!all) args.insert(args.end(), {{"dim", dims}, {"keepdim", *arg(n, "keepdim")}});
  args.push_back({"dtype", NoneArg{}, true});
  const std::string sums = add(n, ".sum", all ? "aten.sum.default" : "aten.sum.dim_IntList", std::move(args), t, sizes(result));
  n.target = "aten.div.Tensor";
  n.args = {{"self", TensorRef{sums}}, {"other", TensorRef{counted(n, p, others)}}};
  p_.nodes.push_back(std::move(n));
  return true;
}

std::string Walk::counted(const PNode& n, const Packed& p, const Expr& others) {
  const std::string selected =
      add(n, ".selected_count", "aten.sum.default", {{"self", TensorRef{p.mask}}, {"dtype", NoneArg{}, true}}, DType::i64, {});
  return add(n, ".count", "aten.mul.Tensor", {{"self", TensorRef{selected}}, {"other", others}}, DType::i64, {});
}

bool Walk::spread(PNode& n, const Packed& p, bool root) {
  const std::string x = *tensor_name(arg(n, "self")), result = std::get<TensorRef>(n.results[0]).name;
  const DType t = p_.tensors.at(x).dtype;
  if (t != DType::f32 && t != DType::f64) return false;
  const std::optional<int64_t> correction = correction_of(n);
  const auto* keep = std::get_if<bool>(arg(n, "keepdim"));
  Arg* dim = arg(n, "dim");
  const auto* given = dim ? std::get_if<std::vector<Expr>>(dim) : nullptr;
  const bool all = !given || given->empty(), keeps = keep && *keep;
  if (!correction || (dim && !given && !std::holds_alternative<NoneArg>(*dim)) || (all && keeps)) return false;
  Expr others(1);
  bool over_selected = all;
  std::vector<Expr> dims, line = sizes(x);
  if (!all && !whole_dims(n, p, over_selected, others)) return false;
  if (!over_selected) return of_rows(n, p, keeps);
  for (size_t d = 0; d < line.size(); ++d) {
    if (all && (d < p.at || d >= p.at + mask_rank(p))) others *= line[d];
    if (all) dims.emplace_back(static_cast<int64_t>(d));
  }
  if (!all) dims = std::get<std::vector<Expr>>(*dim);
  for (const Expr& d : dims) line[static_cast<size_t>(*d.as_const())] = 1;
  const auto sum = [&](const std::string& suffix, const std::string& of, bool keepdim, const std::vector<Expr>& to) {
    return add(n, suffix, "aten.sum.dim_IntList",
               {{"self", TensorRef{of}}, {"dim", dims}, {"keepdim", keepdim}, {"dtype", NoneArg{}, true}}, t, to);
  };
  const auto pair = [&](const std::string& suffix, const std::string& op, const std::string& a, Arg b, DType type,
                        const std::vector<Expr>& to) {
    std::vector<NamedArg> args = {{"self", TensorRef{a}}, {"other", std::move(b)}};
    if (op == "sub") args.push_back({"alpha", Expr(1), true});
    return add(n, suffix, "aten." + op + ".Tensor", std::move(args), type, to);
  };
  const std::string count = counted(n, p, others);
  const std::string mean = pair(".mean", "div", sum(".sum", selected_or(n, p, x, Expr(0)), true, line), TensorRef{count}, t, line);
  const std::string off = selected_or(n, p, pair(".off", "sub", x, TensorRef{mean}, t, sizes(x)), Expr(0), ".off_selected");
  const std::string squares = sum(".squares_sum", pair(".squares", "mul", off, TensorRef{off}, t, sizes(x)), keeps, sizes(result));
  const std::string less = pair(".count_less", "sub", count, Expr(*correction), DType::i64, {});
  const std::string freedom = add(n, ".freedom", "aten.clamp_min.default", {{"self", TensorRef{less}}, {"min", Expr(0)}}, DType::i64, {});
  n.target = root ? "aten.sqrt.default" : "aten.div.Tensor";
  if (root)
    n.args = {{"self", TensorRef{pair(".variance", "div", squares, TensorRef{freedom}, t, sizes(result))}}};
  else
    n.args = {{"self", TensorRef{squares}}, {"other", TensorRef{freedom}}};
  p_.nodes.push_back(std::move(n));
  return true;
}

bool Walk::median(PNode& n, const Packed& p) {
  const std::string x = *tensor_name(arg(n, "self"));
  const DType t = p_.tensors.at(x).dtype;
  if (n.target != "aten.median.default" || !is_float(t)) return false;
  Expr elems(1), others(1);
  for (size_t d = 0; d < sizes(x).size(); ++d) {
    elems *= sizes(x)[d];
    if (d < p.at || d >= p.at + mask_rank(p)) others *= sizes(x)[d];
  }
  // What is not selected comes last; the lower of two middle ones. NaN where one is selected, or nothing is.
  const auto make = [&](const std::string& suffix, const std::string& target, std::vector<NamedArg> args, DType type,
                        std::vector<Expr> to) { return Arg(TensorRef{add(n, suffix, target, std::move(args), type, std::move(to))}); };
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Arg count = TensorRef{counted(n, p, others)};
  const Arg low = TensorRef{selected_or(n, p, x, Arg(infinity))}, none = TensorRef{selected_or(n, p, x, Arg(0.0), ".or_zero")};
  const Arg line = make(".line", "aten.reshape.default", {{"self", low}, {"shape", std::vector<Expr>{elems}}}, t, {elems});
  const Arg sorted = make(".sorted", "aten.msort.default", {{"self", line}}, t, {elems});
  const Arg last = make(".last", "aten.sub.Tensor", {{"self", count}, {"other", Expr(1)}, {"alpha", Expr(1), true}}, DType::i64, {});
  const Arg from_one = make(".at_least", "aten.clamp_min.default", {{"self", last}, {"min", Expr(0)}}, DType::i64, {});
  const Arg middle = make(".middle", "aten.floor_divide.default", {{"self", from_one}, {"other", Expr(2)}}, DType::i64, {});
  const Arg picked = make(".picked", "aten.take.default", {{"self", sorted}, {"index", middle}}, t, {});
  const Arg nans = make(".nans", "aten.isnan.default", {{"self", none}}, DType::boolean, sizes(x));
  const Arg some = make(".some_nan", "aten.any.default", {{"self", nans}}, DType::boolean, {});
  const Arg empty = make(".empty", "aten.eq.Scalar", {{"self", count}, {"other", Expr(0)}}, DType::boolean, {});
  const Arg lacking = make(".lacking", "aten.logical_or.default", {{"self", some}, {"other", empty}}, DType::boolean, {});
  n.target = "aten.masked_fill.Scalar";
  n.args = {{"self", picked}, {"mask", lacking}, {"value", Arg(nan)}};
  p_.nodes.push_back(std::move(n));
  return true;
}

bool Walk::along_lines(PNode& n, const Packed& p, Neutral kind) {
  const std::string *self = tensor_name(arg(n, "self")), result = std::get<TensorRef>(n.results[0]).name;
  const auto* dim = std::get_if<Expr>(arg(n, "dim"));
  if (!self || !dim || !dim->is_const()) return false;
  const std::string x = *self;
  const auto k = static_cast<int64_t>(mask_rank(p)), rank = static_cast<int64_t>(sizes(x).size()) - k + 1, at = static_cast<int64_t>(p.at);
  int64_t d = *dim->as_const();
  if (d < 0) d += rank;
  if (d < 0 || d >= rank || (d == at && k > 1)) return false;
  *arg(n, "dim") = Expr(d > at ? d + k - 1 : d);
  if (d == at) {
    std::optional<Arg> other = neutral_of(kind, p_.tensors.at(x).dtype);
    if (!other) return false;
    const std::string kept = selected_or(n, p, x, std::move(*other));
    *arg(n, "self") = TensorRef{kept};
  }
  set_sizes(result, sizes(x));
  packed_[result] = p;
  p_.nodes.push_back(std::move(n));
  return true;
}

bool Walk::loss(PNode& n, const Packed& p) {
  const int64_t how = reduction(n);
  const std::string *a = tensor_name(arg(n, "self")), *b = tensor_name(arg(n, "target"));
  Arg* weight = arg(n, "weight");
  if (!a || !b || !packed_.count(*a) || !packed_.count(*b) || tail(*a, p) != tail(*b, p)) return false;
  if ((how != 1 && how != 2) || (weight && !std::holds_alternative<NoneArg>(*weight))) return false;
  std::vector<NamedArg> args = n.args;
  for (NamedArg& x : args)
    if (x.name == "reduction") x.value = Expr(0);
  const std::string each =
      add(n, ".each", n.target, std::move(args), p_.tensors.at(std::get<TensorRef>(n.results[0]).name).dtype, sizes(*a));
  packed_[each] = p;
  n.target = how == 1 ? "aten.mean.default" : "aten.sum.default";
  n.args = {{"self", TensorRef{each}}, {"dtype", NoneArg{}, true}};
  return sum(n, p, how == 1);
}

}  // namespace aotc::decompose::masked
