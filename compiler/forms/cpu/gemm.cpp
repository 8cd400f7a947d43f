// aotc_gemm: matrix products of any strides and batch dims as blocks over the threads, B in panels (kernels/cpu/gemm.h).
#include <algorithm>
#include <set>

#include "aotc/detail/quant_abi.h"
#include "forms/cpu/cost.h"
#include "forms/cpu/few_bits.h"
#include "forms/cpu/forms.h"
#include "forms/cpu/gemm_call.h"
#include "forms/cpu/scratch.h"

namespace aotc::forms::cpu {

using loop::MatmulKernel;

namespace {

/// See aotc_gemm_config. The same for every instruction set of an artifact, except that a kernel limits mr and nv to what it has.
struct Tile {
  int mr = 14, nv = 2;
  int mc = 84, nc = 128, kc = 256, kp = 1024;
  int pack_a = 1;
  int pack_b = 1;  ///< a constant B is stored in panel form (where that is possible)
  static std::span<const Member<Tile>> members() {
    static constexpr Member<Tile> kRows[] = {
        {{"mr", 1, 64}, &Tile::mr},
        {{"nv", 1, 8}, &Tile::nv},
        {{"mc", 1}, &Tile::mc},
        {{"nc", AOTC_PANEL_N, INT32_MAX, AOTC_PANEL_N}, &Tile::nc},
        {{"kc", 2, INT32_MAX, 2}, &Tile::kc},
        {{"kp", 2, INT32_MAX, 2}, &Tile::kp},
        {{"pack_a", 0, 1}, &Tile::pack_a},
        {{"pack_b", 0, 1}, &Tile::pack_b},
    };
    return kRows;
  }
};

aotc_gemm_config config_of(const Tile& t, bool packed) {
  aotc_gemm_config g{};
  g.mr = t.mr, g.nv = t.nv, g.mc = t.mc, g.nc = t.nc, g.kc = t.kc, g.kp = t.kp;
  g.b_packed = packed, g.pack_a = t.pack_a;
  return g;
}

/// Columns of a unit; the last two where A is packed again for each block of them: B is no weight.
constexpr int kColumns[] = {32, 64, 128, 256, 512, 1024};
std::span<const int> columns_of(const ProductSizes& c) { return std::span(kColumns).first(c.b_constant ? 4 : 6); }

Candidate estimate(const Form& form, const ProductSizes& c, const Machine& machine, const Tile& tile) {
  Candidate r{pack(form, tile), Fit::yes(), 0};
  const CpuCosts& u = cpu_costs(machine);
  const int threads = machine.cores;
  const Lanes lanes = lanes_of(c.dtype, machine);
  const auto [m_blocks, n_blocks, units, rows] = units_of(c, tile.mc, tile.nc);
  const int64_t kp = std::min<int64_t>(even_up(c.k), tile.kp), ab = acc_bytes(c.dtype);
  const aotc_gemm_config cfg = config_of(tile, c.b_constant);
  r.fit = fits_scratch(aotc_gemm_scratch_bytes(&cfg, c.k, ab) + widened_bytes(c.b_constant, c.dtype), machine);
  if (!r.fit) return r;
  double cycles = static_cast<double>(c.m) * column_vectors(c.n, c.m, lanes, machine) * static_cast<double>(c.segments * c.k) *
                  static_cast<double>(c.batch) / lanes.macs;
  // Register tiles: entry, and the accumulators' way to memory and back.
  const double tiles = static_cast<double>(ceil_div(rows, lanes.mr) * m_blocks * ceil_div(c.n, 2 * lanes.width) * c.segments * c.batch);
  const double passes = static_cast<double>(ceil_div(c.k, tile.kc));
  cycles += tiles * passes * (u.tile_call + u.tile_row * static_cast<double>(std::min(rows, lanes.mr)));
  // Copies of A: kept over the blocks of n when B is a weight, else made for each unit.
  const bool packs_a =
      (tile.pack_a && c.m > 4) || !c.a_rows_contiguous || c.dtype == DType::f16 || (c.dtype == DType::bf16 && lanes.macs < 2);
  const bool kept = c.b_constant && c.k <= tile.kp;
  const double a_elems = static_cast<double>(c.m) * static_cast<double>(c.k) * static_cast<double>(c.batch);
  if (packs_a) cycles += u.pack * a_elems * static_cast<double>(kept ? std::min<int64_t>(threads, n_blocks) : n_blocks);
  // In place, rows a large power of two apart share cache sets.
  if (!packs_a && rows > 4) cycles *= c.k * ab % 4096 == 0 ? u.gemm_same_sets : u.gemm_in_place;
  if (!c.b_constant && !(c.b_rows_contiguous && c.m <= 2 * lanes.mr)) {
    const double b_elems = static_cast<double>(c.n) * static_cast<double>(c.k) * static_cast<double>(c.batch * c.segments);
    // Threads that begin within a block of columns pack it again; where k goes in pieces, each block of rows does, from beyond the caches.
    const double begun = static_cast<double>(std::min<int64_t>(threads, units) - 1) / static_cast<double>(n_blocks * c.batch);
    const double copies = c.k <= tile.kp ? 1.0 + begun : u.gemm_copy_again * static_cast<double>(m_blocks);
    cycles += (c.b_rows_contiguous ? u.gemm_copy : u.pack) * b_elems * copies;
    if (tile.nc * kp * ab > machine.l2_bytes / 2) cycles += b_elems * static_cast<double>(ab * (m_blocks - 1)) / u.gemm_panel_bytes;
    if (c.k > tile.kp && rows * tile.nc * ab > machine.l2_bytes / 2)
      cycles +=
          static_cast<double>(c.m * c.n * c.batch * c.segments * ab) * 2 * static_cast<double>(ceil_div(c.k, tile.kp)) / u.gemm_sum_bytes;
  }
  if (c.b_made) cycles += u.made * static_cast<double>(c.n * c.k * c.segments * (c.k <= tile.kp ? 1 : m_blocks));
  if (rows * kp * ab > machine.l2_bytes * 3 / 4) cycles *= u.gemm_rows_beyond_l2;
  // A chunk of the columns that a tile has of a panel, from L2, costs less than another pass over the sums, up to a point.
  const int64_t columns = std::min<int64_t>(AOTC_PANEL_N, 2 * lanes.width);
  const int64_t panel_bytes = c.b_constant || lanes.macs > 1 ? dtype_bytes(c.dtype) : ab;
  if (tile.kc * columns * panel_bytes > machine.l1_bytes * 3 / 2) cycles *= u.gemm_chunk_beyond_l1;
  cycles += static_cast<double>(units) * u.unit;
  if (c.finishes && lanes.width == 8) {
    const bool near = even_up(c.k) * std::min<int64_t>(tile.nc, c.n) * ab <= u.gemm_near_bytes;
    const bool by_rows = c.b_constant && rows > lanes.mr && near && c.k <= tile.kc && c.k <= tile.kp;
    const double panels = by_rows ? 0.0 : static_cast<double>(m_blocks * ceil_div(c.n, AOTC_PANEL_N));
    cycles += static_cast<double>(c.batch * c.segments) *
              (u.gemm_panel * panels + u.gemm_finish * static_cast<double>(c.m * ceil_div(c.n, lanes.width)));
  } else {
    cycles += u.epilogue_call *
              static_cast<double>(m_blocks * ceil_div(c.n, std::max<int64_t>(AOTC_PANEL_N, 4096 / std::max<int64_t>(rows, 1))) * c.batch);
    cycles += epilogue_cycles(static_cast<double>(c.m * c.batch), static_cast<double>(c.n * c.segments),
                              {rows, std::min<int64_t>(tile.nc, c.n), 4096}, ab, lanes.width, machine);
  }
  // A weight streams once for each block of rows.
  if (c.b_constant) cycles += again_cycles(c.n * c.k * c.segments * dtype_bytes(c.dtype), c.batch, m_blocks - 1, machine);
  r.cost_ns = shared_ns(cycles, units, machine);
  return r;
}

class Gemm : public ProductForm {
 public:
  std::string_view name() const override { return "gemm"; }
  bool by_rows() const override { return true; }
  bool takes_runs() const override { return true; }
  std::span<const Field> fields() const override { return fields_of<Tile>(); }
  Fit legal(const Choice& c) const override { return fits_pieces(unpack<Tile>(c).kc, unpack<Tile>(c).kp); }
  Fit takes_prologue(DType t, uint32_t, const Machine&) const override {
    return t == DType::u8 ? refuse("unsigned bytes are read from memory") : Fit::yes();
  }

