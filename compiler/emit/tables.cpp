#include "emit/tables.h"

#include <fmt/ranges.h>

#include <map>
#include <set>

#include "aotc/detail/cpu_features.h"
#include "aotc/detail/plan_format.h"
#include "base/parts.h"
#include "emit/c_string.h"
#include "emit/cpu/module.h"
#include "emit/versions.h"
#include "kernels/cpu/catalog.h"
#include "plan/slots.h"

namespace aotc::emit {
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

class Emitter {
 public:
  explicit Emitter(const TableInput& in) : in_(in), g_(in.graph), symbols_(in.plans.symbols), shared_slots_(symbols_) {}

  std::string emit() {
    out_ =
        "#include <stdint.h>\n#include \"aotc/dtype.h\"\n#include \"aotc/detail/library_abi.h\"\n#include "
        "\"aotc/detail/plan_format.h\"\n\n";
    io();
    symbols();
    guards();
    for (size_t v = 0; v < in_.plans.plans.size(); ++v) variant(v);
    variants();
    weights();
    states();
    if (in_.target.is_gpu())
      cuda();
    else
      isas();
    module();
    return std::move(out_);
  }

 private:
  struct Code {
    uint32_t begin, end;
  };
  Code code(const Expr& e) {
    const std::vector<int64_t> words = shared_slots_.encode(e);
    const Code c{static_cast<uint32_t>(dim_code_.size()), static_cast<uint32_t>(dim_code_.size() + words.size())};
    for (int64_t w : words) dim_code_.push_back(i64_text(w));
    return c;
  }

  std::string dim(const Expr& e) {
    if (auto c = e.as_const()) return fmt::format("{{{0}, {0}, {0}, {1}, 0, 0}}", *c, c_string(std::to_string(*c)));
    const Interval range = g_.syms.interval(e);
    const Code c = code(e);
    return fmt::format("{{-1, {}, {}, {}, {}, {}}}", i64_text(std::max<int64_t>(range.min, 0)), i64_text(range.max),
                       c_string(e.str(g_.syms)), c.begin, c.end);
  }

  std::string io_row(const std::string& name, const TensorType& t, int32_t alias) {
    const size_t first = dims_.size();
    for (const Expr& d : t.dims) dims_.push_back(dim(d));
    return fmt::format("{{{}, {}, {}, {}, {}}}", c_string(name), static_cast<uint32_t>(t.dtype), t.rank(), first, alias);
  }

  void io() {
    std::vector<std::string> inputs, outputs;
    for (const InputInfo& i : g_.inputs) inputs.push_back(io_row(i.name, g_.type(i.value), -1));
    for (const OutputInfo& o : g_.outputs) outputs.push_back(io_row(o.name, g_.type(o.value), o.alias_input));
    out_ += array("aotc_io_desc", "inputs", inputs) + array("aotc_io_desc", "outputs", outputs) + array("aotc_dim_desc", "dims", dims_);
  }

  /// The dimension from which a symbol is read: alone if there is one, else affine in it and in nothing else.
  std::string symbol_row(SymId s) {
    const SymInfo& info = g_.syms[s];
    for (const bool alone : {true, false})
      for (size_t i = 0; i < g_.inputs.size(); ++i) {
        const TensorType& t = g_.type(g_.inputs[i].value);
        for (int d = 0; d < t.rank(); ++d) {
          const Expr& e = t.dims[static_cast<size_t>(d)];
          const std::optional<Expr> mul = e.linear_coefficient(s);
          if (!mul || !mul->as_const() || mul->is(0)) continue;
          const std::optional<int64_t> add = (e - *mul * Expr::symbol(s)).as_const();
          if (!add || (alone && (!mul->is(1) || *add != 0))) continue;
          return fmt::format("{{{}, {}, {}, {}, {}, {}, {}, {}}}", c_string(info.name), i, d, *mul->as_const(), *add, i64_text(info.min),
                             i64_text(info.max), info.multiple_of);
        }
      }
    throw Diagnostic(ExitCode::unsupported, {}, fmt::format("the size '{}' cannot be read from any input's dimensions", info.name))
        .note("it depends on data (nonzero, item() ...) or only occurs in a product; fix it in shapes.json");
  }

