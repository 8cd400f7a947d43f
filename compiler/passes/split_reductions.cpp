#include "passes/split_reductions.h"

#include <algorithm>
#include <limits>

#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

constexpr int64_t kManyElems = 1 << 16;  ///< of one result
constexpr int64_t kFewResults = 8;
constexpr int64_t kChunks = 64;

/// The element that changes nothing.
AttrValue neutral(ReduceKind kind, DType t) {
  const double inf = std::numeric_limits<double>::infinity();
  const bool largest = kind == ReduceKind::min;
  if (kind == ReduceKind::sum || kind == ReduceKind::prod) return kind == ReduceKind::prod ? 1.0 : 0.0;
  if (is_float(t)) return largest ? inf : -inf;
  if (is_bool(t)) return largest;
  const int64_t bits = 8 * dtype_bytes(t), top = t == DType::u8 ? 255 : static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  return largest ? top : t == DType::u8 ? int64_t{0} : -top - 1;
}

}  // namespace

void split_reductions(Graph& g, PassContext&) {
  Rewriter(g).sweep([](Rewriter& r, const Node& n) -> std::optional<ValueId> {
    if (n.op != Op::reduce) return std::nullopt;
    const ReduceKind kind = n.reduce_kind();
    if (kind == ReduceKind::argmax || kind == ReduceKind::argmin) return std::nullopt;
    const ValueId x = n.inputs[0];
    const Exprs in = r.dims(x), out = r.dims(n.outputs[0]);
    const Ints reduced = n.get<Ints>(Attr::dims);
    Expr count = 1;
    for (int64_t d : reduced) count *= in[static_cast<size_t>(d)];
    if (r.g.syms.hint(count) < kManyElems || r.g.syms.hint(product(out)) > kFewResults) return std::nullopt;
    const DType given = r.dtype(x), t = compute_type(given);  // what the first step leaves is not rounded to 16 bits
    Builder& b = r.b;
    Ints perm;
    for (int64_t d = 0; d < static_cast<int64_t>(in.size()); ++d)
      if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) perm.push_back(d);
    perm.insert(perm.end(), reduced.begin(), reduced.end());
    Exprs flat = out, padded = out, chunks = out;
    const Expr length = ceildiv(count, kChunks);
    flat.push_back(count);
    padded.push_back(length * kChunks);
    chunks.push_back(kChunks);
    chunks.push_back(length);
    ValueId v = b.reshape(b.permute(b.cast(x, t), perm), flat);
    if (!r.g.syms.proves_divisible(count, kChunks)) {
      TensorType type{t, padded};
      v = b.make1(Op::pad, {v}, {{Attr::lo, Exprs(flat.size(), Expr(0))}, {Attr::value, neutral(kind, t)}}, &type);
    }
    const int64_t last = static_cast<int64_t>(out.size());
    return b.cast(b.reduce(kind, b.reduce(kind, b.reshape(v, chunks), {last + 1}), {last}), given);
  });
}

}  // namespace aotc::passes
