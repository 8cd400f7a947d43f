#include "emit/cuda/loop_kernel.h"

#include <algorithm>
#include <set>

#include "emit/cuda/code.h"
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

namespace {
constexpr size_t kAhead = 8, kFewHeld = 4, kMostHeld = 8;  // points whose loads come first, half as many of more than a few loads
constexpr int64_t kUnrolled = 160;  // instructions of a thread's rows, all points together: their loads are under way together
}  // namespace

std::string argument_struct(const std::string& kernel, size_t n_ptr, size_t n_size, size_t n_maps) {
  const std::string maps = n_maps ? fmt::format(" TensorMap map[{}];", n_maps) : "";
  return fmt::format("struct {}_args {{ int* fault; void* scratch; void* ptr[{}]; i64 size[{}];{} }};\n", kernel, n_ptr ? n_ptr : 1,
                     n_size ? n_size : 1, maps);
}

std::string argument_struct(const std::string& kernel, const IdVec<loop::ParamId, loop::Param>& params, size_t n_size, size_t n_maps) {
  const auto pointers = std::count_if(params.begin(), params.end(), [](const loop::Param& p) { return loop::takes_argument(p.role); });
  return argument_struct(kernel, static_cast<size_t>(pointers), n_size, n_maps);
}

std::string LoopEmitter::emit() {
  std::string out = header();
  switch (launch_.mapping) {
    case Mapping::flat: out += flat(); break;
    case Mapping::row: out += row(); break;
    case Mapping::serial: out += serial(); break;
  }
  return out + "}\n";
}

std::string LoopEmitter::header() {
  std::set<ParamId> written;
  for (const Inst& i : k_.insts)
    if (i.kind == InstKind::store) written.insert(i.param);
  size_t n_ptr = 0;
  std::string pointers;
  for (uint32_t p = 0; p < k_.params.size(); ++p) {
    const ParamId id = static_cast<ParamId>(p);
    const loop::Param& param = k_.params[id];
    if (param.role == ParamRole::local) {
      const std::string row = fmt::format("({})", names_.expr(launch_.row_bytes));
      const std::string memory = launch_.global     ? "static_cast<char*>(a.scratch) + blockIdx.x * " + row
                                 : launch_.rows > 1 ? "shared + threadIdx.x / 32 * " + row
                                                    : "shared";
      pointers += fmt::format("  {0}* const p{1} = reinterpret_cast<{0}*>({2} + {3}){4};\n", c_type(param.dtype), p, memory,
                              names_.expr(launch_.handed_bytes() + launch_.local_offset.at(p)), launch_.blocks > 1 ? " - first_point" : "");
      continue;
    }
    pointers += fmt::format("  {0}{1}* const p{2} = static_cast<{0}{1}*>(a.ptr[{3}]);  // {4}\n", written.count(id) ? "" : "const ",
                            c_type(param.dtype), p, n_ptr++, c_comment(param.name));
  }
  const bool cluster = launch_.blocks > 1;
  std::string out = (cluster ? "#include \"rows.cuh\"\n" : "") + argument_struct(symbol_, n_ptr, symbols_.size());
  out += function_head(symbol_, launch_.blocks, launch_.threads * launch_.rows * launch_.pieces, launch_.resident);
  if (launch_.shared) out += "  extern __shared__ __align__(16) char shared[];\n";
  for (size_t s = 0; s < symbols_.size(); ++s)
    out += fmt::format("  const i64 {} = a.size[{}];  // {}\n", names_.symbol(symbols_[s]), s, c_comment(k_.syms[symbols_[s]].name));
  if (cluster) {  // which is there before anything is stored into its memory
    out += fmt::format("  const i64 part = {0}, first_point = blockIdx.x % {1} * part;\n", names_.expr(launch_.part), launch_.blocks);
    pointers += "  cluster_barrier();\n";
  }
  return out + pointers + wait_first();
}

