#include "emit/cuda/loop_emitter.h"

#include <algorithm>

#include "emit/cuda/functor.h"

namespace aotc::emit::cuda {

using loop::Inst;
using loop::InstId;
using loop::InstKind;
using loop::LoopVar;
using loop::ParamId;
using loop::ParamRole;

std::string LoopEmitter::decode(const std::vector<LoopVar>& vars, const std::string& linear, int indent) {
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

Expr LoopEmitter::product_of(const std::vector<LoopVar>& vars) {
  Expr n = 1;
  for (const LoopVar& v : vars) n *= v.extent;
  return n;
}

AccessRules LoopEmitter::rules(const std::string& store_guard) {
  AccessRules r;
  r.place = [this](ParamId p, const Expr&) -> std::string {
    // a row's scratch holds one value per inner point; every thread touches only its own points
    return k_.params[p].role == ParamRole::local ? names_.param(p) + "[inner]" : std::string();
  };
  r.reduce = [this](InstId id) { return accumulate(id); };
  r.op = [this, store_guard](InstId id) -> std::string {
    const Inst& i = k_.insts[id];
    if (i.kind == InstKind::op && (i.op == Op::exp || i.op == Op::sigmoid) && i.dtype == DType::f32 && becomes_half(id))
      return fmt::format("{}_to_round({})", op_name(i.op), names_.inst(i.args[0]));
    const InstId divisor = store_guard.empty() ? row_divisor(id) : kNone<InstId>;
    if (divisor == kNone<InstId>) return {};
    return fmt::format("op_div_by({}, by_{})", names_.inst(k_.insts[id].args[0]), names_.inst(divisor));
  };
  r.store_guard = store_guard;
  return r;
}

std::string LoopEmitter::accumulate(InstId id, bool scanned) {
  const Inst& i = k_.insts[id];
  const std::string red = reducer(k_, i), acc = "r" + std::to_string(idx(id)), value = reduced(id);
  const std::string combined = fmt::format("{0} = {1}::combine({0}, {2});", acc, red, value);
  if (i.kind != InstKind::scan || !scanned) return combined;
  return fmt::format("{} const {} {} = {};", combined, c_type(i.dtype), names_.inst(id), result(id, acc));
}

std::string LoopEmitter::reduced(InstId id) const {
  const Inst& i = k_.insts[id];
  const std::string value = names_.inst(i.args.at(0));
  if (is_arg(i.reduce_kind))
    return fmt::format("{}::V{{{}, {}}}", reducer(k_, i), value, i.kind == InstKind::scan ? names_.symbol(k_.inner.back().sym) : "inner");
  const DType t = combined_type(k_, i);
  return k_.insts[i.args[0]].dtype == t ? value : fmt::format("op_cast<{}>({})", c_type(t), value);
}

std::string LoopEmitter::result(InstId id, const std::string& value) const {
  const Inst& i = k_.insts[id];
  if (is_arg(i.reduce_kind)) return value + ".index";
  return combined_type(k_, i) == i.dtype ? value : fmt::format("op_cast<{}>({})", c_type(i.dtype), value);
}

bool LoopEmitter::becomes_half(InstId id) const {
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

bool LoopEmitter::loads_become_half(ParamId p, size_t b) const {
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

bool LoopEmitter::made_of_sum(InstId id, std::set<InstId>& seen) const {
  const Inst& i = k_.insts[id];
  if (i.kind == InstKind::reduce) return i.reduce_kind == ReduceKind::sum;
  return seen.insert(id).second && std::any_of(i.args.begin(), i.args.end(), [&](InstId a) { return made_of_sum(a, seen); });
}

/// Only where it is made of sums, as in softmax: elsewhere (a row over its largest, steps of a quantised row) quotients that are exact must
/// stay so.
InstId LoopEmitter::row_divisor(InstId id) const {
  const Inst& i = k_.insts[id];
  if (launch_.mapping != Mapping::row || i.kind != InstKind::op || i.op != Op::div || i.dtype != DType::f32) return kNone<InstId>;
  const InstId divisor = i.args.at(1);
  if (std::set<InstId> seen; !made_of_sum(divisor, seen)) return kNone<InstId>;
  for (const loop::Block& b : k_.blocks)
    for (InstId other : b.insts)
      if (other == divisor) return b.over_inner && k_.insts[other].kind != InstKind::reduce ? kNone<InstId> : divisor;
  return kNone<InstId>;
}

std::string LoopEmitter::reciprocals(const loop::Block& b, int indent, std::set<InstId>& had) const {
  std::string out;
  for (InstId id : b.insts)
    if (const InstId d = row_divisor(id); d != kNone<InstId> && had.insert(d).second)
      out +=
          fmt::format("{0}const Reciprocal by_{1} = reciprocal_of({1});\n", std::string(static_cast<size_t>(indent), ' '), names_.inst(d));
  return out;
}

std::vector<InstId> LoopEmitter::of_kind(const loop::Block& b, InstKind kind) {
  std::vector<InstId> out;
  for (InstId id : b.insts)
    if (k_.insts[id].kind == kind) out.push_back(id);
  return out;
}

std::string LoopEmitter::declare_accumulators(const std::vector<InstId>& reduces, int indent) {
  std::string out;
  for (InstId id : reduces) {
    const std::string red = reducer(k_, k_.insts[id]);
    out += fmt::format("{}{}::V r{} = {}::init();\n", std::string(static_cast<size_t>(indent), ' '), red, idx(id), red);
  }
  return out;
}

std::string LoopEmitter::read_accumulators(const std::vector<InstId>& reduces, bool across_block, int indent) {
  std::string out;
  for (InstId id : reduces) {
    const Inst& i = k_.insts[id];
    std::string value = "r" + std::to_string(idx(id));
    if (across_block && launch_.blocks > 1)
      value = fmt::format("row_reduce<{}, {}, {}>({}, {})", reducer(k_, i), launch_.threads, launch_.blocks, next_place(), value);
    else if (across_block)
      value = fmt::format("block_reduce<{}, {}, {}>({})", reducer(k_, i), launch_.threads, slot_++, value);
    out += fmt::format("{}const {} {} = {};\n", std::string(static_cast<size_t>(indent), ' '), c_type(i.dtype), names_.inst(id),
                       result(id, value));
  }
  return out;
}

std::string LoopEmitter::aligned() {
  std::set<ParamId> params;
  for (uint32_t i = 0; i < k_.insts.size(); ++i)
    if (wide(static_cast<InstId>(i)) && k_.params[k_.insts[static_cast<InstId>(i)].param].role != ParamRole::local)
      params.insert(k_.insts[static_cast<InstId>(i)].param);
  if (across_ != kNone<InstId>) params.insert(k_.insts[across_].param);
  std::string out;
  for (ParamId p : params) out += (out.empty() ? "aligned16(" : " && aligned16(") + names_.param(p) + ")";
  return out.empty() ? "true" : out;
}

InstId LoopEmitter::kept(InstId id) const {
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

std::string LoopEmitter::group(const std::vector<InstId>& insts, const std::string& linear, int indent) {
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
  return out + taken_up(insts, indent + 2) + code_of(in_each, names_, r, indent + 2) + handed_on(insts, indent + 2) + pad + "}\n" + after +
         pad + "}\n";
}

std::set<InstId> LoopEmitter::read_by(const std::vector<InstId>& insts) const {
  std::set<InstId> out;
  for (InstId id : insts) {
    const Inst& i = k_.insts[id];
    out.insert(i.args.begin(), i.args.end());
    if (i.mask != kNone<InstId>) out.insert(i.mask);
    for (SymId s : k_.syms.simplify(i.index).symbols())
      for (uint32_t n = 0; n < k_.insts.size(); ++n)
        if (k_.insts[static_cast<InstId>(n)].bind == s) out.insert(static_cast<InstId>(n));
  }
  return out;
}

std::set<InstId> LoopEmitter::taken(const std::vector<InstId>& insts) const {
  std::set<InstId> out = read_by(insts);
  for (InstId id : insts) out.erase(id);
  std::erase_if(out, [&](InstId id) { return alike_in_lanes(id); });
  return out;
}

std::set<InstId> LoopEmitter::handed() const {
  std::set<InstId> out;
  for (const loop::Block& b : k_.blocks) out.merge(taken(b.insts));
  return out;
}

std::string LoopEmitter::taken_up(const std::vector<InstId>& insts, int indent) {
  if (launch_.mapping != Mapping::serial) return {};
  const std::string pad(static_cast<size_t>(indent), ' ');
  std::string out;
  for (InstId id : insts)
    if (k_.insts[id].kind == InstKind::reduce)
      out += fmt::format("{0}{1}::V& r{2} = r{2}_of[e];\n", pad, reducer(k_, k_.insts[id]), idx(id));
  for (InstId id : taken(insts)) out += fmt::format("{0}const {1} {2} = {2}_of[e];\n", pad, c_type(k_.insts[id].dtype), names_.inst(id));
  return out;
}

std::string LoopEmitter::handed_on(const std::vector<InstId>& insts, int indent) const {
  if (launch_.mapping != Mapping::serial) return {};
  const std::set<InstId> all = handed();
  std::string out;
  for (InstId id : insts)
    if (all.count(id) && k_.insts[id].kind != InstKind::reduce)
      out += fmt::format("{0}{1}_of[e] = {1};\n", std::string(static_cast<size_t>(indent), ' '), names_.inst(id));
  return out;
}

std::string LoopEmitter::for_lanes(const std::string& text) const {
  return fmt::format("#pragma unroll\n    for (int e = 0; e < {}; ++e) {}\n", launch_.lanes, text);
}

}  // namespace aotc::emit::cuda
