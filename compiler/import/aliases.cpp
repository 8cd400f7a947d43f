#include "import/aliases.h"

#include <algorithm>
#include <optional>

#include "base/words.h"

namespace aotc::import {
namespace {

std::string_view base_name(std::string_view target) {
  if (target.substr(0, 5) != "aten.") return target;
  target.remove_prefix(5);
  return target.substr(0, target.find('.'));
}

/// One result and the operand that it may be.
struct Use {
  const PNode& node;
  const TensorMeta& in;
  const TensorMeta& out;
  size_t operands;  ///< how many tensors the first tensor argument holds
  const SymTable& syms;

  const Arg* arg(std::string_view name) const {
    for (const NamedArg& a : node.args)
      if (a.name == name) return &a.value;
    return nullptr;
  }
};
using Kind = Alias::Kind;

/// Whether memory is laid out in this order of dims, outermost first; nothing where sizes or strides are symbolic and say neither.
std::optional<bool> laid_out(const TensorMeta& m, const std::vector<size_t>& order, const SymTable& syms) {
  if (m.strides.size() != m.sizes.size()) return std::nullopt;
  if (std::any_of(m.sizes.begin(), m.sizes.end(), [](const Expr& n) { return n.is(0); })) return true;
  bool open = false;
  Expr expected = 1;
  for (size_t k = order.size(); k-- > 0;) {
    const Expr &size = m.sizes[order[k]], &stride = m.strides[order[k]];
    if (!size.is(1) && !syms.proves_eq(stride, expected)) {
      open = true;
      if (syms.proves_ne(stride, expected) && syms.proves_ne(size, 1) &&
          std::all_of(m.sizes.begin(), m.sizes.end(), [&](const Expr& n) { return syms.proves_ne(n, 0); }))
        return false;
    }
    expected *= size;
  }
  return open ? std::nullopt : std::optional(true);
}

std::optional<bool> in_format(const TensorMeta& m, std::string_view format, const SymTable& syms) {
  const size_t n = m.sizes.size();
  std::vector<size_t> order;
  if (format == "channels_last" || format == "channels_last_3d") {
    if (n != (format == "channels_last" ? 4u : 5u)) return std::nullopt;
    order.push_back(0);
    for (size_t d = 2; d < n; ++d) order.push_back(d);
    order.push_back(1);
  } else {
    for (size_t d = 0; d < n; ++d) order.push_back(d);
  }
  return laid_out(m, order, syms);
}

/// Whether PyTorch takes memory for channels-last by its strides alone (is_channels_last_strides_2d and _3d): other memory, whatever its
/// order, it takes for contiguous. Dims of size 1 count by their strides, so that a tensor may be in a format that it is not taken for.
std::optional<bool> taken_for_channels_last(const TensorMeta& m, const SymTable& syms) {
  const size_t n = m.sizes.size();
  if (n != 4 && n != 5) return false;
  if (m.strides.size() != n) return std::nullopt;
  std::vector<size_t> order = {1};  // from the inside
  for (size_t d = n - 1; d > 1; --d) order.push_back(d);
  order.push_back(0);
  bool open = false;
  if (m.strides[1].is(0)) return false;
  Expr least = 0;
  for (const size_t d : order) {
    const Expr &size = m.sizes[d], &stride = m.strides[d];
    if (size.is(0) || syms.proves_lt(stride, least)) return false;
    open |= !syms.proves_ne(size, 0) || !syms.proves_le(least, stride);
    if (d == 0 && syms.proves_eq(least, m.strides[1])) return false;
    open |= d == 0 && !syms.proves_ne(least, m.strides[1]);
    least = syms.simplify(stride * size);
  }
  return open ? std::nullopt : std::optional(true);
}

Kind where(std::optional<bool> shares, Kind how) { return !shares ? Alias::unclear : *shares ? how : Alias::none; }

Kind view(const Use&) { return Alias::view; }
Kind same(const Use&) { return Alias::same; }
/// Of complex tensors a view whose elements change on the way.
Kind conjugate(const Use& u) { return is_complex(u.in.dtype) ? Alias::view : Alias::same; }
Kind itself_if_real(const Use& u) { return is_complex(u.in.dtype) ? Alias::none : Alias::same; }
Kind real_part(const Use& u) { return is_complex(u.in.dtype) ? Alias::view : Alias::same; }

/// What drops nothing gives its operand.
Kind dropped(const Use& u) {
  const Arg *train = u.arg("train"), *p = u.arg("p");
  const auto* training = train ? std::get_if<bool>(train) : nullptr;
  const auto* part = p ? std::get_if<double>(p) : nullptr;
  return (training && !*training) || (part && *part == 0) ? Alias::same : Alias::none;
}

std::string_view format_of(const Use& u) {
  const Arg* a = u.arg("memory_format");
  const auto* f = a ? std::get_if<MemoryFormatArg>(a) : nullptr;
  return f ? std::string_view(f->text) : std::string_view();
}

Kind contiguous(const Use& u) { return where(in_format(u.in, format_of(u), u.syms), Alias::same); }

/// Casts and moves copy only where they must.
Kind cast(const Use& u) {
  const Arg* copy = u.arg("copy");
  if (copy && std::get_if<bool>(copy) && std::get<bool>(*copy)) return Alias::none;
  if (u.in.dtype != u.out.dtype) return Alias::none;
  const std::string_view format = format_of(u);
  if (format.empty() || format == "preserve") return Alias::same;
  std::optional<bool> last = taken_for_channels_last(u.in, u.syms);
  if (last && format != "channels_last" && format != "channels_last_3d") last = !*last;
  return where(last, Alias::same);
}

/// As LibTorch's computeStride: can the new shape be had by strides alone? Each run of dims that lie one in another must be cut into sizes
/// of its own.
std::optional<bool> viewable(const TensorMeta& in, const std::vector<Expr>& shape, const SymTable& syms) {
  if (in_format(in, "", syms).value_or(false)) return true;
  if (in.sizes.empty() || in.strides.size() != in.sizes.size()) return std::nullopt;
  // Of what is cut where it may go on, a view is one still; that it is none is sure where every run is known to end.
  bool sure = std::all_of(in.sizes.begin(), in.sizes.end(), [&](const Expr& n) { return syms.proves_ne(n, 0); });
  size_t v = shape.size();
  Expr inner = in.strides.back(), elems = 1;
  for (size_t d = in.sizes.size(); d-- > 0;) {
    elems = syms.simplify(elems * in.sizes[d]);
    if (d > 0) {
      const Expr next = syms.simplify(elems * inner);
      if (in.sizes[d - 1].is(1) || syms.proves_eq(in.strides[d - 1], next)) continue;
      sure = sure && syms.proves_ne(in.sizes[d - 1], 1) && syms.proves_ne(in.strides[d - 1], next);
    }
    Expr cut = 1;
    while (v > 0 && !syms.proves_eq(cut, elems) && !syms.proves_lt(elems, cut)) {
      sure = sure && syms.proves_lt(cut, elems);
      cut = syms.simplify(cut * shape[--v]);
    }
    if (!syms.proves_eq(cut, elems)) return sure && syms.proves_ne(cut, elems) ? std::optional(false) : std::nullopt;
    while (v > 0 && shape[v - 1].is(1)) --v;
    if (d > 0) inner = in.strides[d - 1];
    elems = 1;
  }
  return v == 0 ? std::optional(true) : std::nullopt;
}
Kind reshaped(const Use& u) { return where(viewable(u.in, u.out.sizes, u.syms), Alias::view); }

/// Sums what must be summed: nothing, where the sizes are there already.
Kind summed(const Use& u) {
  const size_t lead = u.in.sizes.size() - std::min(u.in.sizes.size(), u.out.sizes.size());
  bool open = false;
  for (size_t d = 0; d < u.in.sizes.size(); ++d) {
    const Expr to = d < lead ? Expr(1) : u.out.sizes[d - lead];
    if (u.syms.proves_ne(u.in.sizes[d], to)) return Alias::none;
    open |= !u.syms.proves_eq(u.in.sizes[d], to);
  }
  return open ? Alias::unclear : lead ? Alias::view : Alias::same;
}

/// A permutation or a diagonal of its one operand: every letter of it is in the result.
Kind einsum(const Use& u) {
  const Arg* a = u.arg("equation");
  const auto* text = a ? std::get_if<std::string>(a) : nullptr;
  if (!text || u.operands != 1) return Alias::none;
  const size_t arrow = text->find("->");
  if (arrow == std::string::npos) return Alias::unclear;
  const auto kept = [&](char c) { return c == ' ' || text->find(c, arrow + 2) != std::string::npos; };
  return std::all_of(text->begin(), text->begin() + static_cast<std::ptrdiff_t>(arrow), kept) ? Alias::view : Alias::none;
}

Kind only_operand(const Use& u) { return u.operands == 1 ? Alias::same : Alias::none; }

struct Row {
  std::string_view names;
  Kind (*kind)(const Use&);
};
constexpr Row kRows[] = {
    {"alias detach lift lift_fresh resolve_conj resolve_neg positive cpu", same},
    {"dropout feature_dropout alpha_dropout feature_alpha_dropout", dropped},
    {"cartesian_prod", only_operand},
    {"conj_physical", itself_if_real},
    {"conj _conj", conjugate},
    {"mH adjoint matrix_H imag view_as_real view_as_complex view view_as _unsafe_view _reshape_alias squeeze unsqueeze unflatten "
     "atleast_1d atleast_2d atleast_3d permute transpose swapaxes swapdims t mT numpy_T movedim moveaxis select slice narrow split "
     "split_with_sizes unsafe_split unsafe_split_with_sizes chunk unsafe_chunk tensor_split hsplit vsplit dsplit unbind diagonal",
     view},
    {"real", real_part},
    {"contiguous", contiguous},
    {"to type_as float _cast_Float _cast_Half _cast_Int _cast_Long", cast},
    {"reshape reshape_as flatten ravel", reshaped},
    {"sum_to_size", summed},
    {"einsum", einsum},
    {"linalg_diagonal", view},
    {"expand", view},
    {"expand_as", view},
    {"broadcast_to", view},
    {"broadcast_tensors", view},
    {"meshgrid", view},
    {"unfold", view},
    {"as_strided", view},
    {"prims.view_of.default", same},
    {"prims.view_of_dtype.default", view},
};

const Row* find_row(std::string_view target) {
  const std::string_view name = base_name(target);
  const auto it = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return has_word(r.names, name); });
  return it == std::end(kRows) ? nullptr : &*it;
}