std::string LoopEmitter::serial_lanes() {
  std::string out = fmt::format(
      "  if ({0}) {{\n  for (i64 outer = (blockIdx.x * i64(blockDim.x) + threadIdx.x) * {1}; outer < outer_points; outer += "
      "i64(gridDim.x) * blockDim.x * {1}) {{\n",
      aligned(), launch_.lanes);
  out += decode(k_.outer, "outer", 4);
  for (InstId id : handed()) out += fmt::format("    {} {}_of[{}];\n", c_type(k_.insts[id].dtype), names_.inst(id), launch_.lanes);
  for (const loop::Block& b : k_.blocks) {
    if (!b.over_inner) {
      out += group(b.insts, "outer", 4);
      continue;
    }
    const std::vector<InstId> reduces = of_kind(b, InstKind::reduce);
    for (InstId id : reduces) {
      const std::string red = reducer(k_, k_.insts[id]);
      out += fmt::format("    {}::V r{}_of[{}];\n", red, idx(id), launch_.lanes);
      out += for_lanes(fmt::format("r{}_of[e] = {}::init();", idx(id), red));
    }
    const auto points = k_.syms.simplify(k_.inner_points()).as_const();
    if (points && *points * static_cast<int64_t>(b.insts.size()) <= kUnrolled) out += "#pragma unroll\n";
    out += "    for (i64 inner = 0; inner < inner_points; ++inner) {\n" + decode(k_.inner, "inner", 6);
    out += group(b.insts, "outer", 6) + "    }\n";
    for (InstId id : reduces)
      if (handed().count(id))
        out += for_lanes(fmt::format("{}_of[e] = {};", names_.inst(id), result(id, fmt::format("r{}_of[e]", idx(id)))));
  }
  return out + "  }\n  return;\n  }\n";
}

std::string LoopEmitter::flat() {
  std::string out = "  const i64 inner_points = " + points(k_.inner) + ";\n";
  out += fmt::format("  const i64 total = ({}) * inner_points;\n", points(k_.outer));
  const bool narrow = k_.syms.interval(product_of(k_.outer) * product_of(k_.inner)).max <= UINT32_MAX;
  std::string vars = narrow ? "    const i64 outer = narrow_div(point, inner_points), inner = narrow_mod(point, inner_points);\n"
                            : "    const i64 outer = point / inner_points, inner = point % inner_points;\n";
  vars = k_.inner.empty() ? decode(k_.outer, "point", 4) : vars + decode(k_.outer, "outer", 4) + decode(k_.inner, "inner", 4);
  const std::string from = "  for (i64 point = (blockIdx.x * i64(blockDim.x) + threadIdx.x)", step = "i64(gridDim.x) * blockDim.x";
  if (across_ != kNone<InstId>) {
    out += across();
  } else if (launch_.lanes > 1) {
    std::vector<InstId> all;
    for (const loop::Block& b : k_.blocks) all.insert(all.end(), b.insts.begin(), b.insts.end());
    out += fmt::format("  if ({}) {{\n{} * {}; point < total; point += {} * {}) {{\n", aligned(), from, launch_.lanes, step, launch_.lanes);
    out += vars + group(all, "point", 4) + "  }\n  return;\n  }\n";
  }
  out += fmt::format("{}; point < total; point += {}) {{\n", from, step) + vars;
  for (const loop::Block& b : k_.blocks) out += code_of(b.insts, names_, rules(""), 4);
  return out + "  }\n";
}