  void symbols() {
    std::vector<std::string> rows;
    for (SymId s : symbols_) rows.push_back(symbol_row(s));
    out_ += array("aotc_symbol_desc", "symbols", rows);
  }

  void guards() {
    std::vector<std::string> rows;
    for (const ShapeGuard& s : g_.guards) {
      const Code a = code(s.a), b = code(s.b);
      rows.push_back(fmt::format("{{{}, {}, {}, {}, {}, {}}}", static_cast<int>(s.kind), a.begin, a.end, b.begin, b.end, c_string(s.why)));
    }
    out_ += array("aotc_guard_desc", "guards", rows) + array("int64_t", "dim_code", dim_code_, "0");
  }

  /// Number of a step's kernel in the function tables.
  int32_t kernel_number(const plan::Step& s) {
    if (s.kind == plan::StepKind::cuda) return s.config;
    if (s.kind != plan::StepKind::cpu) return -1;
    auto [it, fresh] = kernel_number_.emplace(s.symbol, static_cast<int32_t>(kernels_.size()));
    if (fresh) kernels_.push_back({s.symbol, s.library});
    return it->second;
  }

  void variant(size_t v) {
    const plan::Plan& p = in_.plans.plans[v];
    plan::SlotTable slots(symbols_);
    std::vector<std::string> ranges, buffers, steps, args, sizes, maps;
    for (SymId s : symbols_) {
      const SymInfo& info = g_.syms[s];
      plan::SymRange r{s, info.min, info.max, info.multiple_of};
      for (const plan::SymRange& narrowed : p.ranges)
        if (narrowed.sym == s) r = narrowed;
      ranges.push_back(fmt::format("{{{}, {}, {}}}", i64_text(r.min), i64_text(r.max), r.multiple_of));
    }
    for (const plan::PlannedBuffer& b : p.buffers)
      buffers.push_back(fmt::format("{{{}, {}, {}, {}}}", place_kind(b.place), b.index, slots.slot(b.bytes),
                                    b.place == plan::Place::arena ? slots.slot(b.offset) : -1));
    for (const plan::Step& s : p.steps) {
      const size_t first_arg = args.size(), first_size = sizes.size(), first_map = maps.size();
      for (plan::PlanBufferId a : s.args) args.push_back(std::to_string(idx(a)));
      for (const Expr& e : s.sizes) sizes.push_back(std::to_string(slots.slot(e)));
      for (const forms::TensorMap& m : s.maps) maps.push_back(map_row(m, slots));
      const bool cuda = s.kind == plan::StepKind::cuda;
      steps.push_back(fmt::format("{{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {{{}, {}, {}}}, {{{}, {}, {}}}, {}, {}, {}, {}, {}}}",
                                  step_kind(s.kind), kernel_number(s), first_arg, s.args.size(), first_size, s.sizes.size(),
                                  cuda ? -1 : s.config, slots.slot(s.work), slots.slot(s.grain),
                                  s.scratch_bytes.is(0) ? -1 : slots.slot(s.scratch_bytes), cuda ? slots.slot(s.grid[0]) : -1,
                                  cuda ? slots.slot(s.grid[1]) : -1, cuda ? slots.slot(s.grid[2]) : -1, s.block[0], s.block[1], s.block[2],
                                  cuda && !s.smem_bytes.is(0) ? slots.slot(s.smem_bytes) : -1, first_map, s.maps.size(),
                                  static_cast<int>(s.overlaps), c_string(s.label)));
    }
    const int32_t arena = slots.slot(p.arena_bytes), scratch = slots.slot(p.scratch_bytes);
    std::vector<std::string> words, slot_rows;
    for (int64_t w : slots.code()) words.push_back(i64_text(w));
    for (const auto& r : slots.slots()) slot_rows.push_back(fmt::format("{{{}, {}}}", r.begin, r.end));
    const std::string pre = fmt::format("v{}_", v);
    out_ += array("aotc_range", pre + "ranges", ranges) + array("int64_t", pre + "code", words, "0") +
            array("aotc_slot", pre + "slots", slot_rows) + array("aotc_buffer_desc", pre + "buffers", buffers) +
            array("int32_t", pre + "args", args, "0") + array("int32_t", pre + "sizes", sizes, "0") +
            array("aotc_map_desc", pre + "maps", maps) + array("aotc_step", pre + "steps", steps);
    variants_.push_back(fmt::format("{{{}, {}ranges, {}code, {}slots, {}, {}buffers, {}, {}steps, {}, {}args, {}sizes, {}maps, {}, {}}}",
                                    c_string(p.name), pre, pre, pre, slot_rows.size(), pre, buffers.size(), pre, steps.size(), pre, pre,
                                    pre, arena, scratch));
  }