/// The tensors of the first tensor argument.
std::vector<std::string> operands_of(const PNode& node) {
  for (const NamedArg& a : node.args) {
    if (const auto* t = std::get_if<TensorRef>(&a.value)) return {t->name};
    if (const auto* l = std::get_if<TensorList>(&a.value)) {
      std::vector<std::string> out;
      for (const TensorRef& t : *l) out.push_back(t.name);
      return out;
    }
  }
  return {};
}

struct ViewInPlace {
  std::string_view target, functional;
};
constexpr ViewInPlace kViewsInPlace[] = {
    {"aten.transpose_.default", "aten.transpose.int"},
    {"aten.t_.default", "aten.t.default"},
    {"aten.squeeze_.default", "aten.squeeze.default"},
    {"aten.squeeze_.dim", "aten.squeeze.dim"},
    {"aten.squeeze_.dims", "aten.squeeze.dims"},
    {"aten.unsqueeze_.default", "aten.unsqueeze.default"},
    {"aten.swapaxes_.default", "aten.swapaxes.default"},
    {"aten.swapdims_.default", "aten.swapdims.default"},
    {"aten.as_strided_.default", "aten.as_strided.default"},
    {"aten.resize_.default", "aten.resize.default"},
    {"aten.resize_as_.default", "aten.resize_as.default"},
};

}  // namespace

