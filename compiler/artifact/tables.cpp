#include "artifact/tables.h"

#include <map>
#include <set>

#include "aotc/detail/cpu_features.h"
#include "aotc/detail/plan_format.h"
#include "artifact/versions.h"
#include "base/initialiser.h"
#include "base/parts.h"
#include "emit/c_string.h"
#include "emit/cpu/module.h"
#include "graph/custom_op.h"
#include "graph/states.h"
#include "kernels/cpu/catalog.h"
#include "plan/slots.h"

namespace aotc::artifact {
namespace {

#define AOTC_X(name, value, text, features) "AOTC_ISA_" #name,
constexpr const char* kIsaEnum[] = {AOTC_ISA_LIST(AOTC_X)};
#undef AOTC_X

std::string i64_text(int64_t v) { return v == INT64_MIN ? "INT64_MIN" : v == INT64_MAX ? "INT64_MAX" : fmt::format("{}", v); }

/// "static const TYPE NAME[] = {rows};" with a dummy element when there is none (an empty array is no C++).
std::string array(std::string_view type, std::string_view name, const std::vector<std::string>& rows, std::string_view dummy = "{}") {
  std::string out = fmt::format("static const {} {}[] = {{\n", type, name);
  std::string line;
  for (const std::string& r : rows) {
    line += r + ", ";
    if (line.size() > 120) out += "  " + line + "\n", line.clear();
  }
  if (rows.empty()) line = dummy;
  return out + (line.empty() ? "" : "  " + line + "\n") + "};\n";
}

/// What the methods of a part share, with the numbers that it has there.
class Shared {
 public:
  explicit Shared(const std::vector<MethodPlans>& methods) {
    for (const MethodPlans& m : methods) {
      weight_of_.emplace_back();
      for (const plan::Weight& w : m.plans.weights) weight_of_.back().push_back(add(w));
      state_of_.emplace_back();
      for (uint32_t s = 0; s < m.graph.states.size(); ++s) state_of_.back().push_back(add(m, s, weight_of_.back()));
      first_config_.push_back(configs_);
      configs_ += m.plans.configs.size();
    }
  }
  struct State {
    const StateInfo* info;
    int initial;  ///< weight, or -1 for zeros
  };
  const std::vector<const plan::Weight*>& weights() const { return weights_; }
  const std::vector<State>& states() const { return states_; }
  const std::vector<std::pair<std::string, bool>>& kernels() const { return kernels_; }  ///< symbol, of the library
  uint32_t weight(size_t method, uint32_t own) const { return weight_of_[method].at(own); }
  uint32_t state(size_t method, uint32_t own) const { return state_of_[method].at(own); }
  int config(size_t method, int own) const { return own < 0 ? -1 : static_cast<int>(first_config_[method]) + own; }
  int32_t kernel(const plan::Step& s) {
    auto [it, fresh] = kernel_number_.emplace(s.symbol, static_cast<int32_t>(kernels_.size()));
    if (fresh) kernels_.push_back({s.symbol, s.library});
    return it->second;
  }

 private:
  /// Weights at one place of the blob are one.
  uint32_t add(const plan::Weight& w) {
    const auto [it, fresh] = weight_at_.emplace(std::pair(w.offset, w.bytes), static_cast<uint32_t>(weights_.size()));
    if (fresh) weights_.push_back(&w);
    return it->second;
  }
  uint32_t add(const MethodPlans& m, uint32_t s, const std::vector<uint32_t>& weights) {
    const StateInfo& info = m.graph.states[static_cast<StateId>(s)];
    const auto [it, fresh] = state_named_.emplace(info.name, static_cast<uint32_t>(states_.size()));
    const int initial = s < m.plans.state_initial.size() ? m.plans.state_initial[s] : -1;
    if (fresh) states_.push_back({&info, initial < 0 ? -1 : static_cast<int>(weights.at(static_cast<size_t>(initial)))});
    return it->second;
  }

