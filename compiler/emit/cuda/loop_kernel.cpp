#include "emit/cuda/loop_kernel.h"

#include <algorithm>
#include <set>

#include "emit/cuda/code.h"
#include "emit/cuda/functor.h"

namespace aotc::emit::cuda {

using loop::Inst;
using loop::InstId;
using loop::InstKind;
using loop::LoopKernel;
using loop::LoopVar;
using loop::ParamId;
using loop::ParamRole;

std::string argument_struct(const std::string& kernel, size_t n_ptr, size_t n_size, size_t n_maps) {
  const std::string maps = n_maps ? fmt::format(" TensorMap map[{}];", n_maps) : "";
  return fmt::format("struct {}_args {{ int* fault; void* scratch; void* ptr[{}]; i64 size[{}];{} }};\n", kernel, n_ptr ? n_ptr : 1,
                     n_size ? n_size : 1, maps);
}

namespace {

constexpr int64_t kUnrolled = 160;  // instructions of a thread's rows, all points together: their loads are under way together

class Emitter {
 public:
  Emitter(const LoopKernel& k, const LoopLaunch& launch, const std::string& symbol)
      : k_(k), launch_(launch), symbol_(symbol), symbols_(size_symbols(k)), names_(k, symbols_) {
    for (const Inst& i : k.insts) scans_ |= i.kind == InstKind::scan;
    if (launch.across) across_ = store_across(k, launch.lanes);
  }

  /// Rows of a prologue, for emit_rows_function.
  Emitter(const LoopKernel& k, const LoopLaunch& launch, const std::string& symbol, const std::vector<SymId>& symbols)
      : k_(k), launch_(launch), symbol_(symbol), symbols_(symbols), names_(k, symbols_), prologue_(true) {}

  std::string emit_rows(const std::string& args) {
    size_t n_ptr = 0;
    std::string pointers, to, type;
    for (uint32_t p = 0; p < k_.params.size(); ++p) {
      const loop::Param& param = k_.params[static_cast<ParamId>(p)];
      if (param.role == ParamRole::operand) to = names_.param(static_cast<ParamId>(p)), type = c_type(param.dtype);
      if (!loop::takes_argument(param.role)) continue;
      pointers += fmt::format("  const {0}* const p{1} = static_cast<const {0}*>(a.ptr[{2}]);  // {3}\n", c_type(param.dtype), p, n_ptr++,
                              c_comment(param.name));
    }
    std::string out = fmt::format("AOTC_DI void {}(const {}& a, {}* const {}) {{\n", symbol_, args, type, to);
    out += size_names(symbols_, k_.syms, 2) + pointers;
    out += "  const i64 inner_points = " + points(k_.inner) + ", outer_points = " + points(k_.outer) + ";\n";
    if (launch_.lanes > 1) out += fmt::format("  if ({}) {{\n{}  return;\n  }}\n", aligned(), rows(true, "0", "1"));
    return out + rows(false, "0", "1") + "}\n";
  }

  std::string emit() {
    std::string out = header();
    switch (launch_.mapping) {
      case Mapping::flat: out += flat(); break;
      case Mapping::row: out += row(); break;
      case Mapping::serial: out += serial(); break;
    }
    return out + "}\n";
  }