 protected:
  Fit fits(const MatmulKernel& k, const Site&) const override {
    if (loop::multiplies_bytes(k)) return refuse("its operands are of one type");
    return has_entry("gemm", k.in) ? Fit::yes() : refuse("no kernel multiplies {}", dtype_name(k.in));
  }

  std::vector<Candidate> candidates(const MatmulKernel& kernel, const Site& s) const override {
    const ProductSizes c = sizes(kernel, s.syms);
    const Lanes lanes = lanes_of(c.dtype, s.machine);
    const int64_t ab = acc_bytes(c.dtype);
    std::set<int> mcs;
    for (int64_t tiles : {1, 2, 4, 8, 12, 18, 36}) mcs.insert(static_cast<int>(std::min(c.m, tiles * lanes.mr)));
    if (c.m <= 256) mcs.insert(static_cast<int>(c.m));
    std::vector<Candidate> all;
    for (int mc : mcs)
      for (int nc : columns_of(c))
        for (int64_t about : {256, 128, 512, 768})
          for (int pack_a : {1, 0}) {
            Tile t;
            t.mr = static_cast<int>(lanes.mr), t.nv = 2, t.mc = mc, t.nc = nc, t.pack_a = pack_a;
            t.kc = balanced_kc(c.k, about);
            if (kernel.ordered && about != 256) continue;  // the same pieces of k on all machines
            // Dynamic sizes of k beyond the tuned one still go in pieces of a few thousand.
            // A's rows of a block stay in L2, the panels of B that are made here stream from beyond it.
            int64_t room = std::max<int64_t>(s.machine.l2_bytes * 2 / ((mc + 16) * ab), 1024);
            if (!c.b_constant) room = std::min(room, (cpu_costs(s.machine).scratch_most / ab - int64_t{1} * mc * nc - 64) / (mc + 16 + nc));
            const int64_t whole = std::min<int64_t>(std::max<int64_t>(room, 64), std::max<int64_t>(c.k, 1024)) / t.kc;
            t.kp = static_cast<int>(t.kc * std::max<int64_t>(1, whole + (c.k <= room && c.k % t.kc ? 1 : 0)));
            if (about != 256 && balanced_kc(c.k, 256) == t.kc) continue;
            all.push_back(estimate(*this, c, s.machine, t));
          }
    return all;
  }

