// Matrix products of few rows (kernels/cuda/vector.cuh): every type, on every machine, where k is contiguous in both operands: those of
// decoding, which take as long as their weights take to come.

#include "emit/cuda/code.h"
#include "emit/cuda/contraction.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/hopper.h"
#include "forms/cuda/product.h"
#include "forms/cuda/simt_tile.h"
#include "kernels/cuda/limits.cuh"
#include "loop/tidy.h"

namespace aotc::forms::cuda {

using emit::cuda::VectorTile;
using loop::MatmulKernel;

namespace {

constexpr int64_t kMostInRuns = 256;

/// The rows are the kernel's.
struct Tile {
  int warps = 4, deep = 8, split = 1;
  static std::span<const Member<Tile>> members() {
    static constexpr Member<Tile> kRows[] = {
        {{"warps", 1, 16}, &Tile::warps}, {{"deep", 1, 16}, &Tile::deep}, {{"split", 1, 16}, &Tile::split}};
    return kRows;
  }
};
/// Of one product: of rows in runs each is one.
int64_t most_rows(const MatmulKernel& k, const SymTable& syms) { return k.runs ? 1 : syms.interval(k.m).max; }
/// At the sizes worth tuning for.
ProductSizes products_of(const MatmulKernel& k, const SymTable& syms) {
  ProductSizes z = sizes_of(k, syms);
  if (k.runs) z.batch *= z.m, z.m = 1;
  return z;
}
/// 16-byte chunks of a column that a lane goes through, at the sizes worth tuning for.
int64_t chunks_of(const Tile& t, const MatmulKernel& k, const SymTable& syms) {
  return std::max<int64_t>(1, ceil_div(syms.hint(k.k) * dtype_bytes(k.in), int64_t{512} * t.split));
}
/// What a warp, or several together, sums at a time: columns of a segment, or pairs of mates.
Expr items_of(const loop::Segment& s) { return floordiv(s.n_end - s.n_begin, s.mates ? 2 : 1); }
/// Blocks of columns, at the sizes worth tuning for.
int64_t blocks_of(const Tile& t, const MatmulKernel& k, const SymTable& syms) {
  int64_t blocks = 0;
  for (const loop::Segment& s : k.segments) blocks += ceil_div(std::max<int64_t>(1, syms.hint(items_of(s))) * t.split, t.warps);
  return products_of(k, syms).batch * blocks;
}
/// Turns of a warp along its part of a column.
int64_t turns_of(const Tile& t, const MatmulKernel& k, const SymTable& syms) { return ceil_div(chunks_of(t, k, syms), int64_t{t.deep}); }
/// Blocks of one processor, and the bound that the compiler is given: it spends registers that more warps need without one, and loads later
/// under a tight one, which pays where there are more blocks than a looser one has room for.
struct Residency {
  int blocks, bound;
};
Residency residency_of(const Tile& t, const MatmulKernel& k, const Site& s) {
  const GpuCosts& u = gpu_costs(s.machine);
  const auto other = static_cast<int>(u.vector_registers), more = static_cast<int>(u.vector_loose_registers);
  const int registers = static_cast<int>(u.registers), most_threads = static_cast<int>(u.threads);
  const int twins = loop::two_sums(k) ? 2 : 1, sums = static_cast<int>(most_rows(k, s.syms)) * static_cast<int>(dtype_bytes(k.acc)) / 4;
  const int rows = most_rows(k, s.syms) > 2 ? 16 : 0;  // of the row that is multiplied and the next
  const int held = (4 * static_cast<int>(std::min<int64_t>(t.deep, chunks_of(t, k, s.syms))) + sums) * twins + rows, threads = t.warps * 32;
  const auto resident = [&](int words) { return std::max(1, std::min(most_threads, registers / ((words + 7) / 8 * 8)) / threads); };
  // One row: the next turn's chunks are in registers, too. Under a bound the compiler spills them, and the product takes two to ten times
  // as long (H200, CUDA 13).
  if (most_rows(k, s.syms) == 1 && turns_of(t, k, s.syms) > 1) return {resident(3 * held + other), 1};
  const int loose = resident(held + more),
            blocks = blocks_of(t, k, s.syms) <= int64_t{loose} * s.machine.cores ? loose : resident(held + other);
  return {blocks, blocks};
}
VectorTile tile_of(const Tile& t, const MatmulKernel& k, const Site& s) {
  const int deep = static_cast<int>(std::min<int64_t>(t.deep, chunks_of(t, k, s.syms)));
  return {t.warps, static_cast<int>(most_rows(k, s.syms)), deep, t.split, residency_of(t, k, s).bound};
}

class Vector final : public FormOf<MatmulKernel> {
 public:
  std::string_view name() const override { return "cuda_vector"; }
  std::span<const Field> fields() const override { return fields_of<Tile>(); }
  bool takes_twins() const override { return true; }
  bool takes_runs() const override { return true; }
  Fit legal(const Choice& c) const override {
    const Tile t = unpack<Tile>(c);
    return t.warps % t.split == 0 ? Fit::yes() : refuse("warps that share a column are of one block");
  }

