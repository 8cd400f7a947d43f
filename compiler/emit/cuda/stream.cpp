#include <algorithm>

#include "emit/cuda/code.h"
#include "emit/cuda/contraction.h"
#include "emit/cuda/functor.h"
#include "emit/cuda/loop_kernel.h"
#include "emit/cuda/segments.h"

namespace aotc::emit::cuda {

using loop::MatmulKernel;
using loop::Operand;
using loop::ParamId;

namespace {

class Emitter {
 public:
  Emitter(const MatmulKernel& k, const StreamTile& tile, const std::string& symbol)
      : k_(k), tile_(tile), symbol_(symbol), symbols_(size_symbols(k)), segments_(k, symbol) {}

  std::string emit() {
    AOTC_CHECK(k_.batch.empty() && (!k_.b.prologue || k_.b_quantised), "{}: stream.cuh takes one matrix of rows and a weight", k_.name);
    std::string out = "#include \"stream.cuh\"\n" + argument_struct(symbol_, k_.params, symbols_.size());
    for (size_t s = 0; s < k_.segments.size(); ++s)
      out += epilogue_functor(k_.segments[s].epilogue, k_.acc, segments_.epilogue(s), symbol_ + "_args", symbols_, true);
    out += segments_.structs();
    for (const int rows : row_choices())
      for (const int sums : {1, 2})
        if (std::any_of(k_.segments.begin(), k_.segments.end(), [&](const loop::Segment& s) { return sums_of(s) == sums; }))
          out += fmt::format("typedef StreamTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}> {};\n", weights(), tile_.k, rows,
                             tile_.warps, tile_.along, tile_.strips, tile_.run, tile_.depth, tile_.split, tile_.chunk_used(), sums,
                             tile_.made, tile_name(rows, sums));
    if (k_.a.prologue)
      out += emit_rows_function(*k_.a.prologue, launch_of_rows(k_, tile_.threads()), symbol_ + "_rows", symbol_ + "_args", symbols_,
                                segments_.groups().size() > 1);
    out += function_head(symbol_, tile_.split, tile_.threads(), tile_.resident);
    return out + body() + "}\n";
  }

 private:
  int sums_of(const loop::Segment& s) const { return k_.twin || s.mates ? 2 : 1; }
  std::string tile_name(int rows, int sums) const { return fmt::format("{}_tile{}_{}", symbol_, rows, sums); }
  std::string expr(const Expr& e) const { return size_text(e, k_.syms); }
  /// Code for all rows and, where these may be half as many or fewer, for half of them.
  std::vector<int> row_choices() const {
    const int half = tile_.row_tiles() / 2 * StreamTile::kRowTile;
    return half && !k_.m.is_const() ? std::vector{half, tile_.rows} : std::vector{tile_.rows};
  }
  std::string weights() const {
    const std::string type(c_type(k_.in));
    if (!k_.b_quantised) return fmt::format("PlainWeights<{}>", type);
    const loop::QuantisedWeight& q = *k_.b_quantised;
    const char* const format = q.bits == 4 ? "Int4" : k_.params[q.values].dtype == DType::i8 ? "Int8" : "E4m3";
    return fmt::format("SlabWeights<{}, {}, {}, {}, {}>", type, format, c_type(k_.params[q.scales].dtype), q.group,
                       q.offsets != kNone<ParamId>);
  }
  /// The source of a segment's weights.
  std::string source(const loop::Segment& seg) const {
    const auto at = [&](ParamId p, const Expr& bytes) {
      return fmt::format("static_cast<const char*>(a.ptr[{}]) + ({})", idx(p), expr(bytes));
    };
    if (const auto& q = k_.b_quantised) {
      const int64_t strip = (tile_.k + tile_.deep() - 1) / tile_.deep() * tile_.slab_bytes(), groups = (tile_.k + q->group - 1) / q->group;
      const auto first = [&](ParamId p) {
        if (p == kNone<ParamId>) return std::string("nullptr");
        return fmt::format("static_cast<const {}*>(a.ptr[{}]) + ({})", c_type(k_.params[p].dtype), idx(p), expr(seg.n_begin * groups));
      };
      std::string values, next, scales, offsets;
      for (int u = 0; u < sums_of(seg); ++u) {
        const loop::QuantisedWeight& w = u && k_.twin ? *k_.twin_quantised : *q;
        const char* const comma = u ? ", " : "";
        values += comma + at(w.values, floordiv(seg.n_begin, StreamTile::kStrip) * strip), next += fmt::format("{}{}", comma, strip);
        scales += comma + first(w.scales), offsets += comma + first(w.offsets);
      }
      return fmt::format("{{{}}}, {{{}}}, {{{}}}, {{{}}}", values, next, scales, offsets);
    }
    std::string bases, next;
    for (int u = 0; u < sums_of(seg); ++u) {
      const Operand& o = u && k_.twin ? *k_.twin : k_.b;
      const int64_t bytes = dtype_bytes(k_.in);
      bases += (u ? ", " : "") + at(o.param, (o.base + seg.n_begin * o.col_stride) * bytes);
      next += (u ? ", " : "") + expr(o.col_stride * bytes);
    }
    return fmt::format("{{{}}}, {{{}}}, {{}}, {{}}", bases, next);
  }