  aotc_gemm_config gemm_config(const MatmulKernel& k, const Choice& c) const override {
    return config_of(unpack<Tile>(c), panels(k, c).has_value());
  }
  Expr scratch(const MatmulKernel& k, const aotc_gemm_config& g) const override {
    return gemm_scratch(g, k.k, std::max<int64_t>(4, dtype_bytes(k.acc)), k.a.prologue.has_value(), k.b.prologue && !g.b_packed) +
           widened_bytes(g.b_packed, k.in);
  }
  std::optional<Panels> panels(const MatmulKernel& k, const Choice& c) const override { return product_panels(k, unpack<Tile>(c).pack_b); }

  virtual ProductSizes sizes(const MatmulKernel& k, const SymTable& syms) const { return product_sizes(k, syms); }
};

template <bool kHalves>
class GemmFewBits : public OfFewBits<Gemm, kHalves> {
 public:
  bool takes_runs() const override { return false; }

 protected:
  Fit fits(const MatmulKernel& k, const Site&) const override { return this->fits_weight(k); }
  ProductSizes sizes(const MatmulKernel& k, const SymTable& syms) const override {
    ProductSizes c = this->Gemm::sizes(k, syms);
    c.b_constant = true, c.b_made = false, c.b_rows_contiguous = true;
    return c;
  }
};

/// Float32 rows, a bf16 weight: it is widened in registers, so that memory brings half the bytes.
class GemmHalfWeights final : public GemmFewBits<true> {
 public:
  std::string_view name() const override { return "gemm_bf16w"; }
  Fit legal(const Choice& c) const override { return unpack<Tile>(c).pack_b ? Gemm::legal(c) : refuse("pack_b: the weight is in panels"); }
};

struct UnpackTile : Tile {
  int register_rows = 0;  ///< see aotc_gemm_unpack_config
  static std::span<const Member<UnpackTile>> members() {
    static const std::vector<Member<UnpackTile>> rows = [] {
      std::vector<Member<UnpackTile>> all;
      for (const Member<Tile>& m : Tile::members()) all.push_back({m.field, m.at});
      all.push_back({{"register_rows", 0, AOTC_GEMM_UNPACK_ROWS, 1, 6}, &UnpackTile::register_rows});
      return all;
    }();
    return rows;
  }
};

/// Float32 rows, a weight of 8 or 4 bits: its panels are unpacked once for all rows of a unit (kernels/cpu/gemm_unpack.h).
class GemmUnpack final : public GemmFewBits<false> {
 public:
  std::string_view name() const override { return "gemm_unpack"; }
  std::span<const Field> fields() const override { return fields_of<UnpackTile>(); }
  Fit legal(const Choice& c) const override {
    const UnpackTile t = unpack<UnpackTile>(c);
    if (!t.pack_b || !t.pack_a) return refuse("pack_a, pack_b: both operands are in panels");
    if (t.kc % AOTC_QUANT_BLOCK != 0) return refuse("kc: {} is no multiple of {}", t.kc, int{AOTC_QUANT_BLOCK});
    return Gemm::legal(c);
  }