bool views_memory(const PNode& node) {
  const std::string_view name = base_name(node.target);
  return name == "as_strided" || name == "resize" || name == "resize_as";
}

std::vector<std::string> result_names(const PNode& node) {
  std::vector<std::string> names;
  for (const Arg& a : node.results) {
    if (const auto* t = std::get_if<TensorRef>(&a)) names.push_back(t->name);
    if (const auto* l = std::get_if<TensorList>(&a))
      for (const TensorRef& t : *l) names.push_back(t.name);
  }
  return names;
}

std::vector<Alias> aliases_of(const PNode& node, const std::map<std::string, TensorMeta>& tensors, const SymTable& syms) {
  const std::vector<std::string> results = result_names(node);
  std::vector<Alias> out(results.size());
  const Row* row = find_row(node.target);
  const std::vector<std::string> operands = operands_of(node);
  if (!row || operands.empty()) return out;
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string& of = operands[operands.size() == results.size() ? i : 0];
    const auto in = tensors.find(of), to = tensors.find(results[i]);
    if (in == tensors.end() || to == tensors.end()) continue;
    out[i] = {row->kind({node, in->second, to->second, operands.size(), syms}), of};
  }
  return out;
}

bool may_alias(std::string_view target) { return find_row(target) != nullptr; }

std::string_view functional_view(std::string_view target) {
  for (const ViewInPlace& v : kViewsInPlace)
    if (v.target == target) return v.functional;
  return {};
}

}  // namespace aotc::import