 protected:
  Fit fits(const MatmulKernel& k, const Site& s) const override {
    if (const Fit t = takes_products(k.in); !t) return t;
    if (k.b.prologue) return refuse("it takes operand b from memory only");
    if (most_rows(k, s.syms) > kVectorRows || s.syms.interval(k.m).min < 1) return refuse("1 to {} rows", int{kVectorRows});
    if (k.runs && s.syms.interval(k.m).max > kMostInRuns) return refuse("1 to {} rows in runs", kMostInRuns);
    if (const Fit a = k.a.prologue ? takes_made_rows(k, most_rows(k, s.syms), s.machine) : takes_along_k(k, k.a, "a", s.syms); !a) return a;
    if (k.twin)
      if (const Fit twin = takes_along_k(k, *k.twin, "b of the twin", s.syms); !twin) return twin;
    return takes_along_k(k, k.b, "b", s.syms);
  }

  std::vector<Candidate> candidates(const MatmulKernel& k, const Site& s) const override {
    std::vector<Candidate> all;
    for (int warps : {4, 8, 2})
      for (int deep : {8, 4, 2})
        for (int split = 1; split <= warps && split <= 4; split *= 2) {
          const Tile t{warps, deep, split};
          all.push_back({pack(*this, t), Fit::yes(), cost_ns(t, k, s)});
        }
    return all;
  }
  std::string contract(const MatmulKernel& k, const Site& s) const override { return product_contract(k, s); }

  StepSpec step(const MatmulKernel& k, const Site&, const Choice& c) const override {
    const Tile t = unpack<Tile>(c);
    StepSpec f = cuda_step(emit::cuda::size_symbols(k), emit::cuda::function_name(k.name));
    f.block[0] = t.warps * 32;
    Expr columns = 0;
    for (const loop::Segment& seg : k.segments) columns += ceildiv(items_of(seg), t.warps / t.split);
    f.grid[0] = max(1, columns);
    f.grid[2] = max(1, min(k.runs ? k.m : product(k.batch), kMaxGridZ));
    return f;
  }
  std::string source(const MatmulKernel& k, const Site& s, const Choice& c, const std::string& symbol) const override {
    AOTC_CHECK(most_rows(k, s.syms) <= kVectorRows, "{}: code of {} rows, {} is the most", k.name, most_rows(k, s.syms), int{kVectorRows});
    return emit::cuda::emit_vector_matmul(k, tile_of(unpack<Tile>(c), k, s), symbol);
  }

 private:
  /// ns of a step that overlaps the one before, of one more turn of a warp along its column, of one more warp that shares it, and of a
  /// row's loads of a chunk, which a warp waits for; the memory's pace, of what the machine is said to have. Several rows: a fit to 94
  /// products of 2, 4 and 8 rows on an H200, 11 % off (root mean square), weights of up to 67 MB from memory.
  struct Pace {
    double start, turn, join, row_load, memory;
  };

  /// Weights that come at the memory's pace where enough of them are under way, and the instructions of their products.
  static double cost_ns(const Tile& t, const MatmulKernel& k, const Site& s) {
    const GpuCosts& u = gpu_costs(s.machine);
    const ProductSizes z = products_of(k, s.syms);
    const Pace p = most_rows(k, s.syms) == 1 ? Pace{u.row_start, u.row_turn, u.row_join, 0, u.row_memory}
                                             : Pace{u.rows_start, u.rows_turn, u.rows_join, u.rows_load, u.rows_memory};
    const double twins = loop::two_sums(k) ? 2 : 1, elem = static_cast<double>(dtype_bytes(k.in));
    const double bytes = static_cast<double>(z.batch * z.n * z.k) * elem * (k.twin ? 2 : 1);
    const double warps = static_cast<double>(blocks_of(t, k, s.syms)) * t.warps;
    const double chunks = static_cast<double>(chunks_of(t, k, s.syms)), deep = std::min<double>(t.deep, chunks) * twins;
    const double resident = residency_of(t, k, s).blocks, blocks = static_cast<double>(blocks_of(t, k, s.syms));
    const double beside = std::min(warps / s.machine.cores, t.warps * resident);  // of a processor
    const double pace = std::min(1.0, beside * deep * 512 / u.vector_under_way);
    const double wide = dtype_bytes(k.acc) == 8 ? 2 : 1;
    const double instructions = bytes / 512 * (u.vector_chunk + u.vector_row * wide * static_cast<double>(most_rows(k, s.syms)));
    const double stream = std::max(bytes / (static_cast<double>(s.machine.bytes_per_ns) * p.memory * pace),
                                   instructions / (s.machine.cores * u.vector_issues));
    const double waves = rounds(blocks, resident * s.machine.cores);
    const double row_loads = p.row_load * static_cast<double>(most_rows(k, s.syms)) * chunks * waves;
    const double rows = made_rows_ns(k, most_rows(k, s.syms), blocks, 1, u, s.syms);
    const double mates = loop::two_sums(k) && !k.twin ? u.vector_mate_row * static_cast<double>(most_rows(k, s.syms) - 1) : 0;
    const double turns = static_cast<double>(turns_of(t, k, s.syms)),
                 late = blocks > resident * s.machine.cores ? turns : 0;  // of those of no whole wave
    const double held = u.vector_deep * (deep > 8 ? 1 : 0) + (most_rows(k, s.syms) == 1 && turns > 1 ? u.vector_turned : 0),
                 finish = u.tie * (t.warps == 4 ? 0 : 1);
    return (p.start + rows + mates + stream * (1 + held) + row_loads + (turns - 1 + late) * p.turn + (t.split - 1) * p.join) * (1 + finish);
  }
};

}  // namespace

const Form& vector() { return instance<Vector>(); }

}  // namespace aotc::forms::cuda