 private:
  std::string header() {
    std::set<ParamId> written;
    for (const Inst& i : k_.insts)
      if (i.kind == InstKind::store) written.insert(i.param);
    size_t n_ptr = 0;
    std::string pointers;
    for (uint32_t p = 0; p < k_.params.size(); ++p) {
      const ParamId id = static_cast<ParamId>(p);
      const loop::Param& param = k_.params[id];
      if (param.role == ParamRole::local) {
        const std::string memory =
            launch_.global ? fmt::format("static_cast<char*>(a.scratch) + blockIdx.x * ({})", names_.expr(launch_.row_bytes)) : "shared";
        pointers += fmt::format("  {0}* const p{1} = reinterpret_cast<{0}*>({2} + {3});\n", c_type(param.dtype), p, memory,
                                names_.expr(launch_.local_offset.at(p)));
        continue;
      }
      pointers += fmt::format("  {0}{1}* const p{2} = static_cast<{0}{1}*>(a.ptr[{3}]);  // {4}\n", written.count(id) ? "" : "const ",
                              c_type(param.dtype), p, n_ptr++, c_comment(param.name));
    }
    std::string out = argument_struct(symbol_, n_ptr, symbols_.size());
    out += fmt::format("extern \"C\" __global__ void __launch_bounds__({}, {}) {}(const {}_args a) {{\n", launch_.threads * launch_.rows,
                       launch_.resident, symbol_, symbol_);
    if (launch_.shared) out += "  extern __shared__ __align__(16) char shared[];\n";
    for (size_t s = 0; s < symbols_.size(); ++s)
      out += fmt::format("  const i64 {} = a.size[{}];  // {}\n", names_.symbol(symbols_[s]), s, c_comment(k_.syms[symbols_[s]].name));
    return out + pointers + wait_first();
  }

  /// Declares the loop variables from the row-major linear index held by the variable `linear`.
  std::string decode(const std::vector<LoopVar>& vars, const std::string& linear, int indent) {
    const std::string pad(static_cast<size_t>(indent), ' ');
    std::string out;
    if (vars.empty()) return out;
    const bool narrow = k_.syms.interval(product_of(vars)).max <= UINT32_MAX;
    if (vars.size() > 1) out += fmt::format("{}{} rest_{} = {};\n", pad, narrow ? "u32" : "i64", linear, linear);
    for (size_t v = vars.size(); v-- > 0;) {
      const std::string name = names_.symbol(vars[v].sym);
      if (v == 0) {
        out += fmt::format("{}const i64 {} = {};\n", pad, name, vars.size() > 1 ? "rest_" + linear : linear);
      } else {
        const std::string extent = narrow ? fmt::format("u32({})", names_.expr(vars[v].extent)) : names_.expr(vars[v].extent);
        out += fmt::format("{0}const i64 {1} = rest_{2} % ({3}); rest_{2} /= ({3});\n", pad, name, linear, extent);
      }
    }
    return out;
  }

  static Expr product_of(const std::vector<LoopVar>& vars) {
    Expr n = 1;
    for (const LoopVar& v : vars) n *= v.extent;
    return n;
  }
  std::string points(const std::vector<LoopVar>& vars) { return names_.expr(product_of(vars)); }

  AccessRules rules(const std::string& store_guard) {
    AccessRules r;
    r.place = [this](ParamId p, const Expr&) -> std::string {
      // a row's scratch holds one value per inner point; every thread touches only its own points
      return k_.params[p].role == ParamRole::local ? names_.param(p) + "[inner]" : std::string();
    };
    r.reduce = [this](InstId id) { return accumulate(id); };
    r.op = [this, store_guard](InstId id) -> std::string {
      const Inst& i = k_.insts[id];
      if (i.kind == InstKind::op && i.op == Op::exp && i.dtype == DType::f32 && becomes_half(id))
        return fmt::format("exp_to_round({})", names_.inst(i.args[0]));
      const InstId divisor = store_guard.empty() ? row_divisor(id) : kNone<InstId>;
      if (divisor == kNone<InstId>) return {};
      return fmt::format("op_div_by({}, by_{})", names_.inst(k_.insts[id].args[0]), names_.inst(divisor));
    };
    r.store_guard = store_guard;
    return r;
  }

  std::string accumulate(InstId id) {
    const Inst& i = k_.insts[id];
    const std::string red = reducer(k_, i), acc = "r" + std::to_string(idx(id)), value = reduced(id);
    if (i.kind == InstKind::scan)
      return fmt::format("{0} = {1}::combine({0}, {2}); const {3} {4} = {5};", acc, red, value, c_type(i.dtype), names_.inst(id),
                         result(id, acc));
    return fmt::format("{0} = {1}::combine({0}, {2});", acc, red, value);
  }

