// Matrix products of few rows and a constant weight on tensor cores (kernels/cuda/stream.cuh): 16-bit floats as they are stored, k
// contiguous, or weights of few bits in slabs. They take as long as their weights take to come.
#include <bit>
#include <cmath>
#include <limits>

#include "emit/cuda/code.h"
#include "emit/cuda/contraction.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/hopper.h"
#include "forms/cuda/product.h"
#include "forms/cuda/slabs.h"
#include "loop/attached.h"
#include "loop/tidy.h"

namespace aotc::forms::cuda {

using emit::cuda::StreamTile;
using loop::MatmulKernel;

namespace {

/// The fields of a choice.
struct StreamFields : StreamTile {
  static std::span<const Member<StreamFields>> members() {
    static constexpr Member<StreamFields> kRows[] = {
        {{"warps", 1, 16}, &StreamFields::warps},   {{"along", 1, 16}, &StreamFields::along}, {{"strips", 1, 4}, &StreamFields::strips},
        {{"run", 1, 4}, &StreamFields::run},        {{"depth", 1, 16}, &StreamFields::depth}, {{"split", 1, 8}, &StreamFields::split},
        {{"chunk", 0, 4096}, &StreamFields::chunk},
    };
    return kRows;
  }
};

/// The tile with what it is about the kernel.
StreamTile tile_for(StreamTile t, const MatmulKernel& k, const SymTable& syms) {
  t.rows = static_cast<int>(syms.interval(k.m).max);
  t.sums = loop::two_sums(k) ? 2 : 1;
  t.k = *k.k.as_const();
  t.made = k.a.prologue.has_value();
  if (const auto& q = k.b_quantised) {
    t.bits = q->bits, t.group = q->group, t.scales = q->offsets == kNone<loop::ParamId> ? 1 : 2;
    t.scale_bytes = static_cast<int>(dtype_bytes(k.params[q->scales].dtype));
  }
  return t;
}
/// Columns of a segment, or pairs of mates, at the sizes worth tuning for.
int64_t blocks_of(const StreamTile& t, const MatmulKernel& k, const SymTable& syms) {
  int64_t blocks = 0;
  for (const loop::Segment& s : k.segments)
    blocks += ceil_div(std::max<int64_t>(1, syms.hint(floordiv(s.n_end - s.n_begin, s.mates ? 2 : 1))), t.items());
  return blocks * t.split;
}
/// Of more rows Hopper's warpgroups (cuda_wgmma, cuda_wgmma_quant) take less time.
int64_t most_rows(const Machine& m) {
  return m.has(Feature::wgmma) ? std::min<int64_t>(StreamTile::kMostRows, static_cast<int64_t>(gpu_costs(m).stream_rows))
                               : StreamTile::kMostRows;
}
/// Blocks of one processor.
int resident_of(const StreamTile& t, const Machine& m) {
  const GpuCosts& u = gpu_costs(m);
  const int64_t by_memory = static_cast<int64_t>(u.shared_of_processor) / (t.smem_bytes() + static_cast<int64_t>(u.shared_of_driver));
  const int64_t by_registers = static_cast<int64_t>(u.registers) / (int64_t{(t.registers() + 7) / 8 * 8} * t.threads());
  return static_cast<int>(std::clamp<int64_t>(std::min({by_memory, by_registers, static_cast<int64_t>(u.threads) / t.threads()}), 1, 4));
}

/// A weight of few bits that all readers of its parameter take in slabs.
Fit takes_number_strips(const MatmulKernel& k, const loop::QuantisedWeight& q) {
  const DType values = k.params[q.values].dtype;
  if (!q.by_column || q.scales == kNone<loop::ParamId>) return refuse("operand b: its scales are not stored column by column");
  if ((q.bits != 8 && q.bits != 4) || (values != DType::i8 && values != DType::u8 && values != DType::f8e4m3fn))
    return refuse("operand b: weights of few bits are integers of 8 or 4 bits or e4m3fn");
  const DType scales = k.params[q.scales].dtype;
  if (scales != k.in && scales != DType::f32) return refuse("operand b: scales are {} or float32", dtype_name(k.in));
  const int64_t deep = StreamTile{.bits = q.bits, .scales = 1}.deep(), depth = *k.k.as_const();
  if (q.group < depth && (q.group % StreamTile::kStrip || (q.group % deep && deep % q.group)))
    return refuse("operand b: groups of {}, which {} and their multiples and parts of 16 and more are not", q.group, deep);
  for (const loop::Segment& s : k.segments) {
    const auto begin = s.n_begin.as_const();
    if (!begin || *begin % StreamTile::kStrip || s.mates % StreamTile::kStrip)
      return refuse("operand b: its columns are not in strips of {}", StreamTile::kStrip);
    if (loop::loads(s.epilogue, q.values)) return refuse("the epilogue reads the weight, too");
  }
  return k.a.param == q.values ? refuse("both operands read the weight") : Fit::yes();
}

class Stream final : public FormOf<MatmulKernel> {
 public:
  std::string_view name() const override { return "cuda_stream"; }
  std::span<const Field> fields() const override { return fields_of<StreamFields>(); }
  bool takes_twins() const override { return true; }
  Fit legal(const Choice& c) const override {
    const StreamFields t = unpack<StreamFields>(c);
    if (t.warps % t.along) return refuse("warps that share columns are of one block");
    if (!std::has_single_bit(static_cast<unsigned>(t.split))) return refuse("{} blocks of a cluster", t.split);
    return t.chunk == 0 || t.chunk >= t.depth ? Fit::yes() : refuse("a chunk of {} rounds, {} are under way", t.chunk, t.depth);
  }