std::string LoopEmitter::across() {
  const std::vector<LoopVar> outer(k_.outer.begin(), k_.outer.end() - 1);
  const Inst& store = k_.insts[across_];
  const std::string var = names_.symbol(k_.outer.back().sym), extent = names_.expr(k_.outer.back().extent),
                    lanes = std::to_string(launch_.lanes);
  std::string out = fmt::format(
      "  if ({0}) {{\n  const i64 points = ({1}) * inner_points;\n"
      "  for (i64 point = (blockIdx.x * i64(blockDim.x) + threadIdx.x) * {2}; point < points; point += i64(gridDim.x) * blockDim.x * "
      "{2}) {{\n"
      "    const i64 outer = point / inner_points, inner = point % inner_points;\n",
      aligned(), points(outer), lanes);
  out += decode(outer, "outer", 4) + decode(k_.inner, "inner", 4);
  out += fmt::format(
      "    Wide<{0}, {1} * {2}> run;\n#pragma unroll\n    for (int part = 0; part < {2}; ++part) {{\n      const i64 {3} = part;\n",
      c_type(store.dtype), lanes, extent, var);
  out += group(k_.blocks[0].insts, "inner", 6) + "    }\n";
  return out + fmt::format("    const i64 {} = 0;\n    store_wide<{}>({} + {}, run);\n  }}\n  return;\n  }}\n", var, launch_.streams,
                           names_.param(store.param), names_.expr(store.index));
}

std::string LoopEmitter::serial_blocks(const std::function<std::string(const loop::Block&)>& over_inner) {
  std::string out = decode(k_.outer, "outer", 4);
  for (const loop::Block& b : k_.blocks) out += b.over_inner ? over_inner(b) : code_of(b.insts, names_, rules(""), 4);
  return out + "  }\n";
}

std::string LoopEmitter::serial() {
  std::string out = "  const i64 inner_points = " + points(k_.inner) + ", outer_points = " + points(k_.outer) + ";\n";
  if (launch_.pieces > 1) return out + serial_pieces();
  if (launch_.lanes > 1) out += serial_lanes();
  out += "  for (i64 outer = blockIdx.x * i64(blockDim.x) + threadIdx.x; outer < outer_points; outer += i64(gridDim.x) * blockDim.x) {\n";
  out += serial_blocks([&](const loop::Block& b) {
    const std::vector<InstId> reduces = of_kind(b, InstKind::reduce);
    std::string text = declare_accumulators(reduces, 4) + declare_accumulators(of_kind(b, InstKind::scan), 4);
    text += "    {\n    i64 inner = 0;\n" + serial_points(b, "inner_points") + "    }\n" + read_accumulators(reduces, false, 4);
    return text;
  });
  return out;
}

std::string LoopEmitter::serial_pieces() {
  std::string out =
      fmt::format("  constexpr int lines = {}, pieces = {};\n  const int line = threadIdx.x % lines, piece = threadIdx.x / lines;\n",
                  launch_.threads, launch_.pieces);
  out += "  const i64 share = (inner_points + pieces - 1) / pieces, begin = imin(piece * share, inner_points);\n";
  for (const loop::Block& b : k_.blocks)
    for (InstId id : of_kind(b, InstKind::scan))
      out += fmt::format("  __shared__ {}::V places{}[pieces][lines];\n", reducer(k_, k_.insts[id]), idx(id));
  out +=
      "  for (i64 first = blockIdx.x * i64(lines); first < outer_points; first += i64(gridDim.x) * lines) {\n"
      "    const bool inside = first + line < outer_points;\n    const i64 outer = inside ? first + line : outer_points - 1;\n";
  out += serial_blocks([&](const loop::Block& b) {
    const std::vector<InstId> running = of_kind(b, InstKind::scan);
    std::string text = declare_accumulators(running, 4) + "    const i64 end = imin(begin + share, inner_points);\n";
    text += "#pragma unroll 8\n    for (i64 inner = begin; inner < end; ++inner) {\n" + decode(k_.inner, "inner", 6);
    AccessRules ahead = rules("");
    ahead.reduce = [this](InstId id) { return accumulate(id, false); };
    text += code_of(computed_from(b, running), names_, ahead, 6) + "    }\n";
    for (InstId id : running) text += fmt::format("    places{0}[piece][line] = r{0};\n", idx(id));
    text += "    __syncthreads();\n";
    for (InstId id : running)
      text += fmt::format("    r{0} = {1}::init();\n    for (int p = 0; p < piece; ++p) r{0} = {1}::combine(r{0}, places{0}[p][line]);\n",
                          idx(id), reducer(k_, k_.insts[id]));
    text += "    i64 inner = begin;\n    const i64 last = inside ? end : begin;\n" + serial_points(b, "last") + "    __syncthreads();\n";
    return text;
  });
  return out;
}