 protected:
  std::vector<Candidate> candidates(const MatmulKernel& kernel, const Site& s) const override {
    const ProductSizes c = sizes(kernel, s.syms);
    const Lanes lanes = lanes_of(c.dtype, s.machine);
    std::set<int> mcs;
    for (int64_t tiles : {1, 2, 4, 8, 16, 36, 72}) mcs.insert(static_cast<int>(std::min(c.m, tiles * lanes.mr)));
    if (c.m <= 256) mcs.insert(static_cast<int>(c.m));
    // Equal parts of k are unpacked at once.
    const int64_t parts = ceil_div(c.k, AOTC_GEMM_UNPACK_K);
    const int kc = static_cast<int>(ceil_div(ceil_div(c.k, parts), AOTC_QUANT_BLOCK) * AOTC_QUANT_BLOCK);
    const int64_t depth = ceil_div(c.k, kc);
    // With all of k at once sums are finished in registers, which is worth rows that stream from beyond L2: blocks that need k in pieces
    // are tried only where those of a few tiles do, too.
    const int64_t few = 8 * lanes.mr;
    const bool whole = 4 * (few + 16) * kc * depth <= 2 * s.machine.l2_bytes;
    // With AVX2 4 bits always go through L1.
    const bool in_registers = kernel.b_quantised->bits == 8 || lanes.width == 16;
    const int register_rows =
        in_registers ? std::min<int>(static_cast<int>(cpu_costs(s.machine).unpack_few_rows), AOTC_GEMM_UNPACK_ROWS) : 0;
    std::vector<Candidate> all;
    for (int mc : mcs)
      for (int nc : columns_of(c)) {
        UnpackTile t;
        t.register_rows = register_rows;
        t.mr = static_cast<int>(lanes.mr), t.nv = 2, t.mc = mc, t.nc = nc, t.kc = kc;
        const int64_t near = s.machine.l2_bytes / (int64_t{4} * (mc + 16)) / kc;
        if (whole && depth > 2 * near && mc > few) continue;
        const int64_t pieces = depth <= 2 * near ? 1 : ceil_div(depth, std::max<int64_t>(near, 1));
        t.kp = static_cast<int>(kc * ceil_div(depth, pieces));
        all.push_back(estimate_unpacked(c, kernel.b_quantised->bits, s.machine, t));
      }
    return all;
  }

