// index_put that assigns (kernels/cuda/index_put_rows.cuh): a block a part of a row, which one entry of the indices names.
#include <cmath>

#include "emit/cuda/code.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/scatter.h"
#include "forms/cuda/simt_tile.h"
#include "forms/library_attrs.h"

namespace aotc::forms::cuda {

using loop::LibraryKernel;

namespace {

constexpr int kBlockThreads = 256;
constexpr int kPlaces = 64;  ///< of a piece of x that is copied, where the result lies apart

class IndexPutRows final : public FormOf<LibraryKernel> {
 public:
  std::string_view name() const override { return "cuda_index_put_rows"; }
  bool is_part() const override { return true; }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override {
    if (k.algorithm != "index_put") return {false, ""};
    return flag(k, Attr::accumulate, false) ? refuse("all updates of an element count") : Fit::yes();
  }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const auto d = IndexPutDims::of(k, s.syms);
    const auto n = [&](const Expr& e) { return static_cast<double>(at_least_one(e, s)); };
    // A block begins, looks at the entries behind its own, and moves a part of a row.
    const GpuCosts& u = gpu_costs(s.machine);
    const double entries = n(d.entries), bytes = 2 * entries * n(d.free) * static_cast<double>(dtype_bytes(k.params.begin()->dtype));
    const double waves = whole_rounds(entries * n(chunks(d)), s.machine.cores * u.index_put_blocks);
    const double ns = waves * (u.index_put_begin + std::ceil(entries / kBlockThreads) * u.index_put_look) + memory_ns(bytes, s.machine);
    return {{{this, {}}, Fit::yes(), u.launch + ns}};
  }
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    const auto d = IndexPutDims::of(k, s.syms);
    StepSpec f;
    f.kind = StepKind::cuda;
    f.symbol = emit::cuda::function_name(k.name);
    f.sizes = d.sizes;
    f.block[0] = kBlockThreads;
    f.grid[0] = max(1, min(chunks(d) * max(d.entries, ceildiv(d.indexed, kPlaces)), kMaxGrid));
    return f;
  }
  std::string source(const LibraryKernel& k, const Site& s, const Choice&, const std::string& symbol) const override {
    const auto d = IndexPutDims::of(k, s.syms);
    return emit::cuda::emit_index_put_rows(k.params.begin()->dtype, d.code, kPlaces, kBlockThreads, symbol);
  }

 private:
  static Expr chunks(const IndexPutDims& d) { return ceildiv(d.free, kBlockThreads * d.code.lanes); }
};

}  // namespace

const Form& index_put_rows() { return instance<IndexPutRows>(); }

}  // namespace aotc::forms::cuda
