// Cholesky, LU and QR factors and triangular systems (kernels/cuda/triangle.cuh).

#include "emit/cuda/code.h"
#include "emit/cuda/library.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/product.h"
#include "forms/cuda/simt_tile.h"
#include "forms/library_attrs.h"

namespace aotc::forms::cuda {

using emit::cuda::pointer;
using loop::LibraryKernel;

namespace {

constexpr int kBlockThreads = 256, kWarps = kBlockThreads / 32;

/// One of the algorithms on matrices of f32 and f64.
class Triangles : public FormOf<LibraryKernel> {
 protected:
  static DType values_of(const LibraryKernel& k) { return k.params.begin()->dtype; }
  static Fit fits_algorithm(const LibraryKernel& k, std::string_view algorithm) {
    if (k.algorithm != algorithm) return {false, ""};
    const DType t = values_of(k);
    return t == DType::f32 || t == DType::f64 ? Fit::yes() : refuse("{}: matrices are factorised in float32 and float64", dtype_name(t));
  }
  static StepSpec units_step(const LibraryKernel& k, const Expr& units, int units_a_block) {
    return library_step(k, kBlockThreads, min(ceildiv(units, units_a_block), kMaxGrid));
  }
};

/// Warps that share a matrix.
struct Team {
  int warps = kWarps;
  static std::span<const Member<Team>> members() {
    static constexpr Member<Team> kRows[] = {{{"warps", 1, kWarps, 1}, &Team::warps}};
    return kRows;
  }
};

class Cholesky final : public Triangles {
 public:
  std::string_view name() const override { return "cuda_cholesky"; }
  std::span<const Field> fields() const override { return fields_of<Team>(); }
  Fit legal(const Choice& c) const override {
    const int warps = unpack<Team>(c).warps;
    return warps == 1 || warps == kWarps ? Fit::yes() : refuse("one warp or all of a block have a matrix");
  }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override { return fits_algorithm(k, "cholesky"); }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const auto count = static_cast<double>(at_least_one(k.sizes[0], s)), n = static_cast<double>(at_least_one(k.sizes[1], s));
    const GpuCosts& u = gpu_costs(s.machine);
    std::vector<Candidate> all;
    for (int warps : {1, kWarps}) {
      // A row of a column: its part of the sum and the steps of the reduction over lanes.
      const double row = u.cholesky_row + n / 2 / 32 * u.cholesky_lane,
                   column = (1 + n / 2 / warps) * row + (warps > 1 ? u.cholesky_block_column : u.cholesky_warp_column);
      const double waves = rounds(count * warps, s.machine.cores * u.cholesky_warps);
      all.push_back({pack(*this, Team{warps}), Fit::yes(), u.launch + waves * n * column});
    }
    return all;
  }
  StepSpec step(const LibraryKernel& k, const Site&, const Choice& c) const override {
    return units_step(k, k.sizes[0], kWarps / unpack<Team>(c).warps);
  }
  std::string source(const LibraryKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    const DType t = values_of(k);
    return emit::cuda::kernel(
        "triangle.cuh", symbol, 3, 3, 1, kBlockThreads,
        fmt::format("  cholesky<{}, {}, {}>({}, {}, {}, a.size[0], a.size[1]);\n", emit::cuda::c_type(t), unpack<Team>(c).warps,
                    kBlockThreads, pointer(t, 0), pointer(t, 1, true), pointer(DType::i32, 2, true)));
  }
};

/// LU or QR factors of float64, with what else the algorithm gives.
class Factors final : public Triangles {
 public:
  Factors(std::string_view algorithm, std::string_view name, std::vector<DType> results)
      : algorithm_(algorithm), name_(name), results_(std::move(results)) {}
  std::string_view name() const override { return name_; }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override {
    if (k.algorithm != algorithm_) return {false, ""};
    return values_of(k) == DType::f64 ? Fit::yes() : refuse("{}: {} factors are of float64", dtype_name(values_of(k)), algorithm_);
  }
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    return units_step(k, k.sizes[0], kWarps / warps_of(k, s));
  }
  std::string source(const LibraryKernel& k, const Site& s, const Choice&, const std::string& symbol) const override {
    std::string pointers = pointer(DType::f64, 0);
    for (size_t i = 0; i < results_.size(); ++i) pointers += ", " + pointer(results_[i], i + 1, true);
    return emit::cuda::kernel(
        "triangle.cuh", symbol, results_.size() + 1, 3, 1, kBlockThreads,
        fmt::format("  {}<{}, {}>({}, a.size[0], a.size[1], a.size[2]);\n", algorithm_, warps_of(k, s), kBlockThreads, pointers));
  }