 protected:
  Fit fits(const MatmulKernel& k, const Site& s) const override {
    if (k.in != DType::bf16 && k.in != DType::f16) return refuse("tensor cores take 16-bit floats here, not {}", dtype_name(k.in));
    if (!s.machine.has(Feature::tensor_cores)) return refuse("sm_80 or newer has its instructions");
    const auto depth = k.k.as_const();
    if (!depth || *depth == 0 || *depth % StreamTile::kPiece || *depth > std::numeric_limits<int32_t>::max() / 2)
      return refuse("k must be a fixed multiple of {}", StreamTile::kPiece);
    const int64_t most = most_rows(s.machine);
    if (s.syms.interval(k.m).max > most || s.syms.interval(k.m).min < 1) return refuse("1 to {} rows", most);
    if (!k.batch.empty()) return refuse("it takes one matrix");
    if (const Fit a = k.a.prologue ? takes_made_rows(k, s.syms.interval(k.m).max, s.machine) : takes_along_k(k, k.a, "a", s.syms); !a)
      return a;
    if (const Fit b = takes_weight(k, s); !b) return b;
    const int64_t bytes = tile_for(least_tile(k), k, s.syms).smem_bytes();
    return bytes <= s.machine.shared_bytes ? Fit::yes()
                                           : refuse("{} bytes of shared memory, {} is the most", bytes, s.machine.shared_bytes);
  }
  static Fit takes_weight(const MatmulKernel& k, const Site& s) {
    if (k.b_quantised) {
      const Fit b = takes_number_strips(k, *k.b_quantised);
      return b && k.twin_quantised ? takes_number_strips(k, *k.twin_quantised) : b;
    }
    if (k.b.prologue) return refuse("it takes operand b from memory only");
    if (!k.b_constant) return refuse("operand b is no weight");
    if (k.m.is(1)) return refuse("one row: cuda_vector reads such a weight at the memory's pace");
    if (k.twin)
      if (const Fit twin = takes_along_k(k, *k.twin, "b of the twin", s.syms); !twin) return twin;
    return takes_along_k(k, k.b, "b", s.syms);
  }

  std::vector<Candidate> candidates(const MatmulKernel& k, const Site& s) const override {
    // Warps, those that share columns, strips of a warp.
    static constexpr int kShapes[][3] = {{8, 8, 4}, {8, 8, 2}, {8, 4, 4}, {8, 4, 2}, {8, 2, 2}, {8, 2, 1}, {8, 4, 1},
                                         {8, 1, 2}, {8, 1, 1}, {4, 2, 1}, {4, 4, 1}, {4, 1, 1}, {16, 8, 2}};
    const int most = s.machine.has(Feature::clusters) ? 8 : 1;
    std::vector<Candidate> all;
    for (const auto& [warps, along, strips] : kShapes)
      for (const int depth : {4, 2, 8})
        for (int split = 1; split <= most; split *= 2) {
          StreamFields t;
          t.warps = warps, t.along = along, t.strips = strips, t.depth = depth, t.split = split;
          add(t, k, s, all);
        }
    if (all.empty()) all.push_back(estimate(least_tile(k), k, s));
    return all;
  }
  std::string contract(const MatmulKernel& k, const Site& s) const override { return product_contract(k, s); }

