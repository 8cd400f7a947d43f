// Cholesky, LU and QR factors and triangular systems (kernels/cuda/triangle.cuh).
#include <algorithm>

#include "emit/cuda/code.h"
#include "emit/cuda/library.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
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
    StepSpec f;
    f.kind = StepKind::cuda;
    f.symbol = emit::cuda::function_name(k.name);
    f.sizes = k.sizes;
    f.block[0] = kBlockThreads;
    f.grid[0] = min(ceildiv(units, units_a_block), kMaxGrid);
    return f;
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
      const double waves = std::max(1.0, count * warps / (s.machine.cores * u.cholesky_warps));
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

class LuFactors final : public Triangles {
 public:
  std::string_view name() const override { return "cuda_lu"; }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override {
    if (k.algorithm != "lu") return {false, ""};
    return values_of(k) == DType::f64 ? Fit::yes() : refuse("{}: LU factors are of float64", dtype_name(values_of(k)));
  }
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    return units_step(k, k.sizes[0], kWarps / warps_of(k, s));
  }
  std::string source(const LibraryKernel& k, const Site& s, const Choice&, const std::string& symbol) const override {
    return emit::cuda::kernel(
        "triangle.cuh", symbol, 4, 3, 1, kBlockThreads,
        fmt::format("  lu<{}, {}>({}, {}, {}, {}, a.size[0], a.size[1], a.size[2]);\n", warps_of(k, s), kBlockThreads,
                    pointer(DType::f64, 0), pointer(DType::f64, 1, true), pointer(DType::i64, 2, true), pointer(DType::i64, 3, true)));
  }

 private:
  static constexpr int64_t kRowsOfAWarp = 32;  ///< more rows: all warps of a block have a matrix
  static int warps_of(const LibraryKernel& k, const Site& s) { return at_least_one(k.sizes[1], s) <= kRowsOfAWarp ? 1 : kWarps; }
};

class QrFactors final : public Triangles {
 public:
  std::string_view name() const override { return "cuda_qr"; }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override {
    if (k.algorithm != "qr") return {false, ""};
    return values_of(k) == DType::f64 ? Fit::yes() : refuse("{}: QR factors are of float64", dtype_name(values_of(k)));
  }
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    return units_step(k, k.sizes[0], kWarps / warps_of(k, s));
  }
  std::string source(const LibraryKernel& k, const Site& s, const Choice&, const std::string& symbol) const override {
    return emit::cuda::kernel("triangle.cuh", symbol, 3, 3, 1, kBlockThreads,
                              fmt::format("  qr<{}, {}>({}, {}, {}, a.size[0], a.size[1], a.size[2]);\n", warps_of(k, s), kBlockThreads,
                                          pointer(DType::f64, 0), pointer(DType::f64, 1, true), pointer(DType::f64, 2, true)));
  }

 private:
  static constexpr int64_t kRowsOfAWarp = 32;  ///< more rows: all warps of a block have a matrix
  static int warps_of(const LibraryKernel& k, const Site& s) { return at_least_one(k.sizes[1], s) <= kRowsOfAWarp ? 1 : kWarps; }
};

class SolveTriangular final : public Triangles {
 public:
  std::string_view name() const override { return "cuda_solve_triangular"; }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override { return fits_algorithm(k, "solve_triangular"); }
  StepSpec step(const LibraryKernel& k, const Site&, const Choice&) const override {
    return units_step(k, k.sizes[0] * k.sizes[2], kWarps);
  }
  std::string source(const LibraryKernel& k, const Site&, const Choice&, const std::string& symbol) const override {
    const DType t = values_of(k);
    return emit::cuda::kernel("triangle.cuh", symbol, 3, 3, 1, kBlockThreads,
                              fmt::format("  solve_triangular<{}, {}, {}, {}>({}, {}, {}, a.size[0], a.size[1], a.size[2]);\n",
                                          emit::cuda::c_type(t), flag(k, Attr::upper, false), flag(k, Attr::unit, false), kBlockThreads,
                                          pointer(t, 0), pointer(t, 1), pointer(t, 2, true)));
  }
};

}  // namespace

const Form& cholesky() {
  static const Cholesky form;
  return form;
}
const Form& lu() {
  static const LuFactors form;
  return form;
}
const Form& qr() {
  static const QrFactors form;
  return form;
}
const Form& solve_triangular() {
  static const SolveTriangular form;
  return form;
}

}  // namespace aotc::forms::cuda