  /// What goes into a reduction or scan at a point, as a value of its reducer.
  std::string reduced(InstId id) const {
    const Inst& i = k_.insts[id];
    const std::string value = names_.inst(i.args.at(0));
    if (is_arg(i.reduce_kind))
      return fmt::format("{}::V{{{}, {}}}", reducer(k_, i), value, i.kind == InstKind::scan ? names_.symbol(k_.inner.back().sym) : "inner");
    const DType t = combined_type(k_, i);
    return k_.insts[i.args[0]].dtype == t ? value : fmt::format("op_cast<{}>({})", c_type(t), value);
  }
  /// The result of a reduction or scan from a value of its reducer.
  std::string result(InstId id, const std::string& value) const {
    const Inst& i = k_.insts[id];
    if (is_arg(i.reduce_kind)) return value + ".index";
    return combined_type(k_, i) == i.dtype ? value : fmt::format("op_cast<{}>({})", c_type(i.dtype), value);
  }

  /// Whether nothing sees a value that is not negative but products and quotients of it, and its sums, that are rounded to 16 bits.
  bool becomes_half(InstId id) const {
    bool used = false, fits = true;
    for (size_t b = 0; b < k_.blocks.size(); ++b)
      for (InstId user : k_.blocks[b].insts) {
        const Inst& u = k_.insts[user];
        if (u.mask == id) return false;
        if (std::find(u.args.begin(), u.args.end(), id) == u.args.end()) continue;
        used = true;
        const bool scales = u.kind == InstKind::op && (u.op == Op::mul || u.op == Op::div) && u.args[0] != u.args[1];
        const bool sums = u.kind == InstKind::reduce && u.reduce_kind == ReduceKind::sum && k_.insts[id].op == Op::exp;
        if (u.kind == InstKind::op && u.op == Op::cast && is_half(u.dtype)) continue;
        if (u.kind == InstKind::store && k_.params[u.param].role == ParamRole::local)
          fits = fits && loads_become_half(u.param, b);
        else
          fits = fits && (scales || sums) && u.dtype == DType::f32 && becomes_half(user);
      }
    return used && fits;
  }
  /// The same of what is loaded of a row's scratch after block `b` has stored it, until another block does.
  bool loads_become_half(ParamId p, size_t b) const {
    for (size_t later = b + 1; later < k_.blocks.size(); ++later) {
      bool stores = false;
      for (InstId id : k_.blocks[later].insts) {
        const Inst& i = k_.insts[id];
        if (i.param != p) continue;
        if (i.kind == InstKind::load && !stores && !becomes_half(id)) return false;
        stores |= i.kind == InstKind::store;
      }
      if (stores) return true;
    }
    return true;
  }

  /// The division's divisor when that is one for the whole row; f32 only.
  InstId row_divisor(InstId id) const {
    const Inst& i = k_.insts[id];
    if (launch_.mapping != Mapping::row || i.kind != InstKind::op || i.op != Op::div || i.dtype != DType::f32) return kNone<InstId>;
    const InstId divisor = i.args.at(1);
    for (const loop::Block& b : k_.blocks)
      for (InstId other : b.insts)
        if (other == divisor) return b.over_inner && k_.insts[other].kind != InstKind::reduce ? kNone<InstId> : divisor;
    return kNone<InstId>;
  }
  /// Of divisors that no block before had; adds to those.
  std::string reciprocals(const loop::Block& b, int indent, std::set<InstId>& had) const {
    std::string out;
    for (InstId id : b.insts)
      if (const InstId d = row_divisor(id); d != kNone<InstId> && had.insert(d).second)
        out += fmt::format("{0}const Reciprocal by_{1} = reciprocal_of({1});\n", std::string(static_cast<size_t>(indent), ' '),
                           names_.inst(d));
    return out;
  }

  std::vector<InstId> of_kind(const loop::Block& b, InstKind kind) {
    std::vector<InstId> out;
    for (InstId id : b.insts)
      if (k_.insts[id].kind == kind) out.push_back(id);
    return out;
  }