  StepSpec step(const MatmulKernel& k, const Site& s, const Choice& c) const override {
    const StreamTile t = tile_for(unpack<StreamFields>(c), k, s.syms);
    StepSpec f = cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name));
    f.block[0] = t.threads();
    Expr columns = 0;
    for (const loop::Segment& seg : k.segments) columns += ceildiv(floordiv(seg.n_end - seg.n_begin, seg.mates ? 2 : 1), t.items());
    f.grid[0] = max(1, columns) * t.split;
    f.smem_bytes = f.max_smem_bytes = t.smem_bytes();
    return f;
  }
  std::optional<std::pair<loop::ParamId, WeightForm>> weight(const MatmulKernel& k, const Choice&) const override {
    if (!k.b_quantised) return std::nullopt;
    return slab_weight(k);
  }
  std::string source(const MatmulKernel& k, const Site& s, const Choice& c, const std::string& symbol) const override {
    StreamTile t = tile_for(unpack<StreamFields>(c), k, s.syms);
    AOTC_CHECK(t.rows <= StreamTile::kMostRows, "{}: code of {} rows, {} is the most", k.name, t.rows, StreamTile::kMostRows);
    t.resident = resident_of(t, s.machine);
    return emit::cuda::emit_stream_matmul(k, t, symbol);
  }

 private:
  /// The one of least shared memory. Rows that are computed are there whole.
  static StreamFields least_tile(const MatmulKernel& k) {
    StreamFields t;
    t.warps = 4, t.along = 1, t.depth = 2, t.chunk = k.a.prologue ? 0 : 2;
    return t;
  }
  /// The tile with all rows in shared memory and, where two blocks of it have no room on a processor, with chunks of them.
  void add(StreamFields t, const MatmulKernel& k, const Site& s, std::vector<Candidate>& all) const {
    const StreamTile whole = tile_for(t, k, s.syms);
    // Blocks of which each has something to do, no more of a cluster than fill the GPU twice.
    if (whole.part() < t.along || (t.split > 1 && (whole.steps() < t.split * t.along || blocks_of(whole, k, s.syms) > 4 * s.machine.cores)))
      return;
    if ((whole.rounds() < t.depth && t.depth > 2) || (t.depth > 4 && !t.scales && t.strips > 1)) return;
    const GpuCosts& u = gpu_costs(s.machine);
    const Candidate c = estimate(t, k, s);
    if (c.fit) all.push_back(c);
    if (whole.smem_bytes() <= static_cast<int64_t>(u.shared_of_processor) / 2 - static_cast<int64_t>(u.shared_of_driver)) return;
    if (k.a.prologue) return;
    const int64_t room = static_cast<int64_t>(u.stream_chunk);
    StreamTile w = whole;
    for (w.chunk = t.depth; w.chunk * 2 < w.rounds(); w.chunk *= 2)
      if (StreamTile next = w; (next.chunk = 2 * w.chunk, next.row_bytes() > room)) break;
    if (w.chunk >= w.rounds()) return;
    t.chunk = w.chunk;
    if (const Candidate in_chunks = estimate(t, k, s); in_chunks.fit) all.push_back(in_chunks);
  }

  /// Instructions of a warp for 16 columns by 16 of k, but for the products.
  static double instructions_of_slice(const MatmulKernel& k, const GpuCosts& u) {
    if (!k.b_quantised) return u.stream_slice;
    const DType values = k.params[k.b_quantised->values].dtype;
    const bool half = k.in == DType::f16, same = k.params[k.b_quantised->scales].dtype == k.in;
    const double numbers = k.b_quantised->bits == 4 ? u.stream_int4 : values == DType::f8e4m3fn ? u.stream_e4m3 : u.stream_int8;
    return u.stream_slice + numbers * (half ? u.stream_of_f16 : 1) + (same ? 0 : u.stream_wide_scales);
  }

