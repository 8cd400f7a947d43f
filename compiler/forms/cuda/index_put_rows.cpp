// index_put that assigns (kernels/cuda/index_put_rows.cuh): a block the same part of a few rows, each of which one entry of the indices
// names.
#include <algorithm>
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

struct EntryRows {
  int entries = 1;  ///< whose rows a block writes
  static std::span<const Member<EntryRows>> members() {
    static constexpr Member<EntryRows> kRows[] = {{{"entries", 1, 8}, &EntryRows::entries}};
    return kRows;
  }
};

class IndexPutRows final : public FormOf<LibraryKernel> {
 public:
  std::string_view name() const override { return "cuda_index_put_rows"; }
  std::span<const Field> fields() const override { return fields_of<EntryRows>(); }
  bool is_part() const override { return true; }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override {
    if (k.algorithm != "index_put") return {false, ""};
    return flag(k, Attr::accumulate, false) ? refuse("all updates of an element count") : Fit::yes();
  }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const auto d = IndexPutDims::of(k, s.syms);
    const auto n = [&](const Expr& e) { return static_cast<double>(at_least_one(e, s)); };
    // A block begins, looks at the entries behind its own, and moves a part of their rows.
    const GpuCosts& u = gpu_costs(s.machine);
    const double entries = n(d.entries), bytes = 2 * entries * n(d.free) * static_cast<double>(dtype_bytes(k.params.begin()->dtype));
    std::vector<Candidate> all;
    for (const int of_block : {1, 2, 4, 8}) {
      const double blocks = std::ceil(entries / of_block) * n(chunks(d)), more = (of_block - 1) * u.index_put_entry;
      const double waits = whole_rounds(blocks, s.machine.cores * u.index_put_blocks) *
                           (u.index_put_begin + std::ceil(entries / kBlockThreads) * u.index_put_look + more);
      const double works = blocks / s.machine.cores * (u.index_put_block + more);
      all.push_back({pack(*this, EntryRows{of_block}), Fit::yes(), u.launch + std::max(waits, works) + memory_ns(bytes, s.machine)});
    }
    return all;
  }
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice& c) const override {
    const auto d = IndexPutDims::of(k, s.syms);
    StepSpec f;
    f.kind = StepKind::cuda;
    f.symbol = emit::cuda::function_name(k.name);
    f.sizes = d.sizes;
    f.block[0] = kBlockThreads;
    f.grid[0] = max(1, min(chunks(d) * max(ceildiv(d.entries, unpack<EntryRows>(c).entries), ceildiv(d.indexed, kPlaces)), kMaxGrid));
    return f;
  }
  std::string source(const LibraryKernel& k, const Site& s, const Choice& c, const std::string& symbol) const override {
    const auto d = IndexPutDims::of(k, s.syms);
    return emit::cuda::emit_index_put_rows(k.params.begin()->dtype, d.code, unpack<EntryRows>(c).entries, kPlaces, kBlockThreads, symbol);
  }

 private:
  static Expr chunks(const IndexPutDims& d) { return ceildiv(d.free, kBlockThreads * d.code.lanes); }
};

}  // namespace

const Form& index_put_rows() { return instance<IndexPutRows>(); }

}  // namespace aotc::forms::cuda
