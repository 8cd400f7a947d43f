// Types and defaults of attributes.
#include <cmath>

#include "graph/infer.h"

namespace aotc {
namespace {

constexpr AttrType kTypes[] = {
#define AOTC_ATTR(name, type) AttrType::type,
#include "graph/attrs.def"
#undef AOTC_ATTR
};

template <class T>
void fallback(Node& n, Attr a, T value) {
  n.attrs.try_emplace(a, AttrValue(std::move(value)));
}

/// Callers may write a plain integer where an Expr is meant.
void widen_exprs(Node& n) {
  for (auto& [a, v] : n.attrs) {
    if (attr_type(a) == AttrType::expr && std::holds_alternative<int64_t>(v)) v = Expr(std::get<int64_t>(v));
    if (attr_type(a) == AttrType::exprs && std::holds_alternative<Ints>(v)) {
      Exprs es;
      for (int64_t i : std::get<Ints>(v)) es.emplace_back(i);
      v = std::move(es);
    }
  }
}

void set_scalar(Node& n, DType dtype) {
  auto it = n.attrs.find(Attr::value);
  if (it == n.attrs.end()) return;
  if (is_bool(dtype)) {
    it->second = scalar_f64(n, Attr::value) != 0;
  } else if (is_int(dtype)) {
    it->second = scalar_i64(n, Attr::value);
  } else {
    it->second = scalar_f64(n, Attr::value);
  }
}

}  // namespace

AttrType attr_type(Attr a) { return kTypes[static_cast<size_t>(a)]; }

double scalar_f64(const Node& n, Attr a) {
  const AttrValue& v = n.attrs.at(a);
  if (auto b = std::get_if<bool>(&v)) return *b;
  if (auto i = std::get_if<int64_t>(&v)) return static_cast<double>(*i);
  return n.get<double>(a);
}

int64_t scalar_i64(const Node& n, Attr a) {
  const AttrValue& v = n.attrs.at(a);
  if (auto b = std::get_if<bool>(&v)) return *b;
  if (auto d = std::get_if<double>(&v)) {
    if (std::isnan(*d)) return 0;
    if (*d >= 0x1p63) return INT64_MAX;
    if (*d < -0x1p63) return INT64_MIN;
    return static_cast<int64_t>(*d);
  }
  return n.get<int64_t>(a);
}

void complete_attrs(Node& n, int input_rank, DType dtype) {
  widen_exprs(n);
  const size_t spatial = input_rank > 2 ? input_rank - 2 : 0;
  switch (n.op) {
    case Op::full: set_scalar(n, dtype); break;
    case Op::pad:
      fallback(n, Attr::value, 0.0);
      set_scalar(n, dtype);
      break;
    case Op::window: {
      fallback(n, Attr::value, 0.0);
      set_scalar(n, dtype);
      const size_t k = n.get<Ints>(Attr::kernel).size();
      fallback(n, Attr::stride, Ints(k, 1));
      fallback(n, Attr::padding, Ints(k, 0));
      fallback(n, Attr::dilation, Ints(k, 1));
      break;
    }
    case Op::slice: fallback(n, Attr::step, int64_t{1}); break;
    case Op::conv_transpose: fallback(n, Attr::output_padding, Ints(spatial, 0)); [[fallthrough]];
    case Op::conv:
      fallback(n, Attr::stride, Ints(spatial, 1));
      fallback(n, Attr::padding, Ints(spatial, 0));
      fallback(n, Attr::padding_hi, n.get<Ints>(Attr::padding));
      fallback(n, Attr::dilation, Ints(spatial, 1));
      fallback(n, Attr::groups, int64_t{1});
      break;
    case Op::attention:
      fallback(n, Attr::causal, false);
      fallback(n, Attr::nan_rows, false);
      break;
    case Op::scatter:
      fallback(n, Attr::reduce, std::string("none"));
      fallback(n, Attr::include_self, true);
      break;
    case Op::add_rows:
      fallback(n, Attr::begins, false);
      fallback(n, Attr::largest, false);
      break;
    case Op::index_put: fallback(n, Attr::accumulate, false); [[fallthrough]];
    case Op::index: {
      const Ints& dims = n.get<Ints>(Attr::dims);
      fallback(n, Attr::out_pos, dims.empty() ? int64_t{0} : dims.front());
      break;
    }
    case Op::sort:
      fallback(n, Attr::descending, false);
      fallback(n, Attr::stable, false);
      break;
    case Op::topk:
      fallback(n, Attr::largest, true);
      fallback(n, Attr::sorted, true);
      break;
    case Op::recurrence: fallback(n, Attr::dim, int64_t{0}); break;
    case Op::fourier:
      fallback(n, Attr::reverse, false);
      fallback(n, Attr::scale, 1.0);
      break;
    case Op::solve_triangular:
      fallback(n, Attr::upper, false);
      fallback(n, Attr::unit, false);
      fallback(n, Attr::below, false);
      break;
    default: break;
  }
}

}  // namespace aotc