  std::vector<const plan::Weight*> weights_;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> weight_at_;  ///< by offset and bytes
  std::vector<State> states_;
  std::map<std::string, uint32_t> state_named_;
  std::vector<std::vector<uint32_t>> weight_of_, state_of_;
  std::vector<size_t> first_config_;
  size_t configs_ = 0;
  std::map<std::string, int32_t> kernel_number_;
  std::vector<std::pair<std::string, bool>> kernels_;
};

/// The tables of one method. Their names begin with a prefix of its own.
class MethodEmitter {
 public:
  MethodEmitter(const MethodPlans& in, size_t number, Shared& shared)
      : in_(in),
        g_(in.graph),
        symbols_(in.plans.symbols),
        shared_slots_(symbols_),
        number_(number),
        shared_(shared),
        prefix_(number ? fmt::format("m{}_", number) : "") {}

  /// The tables, and in *row the method's.
  std::string emit(std::string* row) {
    io();
    symbols();
    guards();
    for (size_t v = 0; v < in_.plans.plans.size(); ++v) variant(v);
    out_ += array("aotc_variant", prefix_ + "variants", variants_);
    Initialiser r;
    r.add("name", emit::c_string(in_.name));
    const auto table = [&](const char* member, const char* count, size_t n) {
      r.add(member, prefix_ + member);
      if (count) r.add(count, n);
    };
    table("inputs", nullptr, 0);
    table("outputs", nullptr, 0);
    r.add("n_inputs", g_.inputs.size()).add("n_outputs", g_.results());
    table("hidden", "n_hidden", hidden_.size());
    table("found", "n_found", found_.size());
    table("dims", nullptr, 0);
    table("dim_code", nullptr, 0);
    table("symbols", "n_symbols", symbols_.size());
    table("guards", "n_guards", g_.guards.size());
    table("variants", "n_variants", in_.plans.plans.size());
    *row = r.str();
    return std::move(out_);
  }

 private:
  struct Code {
    uint32_t begin, end;
  };
  Code code(const Expr& e) { return code(shared_slots_.encode(e)); }
  Code code(const std::vector<int64_t>& words) {
    const Code c{static_cast<uint32_t>(dim_code_.size()), static_cast<uint32_t>(dim_code_.size() + words.size())};
    for (int64_t w : words) dim_code_.push_back(i64_text(w));
    return c;
  }

  std::string dim(const Expr& e) {
    Initialiser row;
    if (auto c = e.as_const())
      return row.add("value", *c).add("min", *c).add("max", *c).add("text", emit::c_string(std::to_string(*c))).str();
    const Interval range = g_.syms.interval(e);
    const Code c = code(e);
    row.add("value", -1).add("min", i64_text(std::max<int64_t>(range.min, 0))).add("max", i64_text(range.max));
    return row.add("text", emit::c_string(e.str(g_.syms))).add("begin", c.begin).add("end", c.end).str();
  }

  std::string io_row(const std::string& name, const TensorType& t, int32_t alias) {
    const size_t first = dims_.size();
    for (const Expr& d : t.dims) dims_.push_back(dim(d));
    Initialiser row;
    row.add("name", emit::c_string(name)).add("dtype", static_cast<uint32_t>(t.dtype)).add("rank", t.rank());
    return row.add("first_dim", first).add("alias_input", alias).str();
  }

  std::string found_row(size_t output, size_t dim, const Expr& e, const plan::SlotTable& slots) {
    const Code c = code(slots.encode(e));
    Initialiser row;
    row.add("output", output).add("dim", dim).add("begin", c.begin).add("end", c.end);
    return row.add("text", emit::c_string(e.str(g_.syms))).str();
  }

