// Recurrent layers whose weights stay in the registers of a cluster of blocks over all steps (kernels/cuda/recurrence_held.cuh).
#include <algorithm>
#include <cmath>

#include "emit/cuda/code.h"
#include "emit/cuda/library.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/simt_tile.h"
#include "forms/library_attrs.h"
#include "kernels/cuda/limits.cuh"

namespace aotc::forms::cuda {

using emit::cuda::HeldRecurrenceCode;
using loop::LibraryKernel;

namespace {

struct Share {
  int rows = 1, blocks = 1, parts = 8;
  static std::span<const Member<Share>> members() {
    static constexpr Member<Share> kRows[] = {
        {{"rows", 1, 8}, &Share::rows}, {{"blocks", 1, 8}, &Share::blocks}, {{"parts", 4, 32}, &Share::parts}};
    return kRows;
  }
};

/// What a layer is to this form. Bytes: of a number of the state.
struct Layer {
  int cell, hidden, columns, units_each, bytes;
  int gates() const { return static_cast<int>(aotc_recurrence_gates(cell)); }
};

/// How a layer lies in blocks, as the kernel has it.
struct Held {
  int units, threads, depth, weights;  ///< weights: numbers of a thread
  Held(const Layer& l, const Share& s) {
    const int in_warp = 32 / s.parts * l.units_each, run = 16 / l.bytes;
    units = (((l.hidden + s.blocks - 1) / s.blocks) + in_warp - 1) / in_warp * in_warp;
    threads = units / l.units_each * s.parts;
    depth = (l.hidden + run * s.parts - 1) / (run * s.parts) * run * s.parts;
    weights = depth / s.parts * l.columns;
  }
  int smem_bytes(const Layer& l, const Share& s) const { return 2 * s.rows * depth * l.bytes + 16; }
  Fit fit(const Layer& l, const Share& s, const GpuCosts& u) const {
    if (units * (s.blocks - 1) >= l.hidden) return refuse("a block has no units");
    if (threads > kBlockThreadsMost) return refuse("{} threads a block", threads);
    const int64_t sums = 4 * s.rows, registers = (weights + sums + std::max<int64_t>(sums / 2, 4) + 8) * l.bytes / 4 + u.held_registers;
    if (registers > std::min<int64_t>(kThreadRegistersMost, u.registers / threads / 8 * 8))
      return refuse("{} registers a thread", registers);
    return Fit::yes();
  }
};

class RecurrenceHeld final : public FormOf<LibraryKernel> {
 public:
  std::string_view name() const override { return "cuda_recurrence_held"; }
  std::span<const Field> fields() const override { return fields_of<Share>(); }

 protected:
  Fit fits(const LibraryKernel& k, const Site& s) const override {
    if (k.algorithm != "recurrence") return {false, ""};
    if (!is_float(dtype(k))) return refuse("a recurrence is of floats, not {}", dtype_name(dtype(k)));
    if (recurrence_weight(k) != dtype(k)) return refuse("the state's weight is of {}", dtype_name(recurrence_weight(k)));
    if (recurrence_projected(k)) return refuse("the state is projected");
    if (!k.sizes[2].as_const() || *k.sizes[2].as_const() > gpu_costs(s.machine).held_widest)
      return refuse("a state of {} is not held in registers", k.sizes[2].str(s.syms));
    return Fit::yes();
  }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const Layer l = layer(k);
    std::vector<Candidate> all;
    for (int rows : {1, 2, 4, 8})
      for (int blocks : {1, 2, 4, 8})
        for (int parts : {4, 8, 16, 32}) {
          const Share t{rows, blocks, parts};
          const Held held(l, t);
          Candidate c{pack(*this, t), held.fit(l, t, gpu_costs(s.machine)), cost_ns(k, s, l, t, held)};
          if (blocks > 1 && !s.machine.has(Feature::clusters)) c.fit = refuse("sm_90 or newer has clusters of blocks");
          all.push_back(std::move(c));
        }
    return all;
  }
  StepSpec step(const LibraryKernel& k, const Site&, const Choice& c) const override {
    const Share t = unpack<Share>(c);
    const Layer l = layer(k);
    const Held held(l, t);
    return library_step(k, held.threads, ceildiv(k.sizes[1], t.rows) * t.blocks, held.smem_bytes(l, t));
  }
  std::string source(const LibraryKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    const Share t = unpack<Share>(c);
    const Layer l = layer(k);
    return emit::cuda::emit_recurrence_held(
        dtype(k), {l.cell, flag(k, Attr::reverse, false), l.hidden, t.rows, t.blocks, t.parts, Held(l, t).threads}, symbol);
  }

 private:
  static DType dtype(const LibraryKernel& k) { return k.params.begin()->dtype; }
  static Layer layer(const LibraryKernel& k) {
    Layer l{recurrence_cell(k), static_cast<int>(k.sizes[2].as_const().value()), 4, 1, dtype(k) == DType::f64 ? 8 : 4};
    if (l.gates() == 1)
      l.units_each = 4;
    else
      l.columns = l.gates();
    return l;
  }
  /// Fitted to steps of an H200.
  static double cost_ns(const LibraryKernel& k, const Site& s, const Layer& l, const Share& t, const Held& held) {
    const GpuCosts& u = gpu_costs(s.machine);
    const double clusters = std::ceil(static_cast<double>(at_least_one(k.sizes[1], s)) / t.rows);
    const double waves = whole_rounds(clusters * t.blocks, s.machine.cores);
    // A scheduler issues a warp's products, the sums of its parts and its cells; what waits for each other takes the rest.
    const double warps = std::max(u.held_least_warps, held.threads / static_cast<double>(u.lanes)),
                 own_rows = std::max(1, t.rows * 4 / t.parts), wide = l.bytes == 8 ? 2 : 1;
    const double issued = warps * (held.weights * t.rows + u.held_issue + u.held_issue_row * t.rows + u.held_issue_cell * own_rows) * wide;
    const double step = u.held_step + u.held_parts * std::log2(t.parts) + u.held_issue_ns * issued +
                        (t.blocks > 1 ? u.held_cluster + u.held_cluster_block * t.blocks : 0);
    return u.launch + u.held_begin + waves * step * static_cast<double>(at_least_one(k.sizes[0], s));
  }
};

}  // namespace

const Form& recurrence_held() { return instance<RecurrenceHeld>(); }

}  // namespace aotc::forms::cuda