  aotc_gemm_config gemm_config(const MatmulKernel&, const Choice& c) const override { return config_of(unpack<UnpackTile>(c), true); }
  int register_rows(const Choice& c) const override { return unpack<UnpackTile>(c).register_rows; }

 private:
  Candidate estimate_unpacked(const ProductSizes& c, int bits, const Machine& m, const UnpackTile& t) const {
    Candidate r = estimate(*this, c, m, t);
    r.choice = pack(*this, t);
    const aotc_gemm_config cfg = config_of(t, true);
    const int64_t depth = ceil_div(c.k, AOTC_QUANT_BLOCK) * AOTC_QUANT_BLOCK;
    r.fit = fits_scratch(aotc_gemm_scratch_bytes(&cfg, depth, 4) + aotc_gemm_unpack_bytes(&cfg, depth), m);
    if (!r.fit) return r;
    const Lanes lanes = lanes_of(c.dtype, m);
    const CpuCosts& u = cpu_costs(m);
    const int64_t m_blocks = ceil_div(c.m, t.mc), rows = ceil_div(c.m, m_blocks);
    const double vectors = static_cast<double>(ceil_div(c.n, lanes.width) * c.k * c.segments * c.batch * m_blocks);
    double more = u.unpack_vector;
    // In registers.
    if (rows <= t.register_rows) more = std::max(u.unpack_least, u.unpack_row * static_cast<double>(rows)) - static_cast<double>(rows);
    const double streamed =
        static_cast<double>(lanes.width * bits) / 8 / u.low_bit_bytes;  // what memory takes for a vector's bytes, at least
    more = std::max(more, streamed - static_cast<double>(rows));
    const int64_t units = c.batch * m_blocks * ceil_div(c.n, t.nc) * c.segments;
    r.cost_ns += shared_ns(vectors * more, units, m);
    return r;
  }
};

}  // namespace

std::string unpack_config(const loop::Kernel& kernel, const MatmulKernel& k, const aotc_gemm_config& g, int register_rows, Isa isa,
                          const std::string& name) {
  ConfigText c("aotc_gemm_unpack_config", name);
  c.nested("product", product_members(kernel, k, g, isa, name));
  add_few_bits(c, kernel, k);
  c.add("register_rows", register_rows);
  return c.str();
}

std::string few_bits_text(const loop::QuantisedWeight& q) { return q.bits == 16 ? "bf16w " : fmt::format("int{} g{} ", q.bits, q.group); }

Expr few_bits_scratch(const MatmulKernel& k, const aotc_gemm_config& g) {
  const bool makes_a = k.a.prologue.has_value();
  if (k.b_quantised->bits == 16) return gemm_scratch(g, k.k, 4, makes_a, false) + widened_bytes(true, DType::bf16);
  const int64_t depth = ceil_div(*k.k.as_const(), AOTC_QUANT_BLOCK) * AOTC_QUANT_BLOCK;
  return gemm_scratch(g, depth, 4, makes_a, false) + aotc_gemm_unpack_bytes(&g, depth);
}

const Form& gemm_unpack() { return instance<GemmUnpack>(); }

const Form& gemm_bf16w() { return instance<GemmHalfWeights>(); }

const Form& gemm() { return instance<Gemm>(); }

}  // namespace aotc::forms::cpu