  void io() {
    std::vector<std::string> inputs, outputs;
    for (const InputInfo& i : g_.inputs) inputs.push_back(io_row(i.name, g_.type(i), -1));
    std::vector<SymId> found_symbols = symbols_;
    for (const OutputInfo& o : g_.outputs) {
      if (o.role == OutputRole::result) {
        outputs.push_back(io_row(o.name, g_.type(o), o.alias_input));
        continue;
      }
      const bool size = o.role == OutputRole::size;
      const Node* check = g_.def(o.value);  // none: a condition on constants alone
      if (check && check->op != Op::check) check = nullptr;
      const char* kind = size ? "AOTC_HIDDEN_SIZE" : check && check->inputs.size() == 2 ? "AOTC_HIDDEN_INDEX" : "AOTC_HIDDEN_CHECK";
      hidden_.push_back(Initialiser()
                            .add("kind", kind)
                            .add("before_writes", static_cast<int>(check && check->get_or<std::string>(Attr::kind, "") == kBeforeWrites))
                            .add("text", emit::c_string(o.name))
                            .str());
      if (size) found_symbols.push_back(*g_.syms.find(o.name));
    }
    const plan::SlotTable slots(found_symbols);
    for (size_t o = 0; o < g_.results(); ++o)
      for (size_t d = 0; d < g_.outputs[o].found.size(); ++d)
        if (const Expr& e = g_.outputs[o].found[d]; e != g_.type(g_.outputs[o].value).dims[d]) found_.push_back(found_row(o, d, e, slots));
    out_ += array("aotc_hidden_desc", prefix_ + "hidden", hidden_) + array("aotc_found_desc", prefix_ + "found", found_);
    out_ += array("aotc_io_desc", prefix_ + "inputs", inputs) + array("aotc_io_desc", prefix_ + "outputs", outputs);
    out_ += array("aotc_dim_desc", prefix_ + "dims", dims_);
  }

  /// The dimension from which a symbol is read: alone if there is one, else affine in it and in nothing else.
  std::string symbol_row(SymId s) {
    const SymInfo& info = g_.syms[s];
    for (const bool alone : {true, false})
      for (size_t i = 0; i < g_.inputs.size(); ++i) {
        const TensorType t = g_.type(g_.inputs[i]);
        for (int d = 0; d < t.rank(); ++d) {
          const Expr& e = t.dims[static_cast<size_t>(d)];
          const std::optional<Expr> mul = e.linear_coefficient(s);
          if (!mul || !mul->as_const() || mul->is(0)) continue;
          const std::optional<int64_t> add = (e - *mul * Expr::symbol(s)).as_const();
          if (!add || (alone && (!mul->is(1) || *add != 0))) continue;
          Initialiser row;
          row.add("name", emit::c_string(info.name)).add("input", i).add("dim", d).add("mul", *mul->as_const()).add("add", *add);
          return row.add("min", i64_text(info.min)).add("max", i64_text(info.max)).add("multiple_of", info.multiple_of).str();
        }
      }
    throw Diagnostic(ExitCode::unsupported, {}, fmt::format("the size '{}' cannot be read from any input's dimensions", info.name))
        .note("it only occurs in a product; fix it in shapes.json");
  }

  void symbols() {
    std::vector<std::string> rows;
    for (SymId s : symbols_) rows.push_back(symbol_row(s));
    out_ += array("aotc_symbol_desc", prefix_ + "symbols", rows);
  }

  void guards() {
    std::vector<std::string> rows;
    for (const ShapeGuard& s : g_.guards) {
      const Code a = code(s.a), b = code(s.b);
      Initialiser row;
      row.add("kind", static_cast<int>(s.kind)).add("a_begin", a.begin).add("a_end", a.end).add("b_begin", b.begin).add("b_end", b.end);
      rows.push_back(row.add("why", emit::c_string(s.why)).str());
    }
    out_ += array("aotc_guard_desc", prefix_ + "guards", rows) + array("int64_t", prefix_ + "dim_code", dim_code_, "0");
  }

  /// Number of a step's kernel in the function tables.
  int32_t kernel_number(const plan::Step& s) {
    if (s.kind == plan::StepKind::cuda) return shared_.config(number_, s.config);
    return s.kind == plan::StepKind::cpu ? shared_.kernel(s) : -1;
  }

  std::string range_row(const plan::Plan& p, SymId s) const {
    const SymInfo& info = g_.syms[s];
    plan::SymRange r{s, info.min, info.max, info.multiple_of};
    for (const plan::SymRange& narrowed : p.ranges)
      if (narrowed.sym == s) r = narrowed;
    return Initialiser().add("min", i64_text(r.min)).add("max", i64_text(r.max)).add("multiple_of", r.multiple_of).str();
  }

