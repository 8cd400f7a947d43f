#include "passes/split_reductions.h"

#include <algorithm>
#include <limits>

#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

/// What keeps a machine busy.
struct Busy {
  int64_t many_elems;             ///< of one result; fewer are left to one thread or one block
  int64_t few_results;            ///< more are work for everybody as they are
  int64_t parts_each, parts_all;  ///< partial results of one result, of all
  int64_t least_chunk;            ///< elements of a part
};
constexpr Busy kThreads = {1 << 16, 8, 64, 512, 1024}, kBlocks = {1 << 16, 64, 1024, 1024, 4096};

/// A power of two, so that it divides what is common.
int64_t chunks_of(const Busy& busy, int64_t elems, int64_t results) {
  const int64_t most = std::min({busy.parts_each, busy.parts_all / std::max<int64_t>(results, 1), elems / busy.least_chunk});
  int64_t chunks = 1;
  while (chunks * 2 <= most) chunks *= 2;
  return chunks;
}

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

void split_reductions(Graph& g, PassContext& ctx) {
  const Busy& busy = ctx.target.is_gpu() ? kBlocks : kThreads;
  Rewriter(g).sweep([&busy](Rewriter& r, const Node& n) -> std::optional<ValueId> {
    if (n.op != Op::reduce) return std::nullopt;
    const ReduceKind kind = n.reduce_kind();
    if (kind == ReduceKind::argmax || kind == ReduceKind::argmin) return std::nullopt;
    const ValueId x = n.inputs[0];
    const Exprs in = r.dims(x), out = r.dims(n.outputs[0]);
    const Ints reduced = n.get<Ints>(Attr::dims);
    Expr count = 1;
    for (int64_t d : reduced) count *= in[static_cast<size_t>(d)];
    const int64_t elems = r.g.syms.hint(count), results = r.g.syms.hint(product(out));
    if (elems < busy.many_elems || results > busy.few_results) return std::nullopt;
    const int64_t n_chunks = chunks_of(busy, elems, results);
    if (n_chunks < 2) return std::nullopt;
    const DType given = r.dtype(x), t = compute_type(given);  // what the first step leaves is not rounded to 16 bits
    Builder& b = r.b;
    Ints perm;
    for (int64_t d = 0; d < static_cast<int64_t>(in.size()); ++d)
      if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) perm.push_back(d);
    perm.insert(perm.end(), reduced.begin(), reduced.end());
    Exprs flat = out, padded = out, chunks = out;
    const Expr length = ceildiv(count, n_chunks);
    flat.push_back(count);
    padded.push_back(length * n_chunks);
    chunks.push_back(n_chunks);
    chunks.push_back(length);
    ValueId v = b.reshape(b.permute(b.cast(x, t), perm), flat);
    if (!r.g.syms.proves_divisible(count, n_chunks)) {
      TensorType type{t, padded};
      v = b.make1(Op::pad, {v}, {{Attr::lo, Exprs(flat.size(), Expr(0))}, {Attr::value, neutral(kind, t)}}, &type);
    }
    const int64_t last = static_cast<int64_t>(out.size());
    return b.cast(b.reduce(kind, b.reduce(kind, b.reshape(v, chunks), {last + 1}), {last}), given);
  });
}

}  // namespace aotc::passes