  Candidate estimate(const StreamFields& choice, const MatmulKernel& k, const Site& s) const {
    const Machine& m = s.machine;
    const GpuCosts& u = gpu_costs(m);
    const StreamTile t = tile_for(choice, k, s.syms);
    Candidate r{pack(*this, choice), Fit::yes(), 0};
    if (t.smem_bytes() > m.shared_bytes)
      r.fit = refuse("{} bytes of shared memory, {} is the most", t.smem_bytes(), m.shared_bytes);
    else if (t.made && t.chunk_used() < t.rounds())
      r.fit = refuse("chunk: rows that are computed are all there");
    else if (t.spills())
      r.fit = refuse("about {} registers of {} threads each", t.registers(), t.threads());
    const ProductSizes z = sizes_of(k, s.syms);
    const double rows = static_cast<double>(z.m), columns = static_cast<double>(z.n) * (k.twin ? 2 : 1), depth = static_cast<double>(z.k);
    const double scales = t.scales ? static_cast<double>(t.scales * t.scale_bytes) / static_cast<double>(t.group) : 0;
    const double bytes = columns * depth * ((t.scales ? static_cast<double>(t.bits) / 8 : 2) + scales);
    const double blocks = static_cast<double>(blocks_of(t, k, s.syms)), resident = resident_of(t, m);
    const double clusters[] = {1, 1, u.wg_clusters4, u.wg_clusters8};  // of the processors, what clusters reach
    const double slots = m.cores * resident * clusters[std::countr_zero(static_cast<unsigned>(t.split))];
    const double waves = rounds(blocks, slots), beside = cuda::beside(blocks, resident, m.cores);  // blocks of a processor
    // Bytes of weights of a warp's round; what the copies under way reach of the memory's pace.
    const double round = t.strips * t.sums * t.run * t.slab_bytes();
    const double under_way = std::min(blocks, slots) / m.cores * static_cast<double>(t.depth_used()) * t.warps * round;
    // Neighbouring bytes of memory that a block asks for at once.
    const double run = static_cast<double>(t.along * t.run) * (t.scales ? t.slab_bytes() : t.slab_bytes() / StreamTile::kStrip);
    const double pace = static_cast<double>(m.bytes_per_ns) * u.stream_memory * run / (run + u.stream_page);
    const double memory = bytes / pace / std::min(1.0, under_way / u.stream_under_way);
    // Rows, in tiles of 8, cost where code for half of them is no choice.
    const double half = t.row_tiles() / 2 * StreamTile::kRowTile;
    const double tiles = half > 0 && rows <= half ? t.row_tiles() / 2 : t.row_tiles();
    const double slices = columns / StreamTile::kStrip * std::ceil(depth / StreamTile::kStrip);
    const double strips = t.strips * t.sums, slices_of_round = static_cast<double>(t.run * t.deep()) / StreamTile::kStrip;
    const double instructions = slices * (instructions_of_slice(k, u) + tiles * (u.stream_product + u.stream_right / strips)) +
                                slices / (slices_of_round * strips) * u.stream_round;
    const double issue = instructions / (m.cores * u.vector_issues);
    // What the busiest processor reads: weights, and the rows of each of its blocks.
    const double rows_of_block = static_cast<double>(t.row_tiles() > 1 ? rows : t.rows) * depth / t.split * 2;
    const double reads = (bytes / blocks + rows_of_block) * std::ceil(std::min(blocks, slots) / m.cores) * waves / u.stream_processor;
    const double l2 = (bytes + rows_of_block * blocks) / u.stream_l2;
    // A warp's rounds, one after the other.
    const double chain = static_cast<double>(t.rounds()) * waves *
                         (u.stream_wait + slices_of_round * (u.stream_chain + tiles * strips * u.stream_product / u.clock));
    const double stream = std::max({memory, issue, reads, l2, chain}), block = stream / waves;
    const double late = waves > 1 ? block * u.stream_late : 0;
    const double sums = (t.along - 1) * u.stream_along + (t.split > 1 ? u.stream_cluster + t.split * u.stream_join : 0);
    const double stage = rows_of_block * beside / u.stream_stage;
    const double strips_late = waves > 1 && t.scales ? stream * u.stream_strip * (t.strips - 1) : 0;
    r.cost_ns = u.stream_start + made_rows_ns(k, t.rows, blocks, waves, u, s.syms) + stream + late + strips_late + sums + stage +
                (waves - 1) * u.stream_wave + (t.chunk ? u.stream_chunks : 0);
    return r;
  }
};

}  // namespace

const Form& stream() { return instance<Stream>(); }

}  // namespace aotc::forms::cuda
