// Recurrent layers (kernels/cuda/recurrence.cuh): a cluster of blocks has some rows of the batch for all steps.
#include <algorithm>

#include "emit/cuda/code.h"
#include "emit/cuda/library.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/simt_tile.h"
#include "forms/library_attrs.h"

namespace aotc::forms::cuda {

using emit::cuda::RecurrenceCode;
using loop::LibraryKernel;

namespace {

struct Share {
  int rows = 4, blocks = 8;
  static std::span<const Member<Share>> members() {
    static constexpr Member<Share> kRows[] = {{{"rows", 1, 4}, &Share::rows}, {{"blocks", 1, 8}, &Share::blocks}};
    return kRows;
  }
};

class Recurrence final : public FormOf<LibraryKernel> {
 public:
  std::string_view name() const override { return "cuda_recurrence"; }
  std::span<const Field> fields() const override { return fields_of<Share>(); }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override {
    if (k.algorithm != "recurrence") return {false, ""};
    if (recurrence_weight(k) != dtype(k)) return refuse("the state's weight is of {}", dtype_name(recurrence_weight(k)));
    return is_float(dtype(k)) ? Fit::yes() : refuse("a recurrence is of floats, not {}", dtype_name(dtype(k)));
  }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const int64_t batch = at_least_one(k.sizes[1], s), hidden = at_least_one(k.sizes[2], s), width = at_least_one(k.sizes[3], s);
    const bool wide = dtype(k) == DType::f64;
    const GpuCosts& u = gpu_costs(s.machine);
    std::vector<Candidate> all;
    for (int rows : {1, 2, 4})
      for (int blocks : {1, 2, 4, 8}) {
        if (wide && rows > 2) continue;  // of shared memory
        const double clusters = static_cast<double>((batch + rows - 1) / rows);
        const double waves = rounds(clusters * blocks, s.machine.cores);
        const double tiles = static_cast<double>((hidden + RecurrenceCode::kUnits - 1) / RecurrenceCode::kUnits + blocks - 1) / blocks;
        const double weights =
            static_cast<double>(width) * gates(k) * RecurrenceCode::kUnits * dtype_bytes(dtype(k)) / u.recurrence_bytes;  // a tile's, ns
        const double step = tiles * (std::max(weights, weights * rows * u.recurrence_row) + u.recurrence_tile) +
                            (blocks > 1 ? u.recurrence_cluster : u.recurrence_block);
        Candidate c{pack(*this, Share{rows, blocks}), Fit::yes(),
                    u.launch + waves * step * static_cast<double>(at_least_one(k.sizes[0], s))};
        if (blocks > 1 && !s.machine.has(Feature::clusters)) c.fit = refuse("sm_90 or newer has clusters of blocks");
        all.push_back(std::move(c));
      }
    return all;
  }
  StepSpec step(const LibraryKernel& k, const Site&, const Choice& c) const override {
    const Share t = unpack<Share>(c);
    AOTC_CHECK(k.sizes.size() == 6, "{} takes steps, batch, hidden, width, rows from step to step and from one of the batch to the next",
               k.name);
    const Expr clusters = ceildiv(k.sizes[1], t.rows);
    StepSpec f = library_step(k, RecurrenceCode::kThreads, clusters * t.blocks);
    f.scratch_bytes = clusters * max(k.sizes[2], k.sizes[3]) * (4 * t.rows * (dtype(k) == DType::f64 ? 8 : 4));
    f.smem_bytes = f.max_smem_bytes = emit::cuda::recurrence_shared_bytes(dtype(k), code(k, t), gates(k));
    return f;
  }
  std::string source(const LibraryKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    return emit::cuda::emit_recurrence(dtype(k), code(k, unpack<Share>(c)), symbol);
  }

 private:
  static DType dtype(const LibraryKernel& k) { return k.params.begin()->dtype; }
  static int gates(const LibraryKernel& k) { return static_cast<int>(aotc_recurrence_gates(recurrence_cell(k))); }
  static RecurrenceCode code(const LibraryKernel& k, const Share& t) {
    return {recurrence_cell(k), flag(k, Attr::reverse, false), recurrence_projected(k), t.rows, t.blocks};
  }
};

}  // namespace

const Form& recurrence() { return instance<Recurrence>(); }

}  // namespace aotc::forms::cuda