  std::string declare_accumulators(const std::vector<InstId>& reduces, int indent) {
    std::string out;
    for (InstId id : reduces) {
      const std::string red = reducer(k_, k_.insts[id]);
      out += fmt::format("{}{}::V r{} = {}::init();\n", std::string(static_cast<size_t>(indent), ' '), red, idx(id), red);
    }
    return out;
  }

  std::string read_accumulators(const std::vector<InstId>& reduces, bool across_block, int indent) {
    std::string out;
    for (InstId id : reduces) {
      const Inst& i = k_.insts[id];
      std::string value = "r" + std::to_string(idx(id));
      if (across_block) value = fmt::format("block_reduce<{}, {}, {}>({})", reducer(k_, i), launch_.threads, slot_++, value);
      out += fmt::format("{}const {} {} = {};\n", std::string(static_cast<size_t>(indent), ' '), c_type(i.dtype), names_.inst(id),
                         result(id, value));
    }
    return out;
  }

  // ---- several points at once ----------------------------------------------------------------------------------------------------------
  SymId last() const { return lane_var(k_, launch_.mapping)->sym; }
  bool wide(InstId id) const { return launch_.lanes > 1 && is_wide(k_, id, last(), launch_.lanes); }
  bool alike_in_lanes(InstId id) const { return same_in_lanes(k_, id, last()); }
  bool in_registers(const Inst& i) const { return launch_.steps && k_.params[i.param].role == ParamRole::local; }

  /// "p0, p1 and so on are aligned": the parameters with wide accesses.
  std::string aligned() {
    std::set<ParamId> params;
    for (uint32_t i = 0; i < k_.insts.size(); ++i)
      if (wide(static_cast<InstId>(i)) && k_.params[k_.insts[static_cast<InstId>(i)].param].role != ParamRole::local)
        params.insert(k_.insts[static_cast<InstId>(i)].param);
    if (across_ != kNone<InstId>) params.insert(k_.insts[across_].param);
    std::string out;
    for (ParamId p : params) out += (out.empty() ? "aligned16(" : " && aligned16(") + names_.param(p) + ")";
    return out.empty() ? "true" : out;
  }

  /// The first load of what `id` loads, when an earlier block keeps it in registers.
  InstId kept(InstId id) const {
    const Inst& i = k_.insts[id];
    if (!launch_.steps || i.kind != InstKind::load || k_.params[i.param].role != ParamRole::input) return id;
    for (const loop::Block& b : k_.blocks)
      for (InstId other : b.insts) {
        const Inst& o = k_.insts[other];
        if (b.over_inner && o.kind == InstKind::load && o.param == i.param && o.index == i.index && o.dtype == i.dtype &&
            o.mask == kNone<InstId> && wide(other))
          return other;
      }
    return id;
  }