std::string LoopEmitter::serial_points(const loop::Block& b, const std::string& end) {
  std::string point = decode(k_.inner, "inner", 6);
  const std::vector<InstId> running = of_kind(b, InstKind::scan);
  if (!running.empty() && k_.inner.size() > 1) {  // a scan runs along the last inner var and starts again for each of the others
    std::string restart;
    for (InstId id : running) restart += fmt::format(" r{} = {}::init();", idx(id), reducer(k_, k_.insts[id]));
    point += fmt::format("      if ({} == 0) {{{} }}\n", names_.symbol(k_.inner.back().sym), restart);
  }
  return loaded_ahead(b, point, end) + fmt::format("    for (; inner < {}; ++inner) {{\n", end) + point +
         code_of(b.insts, names_, rules(""), 6) + "    }\n";
}

std::vector<InstId> LoopEmitter::computed_from(const loop::Block& b, const std::vector<InstId>& insts) const {
  const std::set<InstId> here(b.insts.begin(), b.insts.end());
  std::set<InstId> needed;
  std::vector<InstId> todo = insts, out;
  while (!todo.empty()) {
    const InstId id = todo.back();
    todo.pop_back();
    if (!here.count(id) || !needed.insert(id).second) continue;
    const std::set<InstId> from = read_by({id});
    todo.insert(todo.end(), from.begin(), from.end());
  }
  std::copy_if(b.insts.begin(), b.insts.end(), std::back_inserter(out), [&](InstId id) { return needed.count(id) != 0; });
  return out;
}

std::string LoopEmitter::loaded_ahead(const loop::Block& b, const std::string& point, const std::string& end) {
  if (of_kind(b, InstKind::store).empty()) return {};
  const std::set<InstId> here(b.insts.begin(), b.insts.end());
  // Loads that wait for no sum; what their places and masks are computed from comes with them.
  std::set<InstId> early;
  std::vector<InstId> held, then;
  for (InstId id : b.insts) {
    const Inst& i = k_.insts[id];
    const bool load = i.kind == InstKind::load;
    const std::set<InstId> from = read_by({id});
    const bool waits = i.kind == InstKind::store || i.kind == InstKind::reduce || i.kind == InstKind::scan ||
                       (load && k_.params[i.param].role != ParamRole::input) ||
                       std::any_of(from.begin(), from.end(), [&](InstId x) { return here.count(x) && !early.count(x); });
    if (!waits) early.insert(id);
    (load && !waits ? held : then).push_back(id);
  }
  if (held.empty() || held.size() > kMostHeld) return {};
  const size_t ahead = held.size() > kFewHeld ? kAhead / 2 : kAhead;
  std::string out = fmt::format("    for (; inner + {0} <= {1}; inner += {0}) {{\n      const i64 first_inner = inner;\n", ahead, end);
  for (InstId id : held) out += fmt::format("      {} {}_of[{}];\n", c_type(k_.insts[id].dtype), names_.inst(id), ahead);
  const std::string each =
      fmt::format("#pragma unroll\n      for (int e = 0; e < {}; ++e) {{\n      const i64 inner = first_inner + e;\n", ahead);
  out += each + decode(k_.inner, "inner", 6) + code_of(computed_from(b, held), names_, rules(""), 6);
  for (InstId id : held) out += fmt::format("      {0}_of[e] = {0};\n", names_.inst(id));
  out += "      }\n" + each + point;
  for (InstId id : held) out += fmt::format("      const {0} {1} = {1}_of[e];\n", c_type(k_.insts[id].dtype), names_.inst(id));
  return out + code_of(then, names_, rules(""), 6) + "      }\n    }\n";
}

std::string emit_loop_kernel(const LoopKernel& k, const LoopLaunch& launch, const std::string& symbol) {
  return LoopEmitter(k, launch, symbol).emit();
}

}  // namespace aotc::emit::cuda