  std::string buffer_row(const plan::PlannedBuffer& b, plan::SlotTable& slots) const {
    const bool state = b.place == plan::Place::state || b.place == plan::Place::state_next;
    const uint32_t index = b.place == plan::Place::weight ? shared_.weight(number_, b.index)
                           : state                        ? shared_.state(number_, b.index)
                                                          : b.index;
    Initialiser row;
    row.add("kind", place_kind(b.place)).add("index", index).add("bytes_slot", slots.slot(b.bytes));
    return row.add("offset_slot", b.place == plan::Place::arena ? slots.slot(b.offset) : -1).str();
  }

  /// What the steps of a variant point into.
  struct StepLists {
    std::vector<std::string> args, sizes, maps;
  };
  std::string step_row(const plan::Step& s, plan::SlotTable& slots, StepLists& lists) {
    Initialiser row;
    row.add("kind", step_kind(s.kind)).add("kernel", kernel_number(s));
    row.add("first_arg", lists.args.size()).add("n_args", s.args.size());
    row.add("first_size", lists.sizes.size()).add("n_sizes", s.sizes.size());
    for (plan::PlanBufferId a : s.args) lists.args.push_back(std::to_string(idx(a)));
    for (const Expr& e : s.sizes) lists.sizes.push_back(std::to_string(slots.slot(e)));
    const size_t first_map = lists.maps.size();
    for (const forms::TensorMap& m : s.maps) lists.maps.push_back(map_row(m, slots));
    const bool cuda = s.kind == plan::StepKind::cuda;
    const auto of_cuda = [&](const Expr& e) { return cuda ? slots.slot(e) : -1; };
    row.add("config", cuda ? -1 : shared_.config(number_, s.config))
        .add("work_slot", slots.slot(s.work))
        .add("grain_slot", slots.slot(s.grain));
    row.add("scratch_slot", s.scratch_bytes.is(0) ? -1 : slots.slot(s.scratch_bytes));
    std::vector<int32_t> grid;
    for (const Expr& e : s.grid) grid.push_back(of_cuda(e));
    row.list("grid_slot", grid).list("block", s.block).add("smem_slot", s.smem_bytes.is(0) ? -1 : of_cuda(s.smem_bytes));
    row.add("first_map", first_map).add("n_maps", s.maps.size()).add("overlaps", static_cast<int>(s.overlaps));
    return row.add("label", emit::c_string(s.label)).str();
  }

  void variant(size_t v) {
    const plan::Plan& p = in_.plans.plans[v];
    plan::SlotTable slots(symbols_);
    StepLists lists;
    std::vector<std::string> ranges, buffers, steps, words, slot_rows;
    for (SymId s : symbols_) ranges.push_back(range_row(p, s));
    for (const plan::PlannedBuffer& b : p.buffers) buffers.push_back(buffer_row(b, slots));
    for (const plan::Step& s : p.steps) steps.push_back(step_row(s, slots, lists));
    const int32_t arena = slots.slot(p.arena_bytes), scratch = slots.slot(p.scratch_bytes);
    for (int64_t w : slots.code()) words.push_back(i64_text(w));
    for (const auto& r : slots.slots()) slot_rows.push_back(Initialiser().add("begin", r.begin).add("end", r.end).str());

    const std::string pre = fmt::format("{}v{}_", prefix_, v);
    Initialiser row;
    row.add("name", emit::c_string(p.name));
    const auto table = [&](const char* member, const char* count, std::string_view type, const std::vector<std::string>& rows,
                           std::string_view dummy = "{}") {
      out_ += array(type, pre + member, rows, dummy);
      row.add(member, pre + member);
      if (count) row.add(count, rows.size());
    };
    table("ranges", nullptr, "aotc_range", ranges);
    table("code", nullptr, "int64_t", words, "0");
    table("slots", "n_slots", "aotc_slot", slot_rows);
    table("buffers", "n_buffers", "aotc_buffer_desc", buffers);
    table("steps", "n_steps", "aotc_step", steps);
    table("args", nullptr, "int32_t", lists.args, "0");
    table("size_slots", nullptr, "int32_t", lists.sizes, "0");
    table("maps", nullptr, "aotc_map_desc", lists.maps);
    row.add("arena_slot", arena).add("scratch_slot", scratch);
    variants_.push_back(row.add("states_from", first_write_of_states(p)).str());
  }

