// aotc_recurrence_panels: a recurrent layer whose state's weight is a constant, stored in panels; all threads work on each step together
// (kernels/cpu/recurrence_panels.h). aotc_recurrence_tiles: the same of weights of bf16 with sums in tile registers
// (kernels/cpu/recurrence_tiles.h).
#include "aotc/detail/team_abi.h"
#include "forms/cpu/library.h"
#include "forms/cpu/recurrent_step.h"
#include "forms/cpu/tile_cost.h"

namespace aotc::forms::cpu {

using loop::LibraryKernel;

namespace {

class RecurrencePanels : public LibraryForm {
 public:
  RecurrencePanels() : LibraryForm("recurrence_panels") {}
  explicit RecurrencePanels(std::string_view name) : LibraryForm(name) {}

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override {
    if (k.algorithm != "recurrence") return refuse("no recurrent layer");
    if (recurrence_projected(k)) return refuse("the state is projected");
    if (!panels_of(k)) return refuse("the state's weight is no constant");
    return Fit::yes();
  }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const RecurrentStep r = recurrent_step(k, s.syms);
    return {estimate(r, s.machine,
                     r.macs * cpu_costs(s.machine).ns_per_cycle / lanes_of(r.dtype, s.machine).width * cpu_costs(s.machine).panels_mac)};
  }
  /// multiply_ns: of a step, by one thread.
  Candidate estimate(const RecurrentStep& r, const Machine& machine, double multiply_ns) const {
    const CpuCosts& u = cpu_costs(machine);
    // All threads share the weight, of which each reads its part once a step; they wait for each other after it.
    const auto threads = static_cast<double>(std::min<int64_t>(machine.cores, r.panels));
    const double share = r.weight_bytes / threads,
                 read = share * u.ns_per_cycle / (share <= static_cast<double>(machine.l2_bytes) ? u.panels_l2_bytes : u.panels_far_bytes);
    return {{this, {}}, Fit::yes(), r.steps * (std::max(read, multiply_ns / threads) + (threads > 1 ? u.meet_ns : 0))};
  }
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    StepSpec f = named_step(k, recurrence_symbol(name(), k));
    const int cell = recurrence_cell(k);
    const Expr &batch = k.sizes[1], &hidden = k.sizes[2];
    const Expr panels = ceildiv(hidden, AOTC_PANEL_N), groups = ceildiv(batch, AOTC_RECURRENCE_GROUP);
    f.work = panels * groups;
    const int64_t columns = aotc_recurrence_gates(cell) * AOTC_PANEL_N;
    f.grain = grain_of(cpu_costs(s.machine).grain_step_macs, ceildiv(batch, max(groups, 1)) * hidden * columns, s.syms);
    const int64_t acc = acc_bytes(k.params.begin()->dtype), row = AOTC_PANEL_N * acc * 3;
    static_assert(AOTC_PANEL_N == 32);
    f.scratch_bytes = batch * (panels + 1) * row + 256;
    return f;
  }
  std::optional<std::pair<loop::ParamId, WeightForm>> weight(const LibraryKernel& k, const Choice&) const override {
    return std::pair(*k.weight, *panels_of(k));
  }
  std::string config(const loop::Kernel&, const LibraryKernel& k, const Choice&, Isa, const std::string& name) const override {
    ConfigText c("aotc_recurrence_config", name);
    return c.add("cell", recurrence_cell(k)).add("reverse", flag(k, Attr::reverse, false)).add("projected", 0).str();
  }

 private:
  /// The state's weight [width, gates * hidden]: each gate's columns a matrix.
  static std::optional<Panels> panels_of(const LibraryKernel& k) {
    if (!k.weight) return std::nullopt;
    const auto hidden = k.sizes[2].as_const(), width = k.sizes[3].as_const();
    const DType t = k.params[*k.weight].dtype;
    if (!hidden || !width || !*hidden || !*width || !has_panel_form(t)) return std::nullopt;
    Panels p;
    p.dtype = t;
    const int64_t gates = aotc_recurrence_gates(recurrence_cell(k));
    p.rows = {{*width, *width, 0, gates * *hidden, {}}};
    for (int64_t g = 0; g < gates; ++g) p.matrices.push_back({g * *hidden, *hidden});
    return p;
  }
};

class RecurrenceTiles final : public RecurrencePanels {
 public:
  RecurrenceTiles() : RecurrencePanels("recurrence_tiles") {}

 protected:
  Fit fits(const LibraryKernel& k, const Site& s) const override {
    if (k.algorithm != "recurrence") return refuse("no recurrent layer");
    if (recurrence_weight(k) != DType::bf16) return refuse("tiles multiply bf16, not {}", dtype_name(recurrence_weight(k)));
    if (!s.machine.has(Feature::AMX_TILES)) return refuse("{} has no amx", s.machine.name());
    const int64_t least = cpu_costs(s.machine).recurrence_tile_rows;
    if (recurrent_step(k, s.syms).batch < least) return refuse("fewer than {} rows", least);
    return RecurrencePanels::fits(k, s);
  }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const RecurrentStep r = recurrent_step(k, s.syms);
    const auto rows = static_cast<double>(r.batch), tiles = static_cast<double>(ceil_div(r.batch, kTileRows));
    return {estimate(r, s.machine,
                     r.macs * tiles * kTileRows / rows * cpu_costs(s.machine).ns_per_cycle / cpu_costs(s.machine).amx_recurrence_macs)};
  }
};

}  // namespace

const Form& recurrence_panels() { return instance<RecurrencePanels>(); }
const Form& recurrence_tiles() { return instance<RecurrenceTiles>(); }

}  // namespace aotc::forms::cpu