  /// The code of `insts` for `lanes` points from the current values of the loop variables on, the linear one being `linear`.
  std::string group(const std::vector<InstId>& insts, const std::string& linear, int indent) {
    const std::string pad(static_cast<size_t>(indent), ' '), var = names_.symbol(last());
    std::string before, after, alike;
    std::vector<InstId> in_each;  // what is not the same for all of them
    for (InstId id : insts) {
      const Inst& i = k_.insts[id];
      if (alike_in_lanes(id))
        alike += code_of({id}, names_, rules(""), indent);
      else
        in_each.push_back(id);
      if ((i.kind != InstKind::load && i.kind != InstKind::store) || !wide(id) || in_registers(i)) continue;
      const bool local = k_.params[i.param].role == ParamRole::local;
      const std::string at = names_.param(i.param) + " + " + (local ? linear : names_.expr(i.index));
      const std::string type = fmt::format("Wide<{}, {}>", c_type(i.dtype), launch_.lanes);
      if (i.kind == InstKind::load) {
        const InstId first = kept(id);
        const bool masked = i.mask != kNone<InstId>;
        std::string load = fmt::format("load_wide{}<{}, {}>({}{})", masked && !local ? "_if" : "", c_type(i.dtype), launch_.lanes, at,
                                       masked && !local ? ", " + names_.inst(i.mask) : "");
        if (masked && local) load = fmt::format("{} ? {} : {}{{}}", names_.inst(i.mask), load, type);
        if (launch_.steps && !local && k_.params[i.param].role == ParamRole::input) {
          if (first == id && !of_all_rows(id) && !comes_first(id)) before += fmt::format("{}w{}[step] = {};\n", pad, idx(id), load);
        } else {
          before += fmt::format("{}const {} w{} = {};\n", pad, type, idx(id), load);
        }
      } else {
        before += fmt::format("{}{} w{};\n", pad, type, idx(id));
        const std::string store =
            local || k_.params[i.param].role == ParamRole::operand ? "keep_wide" : fmt::format("store_wide<{}>", launch_.streams);
        after += fmt::format("{}{}({}, w{});\n", pad, store, at, idx(id));
      }
    }
    AccessRules r = rules("");
    r.wide = [this](InstId id) -> std::string {
      const Inst& i = k_.insts[id];
      if (id == across_) return fmt::format("run.v[e * {} + {}]", names_.expr(k_.outer.back().extent), names_.symbol(k_.outer.back().sym));
      if (!wide(id)) return {};
      if (in_registers(i)) return names_.param(i.param) + "_row[step].v[e]";
      const bool held = launch_.steps && i.kind == InstKind::load && k_.params[i.param].role == ParamRole::input;
      return fmt::format("w{}{}.v[e]", idx(kept(id)), held ? "[step]" : "");
    };
    if (in_each.empty()) return alike;
    std::string out = alike + pad + "{\n" + before;
    const bool all = k_.syms.simplify(lane_var(k_, launch_.mapping)->extent).is(launch_.lanes);  // then places in them are constants
    out += fmt::format("{0}const i64 first_{1} = {1};\n", pad, linear);
    if (var != linear) out += fmt::format("{}const i64 first_{} = {};\n", pad, var, all ? "0" : var);
    out += fmt::format("{}#pragma unroll\n{}for (int e = 0; e < {}; ++e) {{\n", pad, pad, launch_.lanes);
    if (var != linear) out += fmt::format("{0}  const i64 {1} = first_{1} + e;\n", pad, var);
    out += fmt::format("{0}  const i64 {1} = first_{1} + e;\n", pad, linear);
    return out + taken_up(insts, indent + 2) + code_of(in_each, names_, r, indent + 2) + handed_on(insts, indent + 2) + pad + "}\n" +
           after + pad + "}\n";
  }

  // ---- serial: several rows of a thread; what one block hands to another is kept for each of them ---------------------------------------
  /// Instructions of other blocks that these use, in order; not those that are alike for all rows.
  std::set<InstId> taken(const std::vector<InstId>& insts) const {
    std::set<InstId> out;
    for (InstId id : insts) {
      const Inst& i = k_.insts[id];
      out.insert(i.args.begin(), i.args.end());
      if (i.mask != kNone<InstId>) out.insert(i.mask);
      for (SymId s : k_.syms.simplify(i.index).symbols())
        for (uint32_t n = 0; n < k_.insts.size(); ++n)
          if (k_.insts[static_cast<InstId>(n)].bind == s) out.insert(static_cast<InstId>(n));
    }
    for (InstId id : insts) out.erase(id);
    std::erase_if(out, [&](InstId id) { return alike_in_lanes(id); });
    return out;
  }
  std::set<InstId> handed() const {
    std::set<InstId> out;
    for (const loop::Block& b : k_.blocks) out.merge(taken(b.insts));
    return out;
  }
  std::string taken_up(const std::vector<InstId>& insts, int indent) {
    if (launch_.mapping != Mapping::serial) return {};
    const std::string pad(static_cast<size_t>(indent), ' ');
    std::string out;
    for (InstId id : insts)
      if (k_.insts[id].kind == InstKind::reduce)
        out += fmt::format("{0}{1}::V& r{2} = r{2}_of[e];\n", pad, reducer(k_, k_.insts[id]), idx(id));
    for (InstId id : taken(insts)) out += fmt::format("{0}const {1} {2} = {2}_of[e];\n", pad, c_type(k_.insts[id].dtype), names_.inst(id));
    return out;
  }
  std::string handed_on(const std::vector<InstId>& insts, int indent) const {
    if (launch_.mapping != Mapping::serial) return {};
    const std::set<InstId> all = handed();
    std::string out;
    for (InstId id : insts)
      if (all.count(id) && k_.insts[id].kind != InstKind::reduce)
        out += fmt::format("{0}{1}_of[e] = {1};\n", std::string(static_cast<size_t>(indent), ' '), names_.inst(id));
    return out;
  }
  std::string for_lanes(const std::string& text) const {
    return fmt::format("#pragma unroll\n    for (int e = 0; e < {}; ++e) {}\n", launch_.lanes, text);
  }
  std::string serial_lanes() {
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

  std::string flat() {
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
      out +=
          fmt::format("  if ({}) {{\n{} * {}; point < total; point += {} * {}) {{\n", aligned(), from, launch_.lanes, step, launch_.lanes);
      out += vars + group(all, "point", 4) + "  }\n  return;\n  }\n";
    }
    out += fmt::format("{}; point < total; point += {}) {{\n", from, step) + vars;
    for (const loop::Block& b : k_.blocks) out += code_of(b.insts, names_, rules(""), 4);
    return out + "  }\n";
  }