 private:
  /// Of more rows all warps of a block have a matrix.
  static int warps_of(const LibraryKernel& k, const Site& s) {
    return at_least_one(k.sizes[1], s) <= gpu_costs(s.machine).triangle_rows ? 1 : kWarps;
  }

  std::string_view algorithm_, name_;
  std::vector<DType> results_;
};

/// Columns of one matrix that the threads of a block have; 0: a column is a warp's.
struct ColumnsOfBlock {
  int columns = 0;
  static std::span<const Member<ColumnsOfBlock>> members() {
    static constexpr Member<ColumnsOfBlock> kRows[] = {{{"columns", 0, kBlockThreads, 32}, &ColumnsOfBlock::columns}};
    return kRows;
  }
};

class SolveTriangular final : public Triangles {
 public:
  std::string_view name() const override { return "cuda_solve_triangular"; }
  std::span<const Field> fields() const override { return fields_of<ColumnsOfBlock>(); }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override { return fits_algorithm(k, "solve_triangular"); }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const int64_t count = at_least_one(k.sizes[0], s), n = at_least_one(k.sizes[1], s), columns = at_least_one(k.sizes[2], s);
    const auto order = k.sizes[1].as_const();
    const GpuCosts& u = gpu_costs(s.machine);
    auto ns = [&](double warps, double at_once, double row) {
      return u.launch + rounds(warps, s.machine.cores * at_once) * static_cast<double>(n) * row;
    };
    const double terms = static_cast<double>(n) / 2;  // of a row, on average
    std::vector<Candidate> all = {
        {pack(*this, ColumnsOfBlock{0}), Fit::yes(),
         ns(static_cast<double>(count * columns), u.triangle_warps, u.triangle_warp_row + terms / 32 * u.triangle_warp_term)}};
    for (int threads = 32; threads <= kBlockThreads && order; threads *= 2) {
      if (threads > 32 && threads / 2 >= columns) break;
      if (shared_bytes(*order, threads) > s.machine.shared_bytes) break;
      const auto warps = static_cast<double>(count * ceil_div(columns, int64_t{threads}) * (threads / 32));
      const double staged = static_cast<double>(n) / threads;  // of the matrix, a row
      all.push_back({pack(*this, ColumnsOfBlock{threads}), Fit::yes(),
                     ns(warps, u.triangle_lane_warps, u.triangle_lane_row + (terms + staged) * u.triangle_lane_term)});
    }
    return all;
  }
  StepSpec step(const LibraryKernel& k, const Site&, const Choice& c) const override {
    const int columns = unpack<ColumnsOfBlock>(c).columns;
    if (columns == 0) return units_step(k, k.sizes[0] * k.sizes[2], kWarps);
    StepSpec f = units_step(k, k.sizes[0] * ceildiv(k.sizes[2], columns), 1);
    f.block[0] = columns;
    f.smem_bytes = f.max_smem_bytes = shared_bytes(*k.sizes[1].as_const(), columns);
    return f;
  }
  std::string source(const LibraryKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    const DType t = values_of(k);
    const int columns = unpack<ColumnsOfBlock>(c).columns, threads = columns ? columns : kBlockThreads;
    return emit::cuda::kernel(
        "triangle.cuh", symbol, 3, 3, 1, threads,
        fmt::format("{}  solve_triangular{}<{}, System<{}, {}, {}>, {}>({}, {}, {}, a.size[0], a.size[1], a.size[2]{});\n",
                    columns ? "  extern __shared__ __align__(16) char shared[];\n" : "", columns ? "_lanes" : "", emit::cuda::c_type(t),
                    flag(k, Attr::upper, false), flag(k, Attr::unit, false), flag(k, Attr::below, false), threads, pointer(t, 0),
                    pointer(t, 1), pointer(t, 2, true), columns ? ", reinterpret_cast<double*>(shared)" : ""));
  }

 private:
  /// Both operands as doubles, the matrix's rows rounded up (kernels/cuda/triangle.cuh).
  static int64_t shared_bytes(int64_t n, int64_t columns) { return (ceil_div(n, kTogether) * kTogether + 2 + columns) * n * 8; }
  static constexpr int64_t kTogether = 4;
};

}  // namespace

const Form& cholesky() { return instance<Cholesky>(); }
const Form& lu() {
  static const Factors form("lu", "cuda_lu", {DType::f64, DType::i64, DType::i64});
  return form;
}
const Form& qr() {
  static const Factors form("qr", "cuda_qr", {DType::f64, DType::f64});
  return form;
}
const Form& solve_triangular() { return instance<SolveTriangular>(); }

}  // namespace aotc::forms::cuda