  /// The first step that writes a state where it lies; the number of steps where none does.
  size_t first_write_of_states(const plan::Plan& p) const {
    const auto writes = [&](const plan::Step& s) {
      return std::any_of(s.args.begin(), s.args.end(), [&](plan::PlanBufferId a) {
        if (a == kNone<plan::PlanBufferId> || p.buffers[a].place != plan::Place::state) return false;
        return in_.module.buffers[p.buffers[a].buffer].kind == loop::BufferKind::state_out;
      });
    };
    return static_cast<size_t>(std::find_if(p.steps.begin(), p.steps.end(), writes) - p.steps.begin());
  }

  static std::string map_row(const forms::TensorMap& m, plan::SlotTable& slots) {
    std::vector<int32_t> dims, strides;
    for (const Expr& e : m.dims) dims.push_back(slots.slot(e));
    for (const Expr& e : m.stride_bytes) strides.push_back(slots.slot(e));
    Initialiser row;
    row.add("arg", m.arg).add("dtype", static_cast<uint32_t>(m.dtype)).add("rank", m.dims.size()).add("swizzle_bytes", m.swizzle_bytes);
    row.add("offset_slot", slots.slot(m.offset_bytes)).list("dim_slot", dims).list("stride_slot", strides).list("box", m.box);
    row.add("windows", static_cast<int>(!m.steps.empty())).list("lower", m.lower).list("upper", m.upper);
    return row.list("steps", m.steps).str();
  }

  static int place_kind(plan::Place p) {
    using P = plan::Place;
    constexpr bool same = int(P::input) == AOTC_BUF_INPUT && int(P::output) == AOTC_BUF_OUTPUT && int(P::weight) == AOTC_BUF_WEIGHT &&
                          int(P::arena) == AOTC_BUF_ARENA && int(P::state) == AOTC_BUF_STATE && int(P::state_next) == AOTC_BUF_STATE_NEXT;
    static_assert(same, "the order of plan_format.h");
    return static_cast<int>(p);
  }
  static int step_kind(plan::StepKind k) {
    using S = plan::StepKind;
    constexpr bool same =
        int(S::cpu) == AOTC_STEP_CPU && int(S::cuda) == AOTC_STEP_CUDA && int(S::copy) == AOTC_STEP_COPY && int(S::zero) == AOTC_STEP_ZERO;
    static_assert(same, "the order of plan_format.h");
    return static_cast<int>(k);
  }

  const MethodPlans& in_;
  const Graph& g_;
  const std::vector<SymId>& symbols_;
  plan::SlotTable shared_slots_;
  const size_t number_;
  Shared& shared_;
  const std::string prefix_;
  std::string out_;
  std::vector<std::string> dims_, dim_code_, variants_, hidden_, found_;
};

class Emitter {
 public:
  explicit Emitter(const TableInput& in) : in_(in), shared_(in.methods) {}

  std::string emit() {
    out_ = table_includes() + "\n";
    std::vector<std::string> rows;
    for (size_t m = 0; m < in_.methods.size(); ++m) out_ += MethodEmitter(in_.methods[m], m, shared_).emit(&rows.emplace_back());
    out_ += array("aotc_method_desc", "methods", rows);
    weights();
    states();
    if (in_.target.traits().device_code)
      cuda();
    else
      isas();
    module();
    return std::move(out_);
  }

 private:
  void weights() {
    std::vector<std::string> rows;
    for (const plan::Weight* w : shared_.weights())
      rows.push_back(Initialiser().add("name", emit::c_string(w->name)).add("offset", w->offset).add("bytes", w->bytes).str());
    out_ += array("aotc_weight_desc", "weights", rows);
    if (!in_.weights_symbol.empty() && in_.blob_bytes)
      out_ += fmt::format("extern \"C\" __attribute__((visibility(\"hidden\"))) const unsigned char {}[];\n", in_.weights_symbol);
  }