  /// Threads that take all of the last outer loop: what they write is together then.
  std::string across() {
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

  std::string row() {
    std::string out = "  const i64 inner_points = " + points(k_.inner) + ", outer_points = " + points(k_.outer) + ";\n";
    const std::string first = launch_.rows == 1 ? "blockIdx.x" : fmt::format("blockIdx.x * i64({}) + threadIdx.x / 32", launch_.rows);
    const std::string by = launch_.rows == 1 ? "gridDim.x" : fmt::format("gridDim.x * i64({})", launch_.rows);
    if (launch_.lanes > 1) out += fmt::format("  if ({}) {{\n{}  return;\n  }}\n", aligned(), rows(true, first, by));
    return out + rows(false, first, by);
  }

  /// What is held in registers over a row.
  std::string row_registers() {
    std::string out;
    for (uint32_t p = 0; p < k_.params.size(); ++p)
      if (k_.params[static_cast<ParamId>(p)].role == ParamRole::local)
        out += fmt::format("    Wide<{}, {}> p{}_row[{}];\n", c_type(k_.params[static_cast<ParamId>(p)].dtype), launch_.lanes, p,
                           launch_.steps);
    for (const loop::Block& b : k_.blocks)
      for (InstId id : b.insts) {
        const Inst& i = k_.insts[id];
        if (b.over_inner && i.kind == InstKind::load && k_.params[i.param].role == ParamRole::input && wide(id) && kept(id) == id &&
            !of_all_rows(id))
          out += fmt::format("    Wide<{}, {}> w{}[{}];\n", c_type(i.dtype), launch_.lanes, idx(id), launch_.steps);
      }
    return out;
  }

  /// Whether a load of a prologue's row that is held in registers depends on nothing that the row computes, so that it can come first.
  bool comes_first(InstId id) const {
    const Inst& i = k_.insts[id];
    return prologue_ && !scans_ && i.kind == InstKind::load && k_.params[i.param].role == ParamRole::input && i.mask == kNone<InstId> &&
           wide(id) && kept(id) == id;
  }
  /// All that a row reads is under way before the first of it is waited for.
  std::string first_loads() {
    std::string loads;
    for (const loop::Block& b : k_.blocks)
      for (InstId id : b.insts)
        if (b.over_inner && comes_first(id))
          loads += fmt::format("      w{}[step] = load_wide<{}, {}>({} + {});\n", idx(id), c_type(k_.insts[id].dtype), launch_.lanes,
                               names_.param(k_.insts[id].param), names_.expr(k_.insts[id].index));
    return loads.empty() ? loads : step_begin() + loads + "    }\n";
  }

  /// first, by: the first row of a block, and from there to its next.
  std::string rows(bool wide, const std::string& first, const std::string& by) {
    std::string out = wide && launch_.steps && launch_.rows > 1 ? shared_by_rows() : std::string();
    out += fmt::format("  for (i64 outer = {}; outer < outer_points; outer += {}) {{\n", first, by);
    out += decode(k_.outer, "outer", 4);
    if (wide && launch_.steps) out += row_registers() + first_loads();
    std::set<InstId> inverted;
    for (const loop::Block& b : k_.blocks) {
      if (!b.over_inner) {
        out += code_of(b.insts, names_, rules(thread() + " == 0"), 4);
        continue;
      }
      const std::vector<InstId> reduces = of_kind(b, InstKind::reduce);
      out += declare_accumulators(reduces, 4) + reciprocals(b, 4, inverted);
      if (const std::vector<InstId> running = of_kind(b, InstKind::scan); !running.empty()) {
        out += scans(b, running);
      } else if (!wide) {
        out += fmt::format("    for (i64 inner = {}; inner < inner_points; inner += {}) {{\n", thread(), launch_.threads);
        out += decode(k_.inner, "inner", 6);
        out += code_of(b.insts, names_, rules(""), 6) + "    }\n";
      } else if (launch_.steps) {
        out += step_begin() + group(b.insts, "inner", 6) + "    }\n";
      } else {
        out += fmt::format("    for (i64 inner = i64({0}) * {1}; inner < inner_points; inner += {2}) {{\n", thread(), launch_.lanes,
                           launch_.threads * launch_.lanes);
        out += decode(k_.inner, "inner", 6) + group(b.insts, "inner", 6) + "    }\n";
      }
      if (scans_) out += "    __syncthreads();\n";  // points of a row's scratch are not always one thread's
      out += read_accumulators(reduces, true, 4);
    }
    return out + (launch_.rows == 1 ? "    __syncthreads();\n  }\n" : "  }\n");
  }
  /// The number of a thread among those of its row.
  std::string thread() const { return launch_.rows == 1 ? "threadIdx.x" : "(threadIdx.x & 31)"; }
  /// A loop over what a thread holds of a row.
  std::string step_begin() {
    const int64_t points = k_.syms.simplify(k_.inner_points()).as_const().value_or(0), of_all = int64_t{launch_.threads} * launch_.lanes;
    std::string out = fmt::format("#pragma unroll\n    for (int step = 0; step < {}; ++step) {{\n", launch_.steps);
    out += fmt::format("      const i64 inner = (step * {} + static_cast<int>({})) * {};\n", launch_.threads, thread(), launch_.lanes);
    if (points % of_all != 0) out += "      if (inner >= inner_points) continue;\n";
    return out + decode(k_.inner, "inner", 6);
  }

  /// A load that all rows share: where a warp has a row, it is read once, together with the first row.
  bool of_all_rows(InstId id) const {
    const Inst& i = k_.insts[id];
    if (launch_.rows == 1 || !launch_.steps || i.kind != InstKind::load || i.mask != kNone<InstId> ||
        k_.params[i.param].role != ParamRole::input || !wide(id) || kept(id) != id)
      return false;
    const auto symbols = k_.syms.simplify(i.index).symbols();
    return std::none_of(k_.outer.begin(), k_.outer.end(), [&](const LoopVar& v) { return symbols.count(v.sym) != 0; });
  }
  std::string shared_by_rows() {
    std::string held, loads;
    for (const loop::Block& b : k_.blocks)
      for (InstId id : b.insts) {
        if (!b.over_inner || !of_all_rows(id)) continue;
        const Inst& i = k_.insts[id];
        held += fmt::format("    Wide<{}, {}> w{}[{}];\n", c_type(i.dtype), launch_.lanes, idx(id), launch_.steps);
        loads += fmt::format("      w{}[step] = load_wide<{}, {}>({} + {});\n", idx(id), c_type(i.dtype), launch_.lanes,
                             names_.param(i.param), names_.expr(i.index));
      }
    return held.empty() ? held : held + step_begin() + loads + "    }\n";
  }

  /// A block with scans along the last inner variable, by all threads in pieces of a row; those beyond the row's end look at its last
  /// point.
  std::string scans(const loop::Block& b, const std::vector<InstId>& running) {
    const std::string along = names_.expr(k_.inner.back().extent);
    std::string out = fmt::format("    for (i64 part = 0, along = {}; along > 0 && part < inner_points / along; ++part) {{\n", along);
    out += declare_accumulators(running, 6);
    out += fmt::format("      for (i64 from = 0; from < along; from += {}) {{\n", launch_.threads);
    out += "        const bool inside = from + threadIdx.x < along;\n";
    out += "        const i64 inner = part * along + (inside ? from + threadIdx.x : along - 1);\n" + decode(k_.inner, "inner", 8);
    AccessRules r = rules("inside");
    r.reduce = [&](InstId id) -> std::string {
      const Inst& i = k_.insts[id];
      const std::string red = reducer(k_, i), acc = "r" + std::to_string(idx(id)), value = reduced(id);
      if (i.kind == InstKind::reduce) return fmt::format("if (inside) {0} = {1}::combine({0}, {2});", acc, red, value);
      return fmt::format(
          "const {} {} = {};", c_type(i.dtype), names_.inst(id),
          result(id, fmt::format("block_scan<{}, {}, {}>({}, inside ? {} : {}::init())", red, launch_.threads, slot_++, acc, value, red)));
    };
    return out + code_of(b.insts, names_, r, 8) + "      }\n    }\n";
  }

  std::string serial() {
    std::string out = "  const i64 inner_points = " + points(k_.inner) + ", outer_points = " + points(k_.outer) + ";\n";
    if (launch_.lanes > 1) out += serial_lanes();
    out += "  for (i64 outer = blockIdx.x * i64(blockDim.x) + threadIdx.x; outer < outer_points; outer += i64(gridDim.x) * blockDim.x) {\n";
    out += decode(k_.outer, "outer", 4);
    for (const loop::Block& b : k_.blocks) {
      if (!b.over_inner) {
        out += code_of(b.insts, names_, rules(""), 4);
        continue;
      }
      std::vector<InstId> reduces = of_kind(b, InstKind::reduce), running = of_kind(b, InstKind::scan);
      out += declare_accumulators(reduces, 4) + declare_accumulators(running, 4);
      out += "    for (i64 inner = 0; inner < inner_points; ++inner) {\n" + decode(k_.inner, "inner", 6);
      if (!running.empty() && k_.inner.size() > 1) {  // a scan runs along the last inner var and starts again for each of the others
        std::string restart;
        for (InstId id : running) restart += fmt::format(" r{} = {}::init();", idx(id), reducer(k_, k_.insts[id]));
        out += fmt::format("      if ({} == 0) {{{} }}\n", names_.symbol(k_.inner.back().sym), restart);
      }
      out += code_of(b.insts, names_, rules(""), 6) + "    }\n" + read_accumulators(reduces, false, 4);
    }
    return out + "  }\n";
  }

  const LoopKernel& k_;
  const LoopLaunch& launch_;
  const std::string& symbol_;
  std::vector<SymId> symbols_;
  Names names_;
  const bool prologue_ = false;
  bool scans_ = false;
  InstId across_ = kNone<InstId>;  ///< the store of threads that take all of the last outer loop
  int slot_ = 0;                   ///< of the next reduction over a block
};

}  // namespace

std::string emit_loop_kernel(const LoopKernel& k, const LoopLaunch& launch, const std::string& symbol) {
  return Emitter(k, launch, symbol).emit();
}

std::string emit_rows_function(const LoopKernel& k, const LoopLaunch& launch, const std::string& name, const std::string& args,
                               const std::vector<SymId>& symbols) {
  return Emitter(k, launch, name, symbols).emit_rows(args);
}

}  // namespace aotc::emit::cuda
