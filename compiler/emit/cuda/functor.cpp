#include "emit/cuda/functor.h"

#include <algorithm>
#include <set>

#include "emit/cuda/code.h"
#include "loop/quantised.h"

namespace aotc::emit::cuda {

using loop::LoopKernel;
using loop::ParamId;
using loop::ParamRole;

namespace {

/// The end of a functor's head after its first parameters, the point, and the kernel's pointers.
std::string point_and_pointers(const LoopKernel& k, const Names& names, const std::vector<SymId>& size_symbols) {
  std::set<ParamId> written;
  for (const loop::Inst& i : k.insts)
    if (i.kind == loop::InstKind::store) written.insert(i.param);
  std::string out;
  for (size_t v = 0; v < k.outer.size(); ++v) out += fmt::format("const i64 {}, ", names.symbol(k.outer[v].sym));
  out += fmt::format("const i64 {}) const {{\n", names.symbol(k.inner.at(0).sym)) + size_names(size_symbols, k.syms, 4);
  for (uint32_t p = 0; p < k.params.size(); ++p) {
    const ParamId id = static_cast<ParamId>(p);
    if (!loop::takes_argument(k.params[id].role)) continue;
    out += fmt::format("    {0}{1}* const p{2} = static_cast<{0}{1}*>(a.ptr[{2}]);  // {3}\n", written.count(id) ? "" : "const ",
                       c_type(k.params[id].dtype), p, c_comment(k.params[id].name));
  }
  return out;
}

/// The head and the code of a functor's operator(); `special`: the role of the parameter that is the C variable `variable`; one more that
/// follows is `twin`.
std::string body(const LoopKernel& k, const std::string& head, const std::vector<SymId>& size_symbols, ParamRole special,
                 const std::string& variable, const std::set<loop::InstId>& held = {}) {
  const Names names(k, size_symbols);
  std::string out = fmt::format("  AOTC_DI {}", head) + point_and_pointers(k, names, size_symbols);
  AccessRules rules;
  rules.wide = [&](loop::InstId i) { return held.count(i) ? "held." + names.inst(i) : std::string(); };
  rules.place = [&](ParamId p, const Expr&) -> std::string {
    if (k.params[p].role != special) return {};
    return idx(p) > 0 && k.params[static_cast<ParamId>(idx(p) - 1)].role == special ? "twin" : variable;
  };
  rules.reduce = [&](loop::InstId) -> std::string { throw InternalError("a loop of a contraction holds a reduction"); };
  for (const loop::Block& b : k.blocks) out += code_of(b.insts, names, rules, 4);
  return out;
}

/// Loads that depend on nothing but the point.
std::set<loop::InstId> loads_of_point(const LoopKernel& k) {
  std::set<loop::InstId> out;
  for (size_t n = 0; n < k.insts.size(); ++n) {
    const loop::Inst& i = k.insts.raw()[n];
    if (i.kind != loop::InstKind::load || k.params[i.param].role != ParamRole::input || i.mask != kNone<loop::InstId>) continue;
    const std::set<SymId> symbols = i.index.symbols();
    if (std::none_of(symbols.begin(), symbols.end(), [&](SymId s) { return k.syms[s].kind == SymKind::value; }))
      out.insert(static_cast<loop::InstId>(n));
  }
  return out;
}

/// struct Held { .. } and Held ahead(outer0, .., inner) const.
std::string ahead(const LoopKernel& k, const std::vector<SymId>& size_symbols, const std::set<loop::InstId>& held) {
  const Names names(k, size_symbols);
  std::string members, loads;
  for (loop::InstId id : held) {
    const loop::Inst& i = k.insts[id];
    members += fmt::format(" {} {};", c_type(i.dtype), names.inst(id));
    loads += fmt::format("    held.{} = {}[{}];\n", names.inst(id), names.param(i.param), names.expr(i.index));
  }
  return fmt::format("  struct Held {{{} }};\n  AOTC_DI Held ahead(", members) + point_and_pointers(k, names, size_symbols) +
         "    Held held;\n" + loads + "    return held;\n  }\n";
}
}  // namespace

std::string epilogue_functor(const LoopKernel& e, DType acc, const std::string& name, const std::string& args,
                             const std::vector<SymId>& size_symbols, bool loads_ahead) {
  size_t sums = 0;
  for (const loop::Param& p : e.params) sums += p.role == ParamRole::acc;
  const std::string twin = sums > 1 ? fmt::format("const {} twin, ", c_type(acc)) : "";
  const std::set<loop::InstId> held = loads_ahead ? loads_of_point(e) : std::set<loop::InstId>{};
  const std::string head = fmt::format("void operator()(const {} acc, {}{}", c_type(acc), twin, loads_ahead ? "const Held& held, " : "");
  return fmt::format("struct {} {{\n  const {}& a;\n", name, args) + (loads_ahead ? ahead(e, size_symbols, held) : "") +
         body(e, head, size_symbols, ParamRole::acc, "acc", held) + "  }\n};\n";
}

std::string prologue_functor(const LoopKernel& p, DType operand, const std::string& name, const std::string& args,
                             const std::vector<SymId>& size_symbols) {
  std::string text = body(p, fmt::format("{} operator()(", c_type(operand)), size_symbols, ParamRole::operand, "element");
  const size_t open = text.find("{\n");
  text.insert(open + 2, fmt::format("    {} element;\n", c_type(operand)));
  return fmt::format("struct {} {{\n  const {}& a;\n", name, args) + text + "    return element;\n  }\n};\n";
}

std::string size_names(const std::vector<SymId>& size_symbols, const SymTable& syms, int indent) {
  std::string out;
  for (size_t s = 0; s < size_symbols.size(); ++s)
    out += fmt::format("{}const i64 s{} = a.size[{}];  // {}\n", std::string(static_cast<size_t>(indent), ' '), idx(size_symbols[s]), s,
                       c_comment(syms[size_symbols[s]].name));
  return out;
}

std::string size_text(const Expr& e, const SymTable& syms) {
  return c_expr(syms.simplify(e), syms, [](SymId s) { return fmt::format("s{}", idx(s)); });
}

std::string prefetches_beside(const loop::MatmulKernel& k, int threads) {
  constexpr int64_t kMostBytes = 64 << 10, kLine = 128;
  std::string out;
  for (size_t p = 0; p < k.params.size(); ++p) {
    const ParamId id = static_cast<ParamId>(p);
    const loop::Param& param = k.params[id];
    const auto elems = product(param.dims).as_const();
    const auto part_of = [&](const std::optional<loop::QuantisedWeight>& q) {
      if (!q) return false;
      const auto all = loop::params_of(*q);
      return std::find(all.begin(), all.end(), id) != all.end();
    };
    const bool few_bits = part_of(k.b_quantised) || part_of(k.twin_quantised);
    const bool operand = id == k.a.param || id == k.b.param || (k.twin && id == k.twin->param) || few_bits;
    if (param.role != ParamRole::input || operand || !elems || *elems * dtype_bytes(param.dtype) > kMostBytes) continue;
    out += fmt::format(
        "    for (i64 at = threadIdx.x * {0}; at < {1}; at += {2} * {0}) prefetch_line(static_cast<const char*>(a.ptr[{3}]) + at);\n",
        kLine, *elems * dtype_bytes(param.dtype), threads, p);
  }
  return out.empty() ? out : "  if (blockIdx.x == 0) {\n" + out + "  }\n";
}

std::string row_blocks(const loop::MatmulKernel& k, int rows) {
  if (!k.runs) return fmt::format("imax((m + {}) / {}, 1)", rows - 1, rows);
  return fmt::format("imax(m / {} + imin(m, {}), 1)", rows, size_text(k.runs->count, k.syms));
}

std::string rows_of_run(const loop::MatmulKernel& k, int rows) {
  if (!k.runs) return {};
  return fmt::format(
      "  const RunRows run = run_rows<{}>(static_cast<const i64*>(a.ptr[{}]), {}, m, row);\n  if (run.begin >= run.end) return;\n", rows,
      idx(k.runs->ends), size_text(k.runs->count, k.syms));
}

std::string constants_function(const char* name, const Ints& values) {
  std::string out = fmt::format("  static AOTC_DI constexpr int {}(int d) {{ return ", name);
  for (size_t d = 0; d + 1 < values.size(); ++d) out += fmt::format("d == {} ? {} : ", d, values[d]);
  return out + fmt::format("{}; }}\n", values.back());
}

std::string wait_first() { return "  next_step_may_start();\n  wait_for_step_before();\n"; }

std::string global_function(const std::string& symbol, int cluster, int threads, int resident, const std::string& body) {
  return function_head(symbol, cluster, threads, resident) + body + "}\n";
}

std::string function_head(const std::string& symbol, int cluster, int threads, int resident) {
  if (cluster == 1) return fmt::format("AOTC_KERNEL({}, {}, {}) {{\n", threads, resident, symbol);
  return fmt::format("extern \"C\" __global__ void AOTC_CLUSTER({}) __launch_bounds__({}, {}) {}(const __grid_constant__ {}_args a) {{\n",
                     cluster, threads, resident, symbol, symbol);
}

}  // namespace aotc::emit::cuda
