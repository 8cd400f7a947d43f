#include "passes/passes.h"

#include <cmath>

#include "graph/scalar.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

/// Output number t * stride + phase of a dim, counted from where the first window begins, is the sum over j of x[t - j] w[phase + stride *
/// j].
struct Phases {
  int rank = 0;
  Ints stride, taps;  ///< taps: of a phase
  int64_t all = 1;    ///< phases
};

/// Whether no weight is known to be infinite or none: the zeros around the image would meet it where no window does.
bool is_finite(const ConstData& c) {
  if (!has_data(c)) return true;
  const int64_t size = dtype_bytes(c.type.dtype), n = static_cast<int64_t>(c.bytes) / size;
  for (int64_t i = 0; i < n; ++i) {
    double x = 0;
    load_f64(c.type.dtype, reinterpret_cast<const std::byte*>(c.data) + i * size, &x, 1);
    if (!std::isfinite(x)) return false;
  }
  return true;
}

std::optional<Phases> phases_of(const Graph& g, const Node& n) {
  if (n.op != Op::conv_transpose || n.get<int64_t>(Attr::groups) != 1 || n.has(Attr::value)) return std::nullopt;
  if (g.values[n.inputs[1]].kind != ValueKind::constant || !is_float(g.type(n.inputs[0]).dtype)) return std::nullopt;
  const Exprs& w = g.type(n.inputs[1]).dims;
  const Ints &stride = n.get<Ints>(Attr::stride), &dilation = n.get<Ints>(Attr::dilation), &extra = n.get<Ints>(Attr::output_padding),
             &lo = n.get<Ints>(Attr::padding), &hi = n.get<Ints>(Attr::padding_hi);
  Phases p;
  p.rank = static_cast<int>(w.size()) - 2;
  bool overlap = false;
  for (size_t d = 0; d + 2 < w.size(); ++d) {
    const auto extent = w[d + 2].as_const();
    if (!extent || *extent < 1 || dilation[d] != 1 || lo[d] < 0 || hi[d] < 0) return std::nullopt;
    // Taps that are filled up would multiply infinities by zero; outputs behind the last window have none.
    if (*extent % stride[d] != 0 || extra[d] > hi[d]) return std::nullopt;
    p.stride.push_back(stride[d]);
    p.taps.push_back(*extent / stride[d]);
    p.all *= stride[d];
    overlap |= *extent != stride[d] || lo[d] != 0 || hi[d] != 0 || extra[d] != 0;
  }
  if (p.all < 2 || !overlap) return std::nullopt;  // windows side by side are a product
  if (!is_finite(g.constants[g.values[n.inputs[1]].constant])) return std::nullopt;
  return p;
}

/// [Ci, Co, K..] as [phases.. * Co, Ci, taps..], the last tap first.
ValueId weights(Builder& b, ValueId w, const Phases& p) {
  const Exprs given = b.dims(w);
  Exprs apart(given.begin(), given.begin() + 2), together = {given[1] * p.all, given[0]};
  Ints phases, behind = {1, 0}, taps;
  for (int d = 0; d < p.rank; ++d) {
    const auto i = static_cast<size_t>(d);
    apart.insert(apart.end(), {p.taps[i], p.stride[i]});
    taps.push_back(2 + 2 * d), phases.push_back(3 + 2 * d);
    together.push_back(p.taps[i]);
  }
  const ValueId parts = b.flip(b.reshape(w, apart), taps);
  Ints perm = phases;
  perm.insert(perm.end(), behind.begin(), behind.end());
  perm.insert(perm.end(), taps.begin(), taps.end());
  return b.reshape(b.permute(parts, perm), together);
}

ValueId convolved(Graph& g, Builder& b, const Node& n, const Phases& p) {
  const TensorType result = g.type(n.outputs[0]);
  const auto rank = static_cast<size_t>(p.rank);
  Ints around;
  TensorType phases = g.type(n.inputs[0]);
  phases.dtype = result.dtype, phases.dims[1] = result.dims[1] * p.all;
  for (size_t d = 0; d < rank; ++d) around.push_back(p.taps[d] - 1), phases.dims[d + 2] += p.taps[d] - 1;
  const ValueId y = b.make1(Op::conv, {n.inputs[0], weights(b, n.inputs[1], p)},
                            {{Attr::stride, Ints(rank, 1)},
                             {Attr::padding, around},
                             {Attr::padding_hi, around},
                             {Attr::dilation, Ints(rank, 1)},
                             {Attr::groups, int64_t{1}}},
                            &phases);
  // [N, phases.. * Co, T..] to [N, Co, (T * phases)..].
  const Exprs made = b.dims(y);
  Exprs apart = {made[0]}, together = {made[0], result.dims[1]};
  Ints perm = {0, p.rank + 1};
  apart.insert(apart.end(), p.stride.begin(), p.stride.end());
  apart.push_back(result.dims[1]);
  for (size_t d = 0; d < rank; ++d) {
    apart.push_back(made[d + 2]);
    together.push_back(made[d + 2] * p.stride[d]);
    perm.insert(perm.end(), {p.rank + 2 + static_cast<int64_t>(d), 1 + static_cast<int64_t>(d)});
  }
  ValueId v = b.reshape(b.permute(b.reshape(y, apart), perm), together);
  for (size_t d = 0; d < rank; ++d) v = b.slice(v, static_cast<int>(d) + 2, n.get<Ints>(Attr::padding)[d], result.dims[d + 2]);
  return v;
}

}  // namespace

/// On GPUs transposed convolutions whose windows overlap become convolutions where the windows are multiples of the steps: outputs that
/// lie `stride` apart see the same taps, so each such phase is some output channels of one convolution, which are brought to their places.
/// Requires folded constants; leaves views of constants.
void transposed_phases(Graph& g, PassContext&) {
  Rewriter(g).sweep([&](Rewriter& r, const Node& n) -> std::optional<ValueId> {
    const auto p = phases_of(g, n);
    if (!p) return std::nullopt;
    return convolved(g, r.b, n, *p);
  });
}

}  // namespace aotc::passes
