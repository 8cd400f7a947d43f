// Fused loops of which a block, or a warp, takes a row at a time.
#include <algorithm>
#include <set>

#include "emit/cuda/functor.h"
#include "emit/cuda/loop_emitter.h"

namespace aotc::emit::cuda {

using loop::Inst;
using loop::InstId;
using loop::InstKind;
using loop::LoopKernel;
using loop::LoopVar;
using loop::ParamId;
using loop::ParamRole;

std::string LoopEmitter::emit_rows(const std::string& args, bool apart) {
  size_t n_ptr = 0;
  std::string pointers, to, type;
  for (uint32_t p = 0; p < k_.params.size(); ++p) {
    const loop::Param& param = k_.params[static_cast<ParamId>(p)];
    if (param.role == ParamRole::operand) to = names_.param(static_cast<ParamId>(p)), type = c_type(param.dtype);
    if (!loop::takes_argument(param.role)) continue;
    pointers += fmt::format("  const {0}* const p{1} = static_cast<const {0}*>(a.ptr[{2}]);  // {3}\n", c_type(param.dtype), p, n_ptr++,
                            c_comment(param.name));
  }
  std::string out = fmt::format("{} void {}(const {}& a, {}* const {}) {{\n", apart ? "AOTC_APART" : "AOTC_DI", symbol_, args, type, to);
  out += size_names(symbols_, k_.syms, 2) + pointers;
  out += "  const i64 inner_points = " + points(k_.inner) + ", outer_points = " + points(k_.outer) + ";\n";
  if (launch_.lanes > 1) out += fmt::format("  if ({}) {{\n{}  return;\n  }}\n", aligned(), rows(true, "0", "1"));
  return out + rows(false, "0", "1") + "}\n";
}

std::string LoopEmitter::row() {
  const std::optional<int64_t> inner = k_.syms.simplify(k_.inner_points()).as_const();
  const bool once = inner && *inner <= launch_.threads;
  std::string out = "  const i64 inner_points = " + (once ? "unknown(" + points(k_.inner) + ")" : points(k_.inner)) +
                    ", outer_points = " + points(k_.outer) + ";\n";
  if (launch_.blocks > 1) out += "  const i64 end_point = first_point + part < inner_points ? first_point + part : inner_points;\n";
  const std::string blocks = launch_.blocks > 1 ? fmt::format(" / {}", launch_.blocks) : "";
  const std::string first =
      launch_.rows == 1 ? "blockIdx.x" + blocks : fmt::format("blockIdx.x * i64({}) + threadIdx.x / 32", launch_.rows);
  const std::string by = launch_.rows == 1 ? "gridDim.x" + blocks : fmt::format("gridDim.x * i64({})", launch_.rows);
  if (launch_.lanes > 1) out += fmt::format("  if ({}) {{\n{}  return;\n  }}\n", aligned(), rows(true, first, by));
  return out + rows(launch_.lanes == 1 && launch_.steps, first, by);
}

std::string LoopEmitter::row_registers() {
  std::string out;
  for (uint32_t p = 0; p < k_.params.size(); ++p)
    if (k_.params[static_cast<ParamId>(p)].role == ParamRole::local)
      out +=
          fmt::format("    Wide<{}, {}> p{}_row[{}];\n", c_type(k_.params[static_cast<ParamId>(p)].dtype), launch_.lanes, p, launch_.steps);
  for (const loop::Block& b : k_.blocks)
    for (InstId id : b.insts) {
      const Inst& i = k_.insts[id];
      if (b.over_inner && i.kind == InstKind::load && k_.params[i.param].role == ParamRole::input && wide(id) && kept(id) == id &&
          !of_all_rows(id))
        out += fmt::format("    Wide<{}, {}> w{}[{}];\n", c_type(i.dtype), launch_.lanes, idx(id), launch_.steps);
    }
  return out;
}

bool LoopEmitter::comes_first(InstId id) const {
  const Inst& i = k_.insts[id];
  return prologue_ && !scans_ && i.kind == InstKind::load && k_.params[i.param].role == ParamRole::input && i.mask == kNone<InstId> &&
         wide(id) && kept(id) == id;
}

std::string LoopEmitter::load_of_step(InstId id) const {
  const Inst& i = k_.insts[id];
  return fmt::format("      w{}[step] = load_wide<{}, {}>({} + {});\n", idx(id), c_type(i.dtype), launch_.lanes, names_.param(i.param),
                     names_.expr(i.index));
}

std::string LoopEmitter::first_loads() {
  std::string loads;
  for (const loop::Block& b : k_.blocks)
    for (InstId id : b.insts)
      if (b.over_inner && comes_first(id)) loads += load_of_step(id);
  return loads.empty() ? loads : step_begin() + loads + "    }\n";
}

std::string LoopEmitter::rows(bool wide, const std::string& first, const std::string& by) {
  std::string out = wide && launch_.steps && launch_.rows > 1 ? shared_by_rows() : std::string();
  out += fmt::format("  for (i64 outer = {}; outer < outer_points; outer += {}) {{\n", first, by);
  out += decode(k_.outer, "outer", 4);
  if (wide && launch_.steps) out += row_registers() + first_loads();
  std::set<InstId> inverted;
  for (const loop::Block& b : k_.blocks) {
    if (!b.over_inner) {
      out += code_of(b.insts, names_, rules(is_first()), 4);
      continue;
    }
    const std::vector<InstId> reduces = of_kind(b, InstKind::reduce);
    out += declare_accumulators(reduces, 4) + reciprocals(b, 4, inverted);
    if (const std::vector<InstId> running = of_kind(b, InstKind::scan); !running.empty()) {
      out += scans(b, running);
    } else if (!wide) {
      out += fmt::format("    for (i64 inner = {}{}; inner < {}; inner += {}) {{\n", begin(), thread(), end(), launch_.threads);
      out += decode(k_.inner, "inner", 6);
      out += code_of(b.insts, names_, rules(""), 6) + "    }\n";
    } else if (launch_.steps) {
      out += step_begin() + group(b.insts, "inner", 6) + "    }\n";
    } else {
      out += fmt::format("    for (i64 inner = {}i64({}) * {}; inner < {}; inner += {}) {{\n", begin(), thread(), launch_.lanes, end(),
                         launch_.threads * launch_.lanes);
      out += decode(k_.inner, "inner", 6) + group(b.insts, "inner", 6) + "    }\n";
    }
    if (scans_) out += "    __syncthreads();\n";  // points of a row's scratch are not always one thread's
    out += read_accumulators(reduces, true, 4);
  }
  if (launch_.blocks > 1) out += fmt::format("    if (outer + {} < outer_points) cluster_barrier();\n", by);
  return out + (launch_.rows == 1 && launch_.blocks == 1 ? "    __syncthreads();\n  }\n" : "  }\n");
}

std::string LoopEmitter::step_begin() {
  const int64_t points = k_.syms.simplify(k_.inner_points()).as_const().value_or(0), of_all = int64_t{launch_.threads} * launch_.lanes;
  std::string out = fmt::format("#pragma unroll\n    for (int step = 0; step < {}; ++step) {{\n", launch_.steps);
  out += fmt::format("      const i64 inner = {}(step * {} + static_cast<int>({})) * {};\n", begin(), launch_.threads, thread(),
                     launch_.lanes);
  if (points != of_all * launch_.blocks * launch_.steps) out += fmt::format("      if (inner >= {}) continue;\n", end());
  return out + decode(k_.inner, "inner", 6);
}

bool LoopEmitter::of_all_rows(InstId id) const {
  const Inst& i = k_.insts[id];
  if (launch_.rows == 1 || !launch_.steps || i.kind != InstKind::load || i.mask != kNone<InstId> ||
      k_.params[i.param].role != ParamRole::input || !wide(id) || kept(id) != id)
    return false;
  const auto symbols = k_.syms.simplify(i.index).symbols();
  return std::none_of(k_.outer.begin(), k_.outer.end(), [&](const LoopVar& v) { return symbols.count(v.sym) != 0; });
}

std::string LoopEmitter::shared_by_rows() {
  std::string held, loads;
  for (const loop::Block& b : k_.blocks)
    for (InstId id : b.insts) {
      if (!b.over_inner || !of_all_rows(id)) continue;
      const Inst& i = k_.insts[id];
      held += fmt::format("    Wide<{}, {}> w{}[{}];\n", c_type(i.dtype), launch_.lanes, idx(id), launch_.steps);
      loads += load_of_step(id);
    }
  return held.empty() ? held : held + step_begin() + loads + "    }\n";
}

int neighbours_of_scan(int64_t extent, int threads) { return extent >= 8 * threads ? 8 : extent >= 4 * threads ? 4 : 1; }

/// Scans of which the lanes of a warp have neighbours, so that a warp's accesses are neighbours, too. Where combining costs more than that
/// gains, a thread has neighbours: a warp's scan combines each value several times.
static bool by_lanes(const LoopKernel& k, const std::vector<InstId>& running) {
  return std::none_of(running.begin(), running.end(), [&](InstId id) { return k.insts[id].reduce_kind == ReduceKind::logsumexp; });
}

std::string LoopEmitter::scans(const loop::Block& b, const std::vector<InstId>& running) {
  // A warp has neighbours: first they are combined, then each, from what comes before the warp's on (or a thread's, see by_lanes). Before
  // the second of two scans of a body the first one's results are computed once more. Blocks that share a row take theirs of it at once.
  const Expr extent = k_.inner.back().extent;
  const bool cluster = launch_.blocks > 1, lanes = by_lanes(k_, running);
  const int each = cluster ? launch_.each : neighbours_of_scan(k_.syms.hint(extent), launch_.threads);
  const std::string along = names_.expr(extent);
  const auto name = [](const std::string& of, InstId id) { return of + std::to_string(idx(id)); };
  const std::string first = lanes ? fmt::format("i64(threadIdx.x & ~31u) * {} + e * 32 + (threadIdx.x & 31)", each)
                                  : fmt::format("i64(threadIdx.x) * {} + e", each);
  const auto neighbours = [&](const std::vector<InstId>& insts, const AccessRules& r) {
    constexpr int kUnrolled = 16;
    std::string out = fmt::format("#pragma unroll {}\n        for (int e = 0; e < {}; ++e) {{\n", std::min(each, kUnrolled), each);
    out += fmt::format("          const i64 at_line = {} + {};\n", cluster ? "first_point" : "from", first);
    out += fmt::format("          const bool inside = at_line < {};\n", cluster ? "end_point" : "along");
    out += fmt::format("          const i64 inner = {}(inside ? at_line : along - 1);\n", cluster ? "" : "part * along + ");
    return out + decode(k_.inner, "inner", 10) + code_of(insts, names_, r, 10) + "        }\n";
  };
  /// Combines a scan's value into `acc`; `said`: and says what the scan is there.
  const auto combine = [&](InstId id, const std::string& acc, bool said) {
    const std::string red = reducer(k_, k_.insts[id]), value = fmt::format("inside ? {} : {}::init()", reduced(id), red);
    const bool in_order = lanes && (said || is_arg(k_.insts[id].reduce_kind));
    const std::string here = in_order ? name("here", id) : acc;
    std::string out = in_order
                          ? fmt::format("const {0}::V {1} = {0}::combine({2}, scan_of_lanes<{0}>({3}, 32)); {2} = shuffle_of({1}, 31);",
                                        red, here, acc, value)
                          : fmt::format("{0} = {1}::combine({0}, {2});", acc, red, value);
    if (said) out += fmt::format(" const {} {} = {};", c_type(k_.insts[id].dtype), names_.inst(id), result(id, here));
    return out;
  };
  /// What comes before the thread's neighbours, or before its warp's, of a scan that has combined them into t.
  const auto before = [&](InstId id) {
    const std::string red = reducer(k_, k_.insts[id]), t = name("t", id);
    std::string of = t;
    if (lanes) of = is_arg(k_.insts[id].reduce_kind) ? t : fmt::format("of_lanes<{}>({})", red, t);
    if (lanes) of = fmt::format("in_first_lane<{}>({})", red, of);
    const std::string all = cluster
                                ? fmt::format("row_scan_before<{}, {}, {}>({}, {})", red, launch_.threads, launch_.blocks, next_place(), of)
                                : fmt::format("block_scan_before<{}, {}, {}>({}, {})", red, launch_.threads, slot_++, name("r", id), of);
    return lanes ? fmt::format("shuffle_of({}, 0)", all) : all;
  };
  std::string out = cluster
                        ? fmt::format("    if (const i64 along = {}; along > 0) {{\n", along)
                        : fmt::format("    for (i64 part = 0, along = {}; along > 0 && part < inner_points / along; ++part) {{\n", along);
  if (!cluster) out += declare_accumulators(running, 6);
  out += cluster ? "      {\n" : fmt::format("      for (i64 from = 0; from < along; from += {}) {{\n", launch_.threads * each);
  for (InstId scan : running) {
    std::vector<InstId> earlier;
    for (InstId id : b.insts) {
      const InstKind kind = k_.insts[id].kind;
      if (kind != InstKind::store && kind != InstKind::check && kind != InstKind::reduce) earlier.push_back(id);
      if (id == scan) break;
      if (kind == InstKind::scan)
        out += fmt::format("        {}::V {} = {};\n", reducer(k_, k_.insts[id]), name("q" + std::to_string(idx(scan)) + "_", id),
                           name("b", id));
    }
    const std::string red = reducer(k_, k_.insts[scan]);
    out += fmt::format("        {0}::V {1} = {0}::init();\n", red, name("t", scan));
    AccessRules r = rules("");
    r.reduce = [&](InstId id) {
      return id == scan ? combine(id, name("t", id), false) : combine(id, name("q" + std::to_string(idx(scan)) + "_", id), true);
    };
    out += neighbours(earlier, r) + fmt::format("        {}::V {} = {};\n", red, name("b", scan), before(scan));
  }
  AccessRules r = rules("inside");
  r.reduce = [&](InstId id) -> std::string {
    if (k_.insts[id].kind == InstKind::scan) return combine(id, name("b", id), true);
    return fmt::format("if (inside) {0} = {1}::combine({0}, {2});", name("r", id), reducer(k_, k_.insts[id]), reduced(id));
  };
  return out + neighbours(b.insts, r) + "      }\n    }\n";
}

LoopLaunch launch_of_rows(const loop::MatmulKernel& k, int threads) {
  constexpr int kHeld = 4;  // groups of lanes that a thread holds
  LoopLaunch l;
  l.mapping = Mapping::row;
  l.threads = threads;
  l.lanes = 16 / static_cast<int>(dtype_bytes(k.in));
  const int64_t steps = (k.k.as_const().value_or(0) + l.threads * l.lanes - 1) / (l.threads * l.lanes);
  l.steps = steps <= kHeld ? static_cast<int>(steps) : 0;
  return l;
}

std::string emit_rows_function(const LoopKernel& k, const LoopLaunch& launch, const std::string& name, const std::string& args,
                               const std::vector<SymId>& symbols, bool apart) {
  return LoopEmitter(k, launch, name, symbols).emit_rows(args, apart);
}

}  // namespace aotc::emit::cuda