  void states() {
    std::vector<std::string> rows;
    for (size_t s = 0; s < shared_.states().size(); ++s) {
      const StateInfo& info = *shared_.states()[s].info;
      std::vector<std::string> dims;
      for (const Expr& d : info.type.dims) dims.push_back(i64_text(*d.as_const()));
      out_ += array("int64_t", fmt::format("state{}_dims", s), dims, "0");
      Initialiser row;
      row.add("name", emit::c_string(info.name)).add("dtype", static_cast<uint32_t>(info.type.dtype)).add("rank", info.type.rank());
      row.add("dims", fmt::format("state{}_dims", s)).add("initial_weight", shared_.states()[s].initial);
      rows.push_back(row.add("bytes", *info.type.bytes().as_const()).str());
    }
    out_ += array("aotc_state_desc", "states", rows);
  }

  void declare(const std::string& function) {
    if (declared_.insert(function).second) out_ += fmt::format("extern \"C\" void {}(const aotc_kargs*, int64_t, int64_t);\n", function);
  }
  std::string strips(const forms::Strips& s, Isa isa, size_t method, const std::string& name) {
    for (const forms::StripStage& x : s.stages) declare(kernels::library_symbol(x.symbol, isa));
    return forms::strips_config(s, isa, name, [&](int c) { return config_name(method, c, isa); });
  }
  std::string config_name(size_t method, int config, Isa isa) const {
    return fmt::format("config{}_{}", shared_.config(method, config), isa_name(isa));
  }

  void isas() {
    std::vector<std::string> tables;
    for (const Isa isa : in_.target.isas) {
      std::vector<std::string> functions, configs;
      for (const auto& [symbol, library] : shared_.kernels()) {
        functions.push_back(!library                           ? emit::cpu::kernel_function(symbol, isa)
                            : in_.target.numerics.reproducible ? kernels::reproducible_symbol(symbol, isa)
                                                               : kernels::library_symbol(symbol, isa));
        declare(functions.back());
      }
      uint32_t needs = 0;
      for (size_t m = 0; m < in_.methods.size(); ++m) {
        const MethodPlans& method = in_.methods[m];
        needs |= cpu_needs(method.plans, isa);
        for (size_t c = 0; c < method.plans.configs.size(); ++c) {
          const plan::KernelConfig& k = method.plans.configs[c];
          const std::string name = config_name(m, static_cast<int>(c), isa);
          const std::string defined =
              k.strips ? strips(*k.strips, isa, m, name) : k.choice.form->config(method.module.kernels[k.kernel], k.choice, isa, name);
          out_ += defined;
          configs.push_back(defined.empty() ? "nullptr" : "&" + name);
        }
      }
      const std::string isa_text(isa_name(isa));
      out_ += array("aotc_kernel_fn", "kernels_" + isa_text, functions, "nullptr");
      out_ += array("void* const", "configs_" + isa_text, configs, "nullptr");
      Initialiser row;
      row.add("isa", kIsaEnum[static_cast<int>(isa)]).add("needs", fmt::format("{:#x}u", needs));
      tables.push_back(row.add("kernels", "kernels_" + isa_text).add("configs", "configs_" + isa_text).str());
    }
    out_ += array("aotc_isa_table", "isas", tables);
  }

  /// Code of the user's own that is compiled already has its own name for it.
  static std::string function_of(const MethodPlans& m, const plan::KernelConfig& c) {
    const auto* k = c.joined ? nullptr : std::get_if<loop::LibraryKernel>(&m.module.kernels[c.kernel]);
    if (!k || k->algorithm != "custom") return c.symbol;
    const CustomCuda code = parse_custom_cuda(std::get<std::string>(k->attrs.at(Attr::kind)));
    return code.header.empty() ? code.function : c.symbol;
  }