  static std::string map_row(const forms::TensorMap& m, plan::SlotTable& slots) {
    std::vector<int32_t> dims, strides;
    for (const Expr& e : m.dims) dims.push_back(slots.slot(e));
    for (const Expr& e : m.stride_bytes) strides.push_back(slots.slot(e));
    return fmt::format("{{{}, {}, {}, {}, {}, {{{}}}, {{{}}}, {{{}}}, {}, {{{}}}, {{{}}}, {{{}}}}}", m.arg, static_cast<uint32_t>(m.dtype),
                       m.dims.size(), m.swizzle_bytes, slots.slot(m.offset_bytes), fmt::join(dims, ", "), fmt::join(strides, ", "),
                       fmt::join(m.box, ", "), static_cast<int>(!m.steps.empty()), fmt::join(m.lower, ", "), fmt::join(m.upper, ", "),
                       fmt::join(m.steps, ", "));
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

  void variants() { out_ += array("aotc_variant", "variants", variants_); }

  void weights() {
    std::vector<std::string> rows;
    for (const plan::Weight& w : in_.plans.weights) rows.push_back(fmt::format("{{{}, {}u, {}u}}", c_string(w.name), w.offset, w.bytes));
    out_ += array("aotc_weight_desc", "weights", rows);
    if (!in_.weights_symbol.empty() && in_.blob_bytes)
      out_ += fmt::format("extern \"C\" __attribute__((visibility(\"hidden\"))) const unsigned char {}[];\n", in_.weights_symbol);
  }

  void states() {
    std::vector<std::string> rows;
    for (uint32_t s = 0; s < g_.states.size(); ++s) {
      const StateInfo& info = g_.states[static_cast<StateId>(s)];
      std::vector<std::string> dims;
      for (const Expr& d : info.type.dims) dims.push_back(i64_text(*d.as_const()));
      out_ += array("int64_t", fmt::format("state{}_dims", s), dims, "0");
      const int initial = s < in_.plans.state_initial.size() ? in_.plans.state_initial[s] : -1;
      rows.push_back(fmt::format("{{{}, {}, {}, state{}_dims, {}, {}u}}", c_string(info.name), static_cast<uint32_t>(info.type.dtype),
                                 info.type.rank(), s, initial, *info.type.bytes().as_const()));
    }
    out_ += array("aotc_state_desc", "states", rows);
  }

  void isas() {
    std::vector<std::string> tables;
    for (const Isa isa : in_.target.isas) {
      std::vector<std::string> functions, configs;
      for (const auto& [symbol, library] : kernels_) {
        functions.push_back(library ? kernels::library_symbol(symbol, isa) : cpu::kernel_function(symbol, isa));
        if (declared_.insert(functions.back()).second)
          out_ += fmt::format("extern \"C\" void {}(const aotc_kargs*, int64_t, int64_t);\n", functions.back());
      }
      for (size_t c = 0; c < in_.plans.configs.size(); ++c) {
        const plan::KernelConfig& k = in_.plans.configs[c];
        const std::string name = fmt::format("config{}_{}", c, isa_name(isa));
        out_ += k.choice.form->config(in_.module.kernels[k.kernel], k.choice, isa, name);
        configs.push_back("&" + name);
      }
      const std::string isa_text(isa_name(isa));
      out_ += array("aotc_kernel_fn", "kernels_" + isa_text, functions, "nullptr");
      out_ += array("void* const", "configs_" + isa_text, configs, "nullptr");
      tables.push_back(fmt::format("{{{}, {:#x}u, kernels_{}, configs_{}}}", kIsaEnum[static_cast<int>(isa)], cpu_needs(in_.plans, isa),
                                   isa_text, isa_text));
    }
    out_ += array("aotc_isa_table", "isas", tables);
  }

  void cuda() {
    std::vector<std::string> images, functions;
    for (const CudaImage& i : in_.cuda_images) {
      out_ += fmt::format("extern \"C\" __attribute__((visibility(\"hidden\"))) const unsigned char {}[];\n", i.symbol);
      const std::string digits = i.sm.substr(i.sm.find('_') + 1);  // "90a"
      const bool suffix = !std::isdigit(static_cast<unsigned char>(digits.back()));
      const int number = std::stoi(digits);
      images.push_back(fmt::format("{{{}, {}, {}, {}, {}u, {}}}", number / 10, number % 10,
                                   suffix ? fmt::format("'{}'", digits.back()) : "0", i.symbol, i.bytes, is_ptx(i.sm) ? 1 : 0));
    }
    for (const plan::KernelConfig& c : in_.plans.configs)
      functions.push_back(fmt::format("{{{}, {}}}", c_string(c.symbol), c.max_smem_bytes));
    out_ += array("aotc_cuda_image", "cuda_images", images) + array("aotc_cuda_kernel", "cuda_kernels", functions);
  }

  static std::string module_name(size_t part) { return part == 0 ? "aotc_module" : fmt::format("aotc_module_{}", part); }
  static std::string declare_module(size_t part) {
    return fmt::format("extern \"C\" {{ extern __attribute__((visibility(\"hidden\"))) const aotc_module_desc {}; }}\n", module_name(part));
  }

  void module() {
    const bool gpu = in_.target.is_gpu(), last = in_.part + 1 == in_.n_parts;
    const bool embedded = !in_.weights_symbol.empty() && in_.blob_bytes;
    if (in_.part == 0) out_ += fmt::format("static const char metadata[] = {};\n", long_string(in_.metadata_json));
    if (in_.part > 0) out_ += declare_module(in_.part);
    if (!last) out_ += declare_module(in_.part + 1);
    out_ += fmt::format(
        "const aotc_module_desc {} = {{\n  AOTC_PLAN_FORMAT, {}, {}, inputs, outputs, {}, {}, dims, dim_code, symbols, {}, "
        "guards, {},\n"
        "  variants, {}, weights, {}, states, {}, {}, {}, {}, {}, {}, {}, {}, {}u, {}, {}u, {}}};\n",
        module_name(in_.part), in_.graphs ? "AOTC_MODULE_GRAPHS" : "0", in_.part == 0 ? "metadata" : "nullptr", g_.inputs.size(),
        g_.outputs.size(), symbols_.size(), g_.guards.size(), in_.plans.plans.size(), in_.plans.weights.size(), g_.states.size(),
        gpu ? "nullptr" : "isas", gpu ? 0 : in_.target.isas.size(), gpu ? "cuda_images" : "nullptr", in_.cuda_images.size(),
        gpu ? "cuda_kernels" : "nullptr", (gpu ? in_.plans.configs.size() : 0), embedded ? in_.weights_symbol : "nullptr", in_.blob_bytes,
        in_.weights_file.empty() ? "nullptr" : c_string(in_.weights_file), in_.weights_hash,
        last ? "nullptr" : "&" + module_name(in_.part + 1));
  }

  static std::string long_string(const std::string& s) {
    std::string out;
    for (size_t at = 0; at < s.size(); at += 2000) out += "\n  " + c_string(std::string_view(s).substr(at, 2000));
    return out.empty() ? "\"\"" : out;
  }

  const TableInput& in_;
  const Graph& g_;
  const std::vector<SymId>& symbols_;
  plan::SlotTable shared_slots_;
  std::string out_;
  std::vector<std::string> dims_, dim_code_, variants_;
  std::map<std::string, int32_t> kernel_number_;
  std::vector<std::pair<std::string, bool>> kernels_;
  std::set<std::string> declared_;
};

}  // namespace

std::string emit_tables(const TableInput& in) { return Emitter(in).emit(); }

}  // namespace aotc::emit