  std::string body() const {
    std::string out = fmt::format("  extern __shared__ __align__(128) char shared[];\n");
    if (tile_.split > 1) out += fmt::format("  if (!has_clusters && blockIdx.x % {} != 0) return;\n", tile_.split);
    out += "  next_step_may_start();\n" + size_names(symbols_, k_.syms, 2);
    out += fmt::format("  const int m = {};\n", expr(k_.m)) + prefetches_beside(k_, tile_.threads());
    const std::string type(c_type(k_.in));
    std::string rows;
    if (k_.a.prologue) {  // behind all that stream_block has in shared memory
      out += fmt::format("  {0}* const x = reinterpret_cast<{0}*>(shared + {1});\n", type, tile_.smem_bytes() - tile_.made_bytes());
      rows = fmt::format(" {}_rows(a, x);", symbol_);
    } else {
      out += fmt::format("  const {0}* const x = static_cast<const {0}*>(a.ptr[{1}]) + {2};\n", type, idx(k_.a.param), expr(k_.a.base));
    }
    out += fmt::format("  auto ready = [&] {{ wait_for_step_before();{} }};\n  i64 block = blockIdx.x / {};\n", rows, tile_.split);
    out += segments_.find(tile_.items(), [&](const Expr& e) { return expr(e); });
    for (const Segments::Group& group : segments_.groups()) {
      const loop::Segment& seg = k_.segments[group[0]];
      const int sums = sums_of(seg);
      out += fmt::format("  if ({}) {{\n", Segments::is_of(group)) + segments_.lambdas(group, sums, "    ", "", "");
      out += fmt::format("    const i64 n = {};\n", Segments::chosen(group, [](size_t s) { return fmt::format("n{}", s); }));
      const std::vector<int> counts = row_choices();
      for (size_t c = 0; c < counts.size(); ++c) {
        const std::string tile = tile_name(counts[c], sums);
        out += c + 1 < counts.size() ? fmt::format("    if (m <= {})\n  ", counts[c]) : counts.size() > 1 ? "    else\n  " : "";
        out += fmt::format(
            "    stream_block<{0}, {1}>(shared, {2}, x, {3}, block * {4}, n, m, ready, ahead, finish);\n", tile, seg.mates,
            Segments::chosen(group, [&](size_t s) { return fmt::format("StreamSource<{}>{{{}}}", tile, source(k_.segments[s])); }),
            expr(k_.a.prologue ? k_.k : k_.a.row_stride), tile_.items());
      }
      out += "    return;\n  }\n";
    }
    return out;
  }

  const MatmulKernel& k_;
  const StreamTile& tile_;
  const std::string& symbol_;
  std::vector<SymId> symbols_;
  Segments segments_;
};

}  // namespace

std::string emit_stream_matmul(const MatmulKernel& k, const StreamTile& tile, const std::string& symbol) {
  return Emitter(k, tile, symbol).emit();
}

}  // namespace aotc::emit::cuda