  void cuda() {
    std::vector<std::string> images, functions;
    for (const CudaImage& i : in_.cuda_images) {
      std::vector<std::string> cubins;
      for (const CubinAt& c : i.cubins) {
        cubins.push_back(fmt::format("{} + {}", c.symbol, c.offset));
        if (declared_.insert(c.symbol).second)
          out_ += fmt::format("extern \"C\" __attribute__((visibility(\"hidden\"))) const unsigned char {}[];\n", c.symbol);
      }
      out_ += array("void* const", "cubins_" + i.sm, cubins, "nullptr");
      const std::string digits = i.sm.substr(i.sm.find('_') + 1);  // "90a"
      const bool suffix = !std::isdigit(static_cast<unsigned char>(digits.back()));
      const int number = std::stoi(digits);
      Initialiser row;
      row.add("sm_major", number / 10).add("sm_minor", number % 10).add("arch_suffix", suffix ? fmt::format("'{}'", digits.back()) : "0");
      images.push_back(row.add("is_ptx", is_ptx(i.sm) ? 1 : 0).add("cubins", "cubins_" + i.sm).str());
    }
    for (const MethodPlans& m : in_.methods)
      for (const plan::KernelConfig& c : m.plans.configs)
        functions.push_back(Initialiser().add("name", emit::c_string(function_of(m, c))).add("max_smem_bytes", c.max_smem_bytes).str());
    n_cuda_kernels_ = functions.size();
    out_ += array("aotc_cuda_image", "cuda_images", images) + array("aotc_cuda_kernel", "cuda_kernels", functions);
  }

  static std::string module_name(size_t part) { return part == 0 ? "aotc_module" : fmt::format("aotc_module_{}", part); }
  static std::string declare_module(size_t part) {
    return fmt::format("extern \"C\" {{ extern __attribute__((visibility(\"hidden\"))) const aotc_module_desc {}; }}\n", module_name(part));
  }

  void module() {
    const bool gpu = in_.target.traits().device_code, last = in_.part + 1 == in_.n_parts;
    const bool embedded = !in_.weights_symbol.empty() && in_.blob_bytes;
    if (in_.part == 0) out_ += fmt::format("static const char metadata[] = {};\n", long_string(in_.metadata_json));
    if (in_.part > 0) out_ += declare_module(in_.part);
    if (!last) out_ += declare_module(in_.part + 1);
    Initialiser row;
    row.add("format", "AOTC_PLAN_FORMAT")
        .add("flags", in_.graphs        ? "AOTC_MODULE_GRAPHS"
                      : in_.own_weights ? "AOTC_MODULE_OWN_WEIGHTS"
                                        : "0");
    row.add("metadata_json", in_.part == 0 ? "metadata" : "nullptr").add("methods", "methods").add("n_methods", in_.methods.size());
    row.add("weights", "weights").add("n_weights", shared_.weights().size());
    row.add("states", "states").add("n_states", shared_.states().size());
    if (gpu) {
      row.add("cuda_images", "cuda_images").add("n_cuda_images", in_.cuda_images.size());
      row.add("cuda_kernels", "cuda_kernels").add("n_cuda_kernels", n_cuda_kernels_);
    } else {
      row.add("isas", "isas").add("n_isas", in_.target.isas.size());
    }
    if (embedded) row.add("weights_begin", in_.weights_symbol);
    row.add("weights_bytes", in_.blob_bytes);
    if (!in_.weights_file.empty()) row.add("weights_file", emit::c_string(in_.weights_file));
    row.add("weights_hash", fmt::format("{}u", in_.weights_hash));
    if (in_.weights_layout) row.add("weights_layout", fmt::format("{}u", in_.weights_layout));
    if (!last) row.add("next", "&" + module_name(in_.part + 1));
    out_ += fmt::format("const aotc_module_desc {} = {};\n", module_name(in_.part), row.str());
  }

  static std::string long_string(const std::string& s) {
    std::string out;
    for (size_t at = 0; at < s.size(); at += 2000) out += "\n  " + emit::c_string(std::string_view(s).substr(at, 2000));
    return out.empty() ? "\"\"" : out;
  }

  const TableInput& in_;
  Shared shared_;
  std::string out_;
  size_t n_cuda_kernels_ = 0;
  std::set<std::string> declared_;
};

}  // namespace

std::string table_includes() {
  std::string text = "#include <stdint.h>\n#include \"aotc/dtype.h\"\n";
  std::set<std::string_view> included;
  for (const kernels::KernelDesc& k : kernels::kKernels)
    if (included.insert(k.abi).second) text += fmt::format("#include \"aotc/detail/{}_abi.h\"\n", k.abi);
  return text + "#include \"aotc/detail/plan_format.h\"\n";
}

std::string emit_tables(const TableInput& in) { return Emitter(in).emit(); }

}  // namespace aotc::artifact
