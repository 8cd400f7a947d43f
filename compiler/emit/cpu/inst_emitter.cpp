#include "emit/cpu/inst_emitter.h"

#include <fmt/args.h>

#include <algorithm>
#include <set>
#include <utility>

#include "emit/cpu/loop_call.h"
#include "emit/cpu/text.h"
#include "loop/cost.h"

namespace aotc::emit::cpu {

using loop::Inst;
using loop::InstId;
using loop::InstKind;
using loop::ParamRole;

namespace {
bool is_arg(ReduceKind k) { return k == ReduceKind::argmax || k == ReduceKind::argmin; }

std::string scalar_constant(const Inst& i) {
  if (i.dtype == DType::boolean) return i.imm_i ? "true" : "false";
  if (i.dtype != DType::i64 && i.dtype != DType::i32) return "";
  return i.imm_i == INT64_MIN ? "INT64_MIN" : fmt::format("{}L", i.imm_i);
}
}  // namespace

/// Whether what the code of columns keeps between statements can be kept of several vectors: checks and values that become symbols only
/// where all lanes have the same.
bool InstEmitter::may_be_wide(const loop::LoopKernel& k) {
  constexpr size_t kMostInsts = 160;  // more are large code of their own
  if (k.inner.empty() || k.insts.size() > kMostInsts) return false;
  for (const loop::Param& p : k.params)
    if (p.role == ParamRole::local) return false;
  std::set<SymId> by_lane = {k.outer.back().sym};
  std::set<InstId> varying;
  for (const loop::Block& b : k.blocks)
    for (const InstId id : b.insts) {
      const Inst& i = k.insts[id];
      const auto varies = [&](InstId x) { return varying.count(x) > 0; };
      const bool same = i.kind != InstKind::reduce && i.kind != InstKind::scan && std::none_of(i.args.begin(), i.args.end(), varies) &&
                        (i.mask == kNone<InstId> || !varies(i.mask)) &&
                        std::none_of(by_lane.begin(), by_lane.end(), [&](SymId s) { return i.index.depends_on(s); });
      if (same) continue;
      if (i.kind == InstKind::check || i.bind != kNone<SymId>) return false;
      varying.insert(id);
    }
  return true;
}

InstEmitter::InstEmitter(const loop::LoopKernel& k, Scopes& scopes, loop::LaneAxis lanes, bool far)
    : k_(k),
      scopes_(scopes),
      lanes_(lanes),
      far_(far),
      wide_(lanes == loop::LaneAxis::outer && may_be_wide(k)),
      rounded_products_(loop::products_to_round(k)) {
  for (const loop::Param& p : k.params)
    if (p.role == ParamRole::acc || p.role == ParamRole::operand) tile_type_ = elem_type(p.dtype);
}

const InstEmitter::Value& InstEmitter::value(InstId id) const {
  const auto it = values_.find(id);
  AOTC_CHECK(it != values_.end(), "kernel {}: instruction {} is used before its definition", k_.name, idx(id));
  return it->second;
}

void InstEmitter::define(InstId id, int rank, bool varies, const std::string& type, const std::string& text) {
  std::string name = fmt::format("v{}", idx(id));
  if (wide_ && varies && !in_each(rank)) {
    scopes_.add(rank, fmt::format("{} {}[n.value];\n  AOTC_EACH {}[u] = {};", type, name, name, text));
    name += "[u]";
  } else {
    scopes_.add(rank, fmt::format("const {} {} = {};", type, name, text));
  }
  values_[id] = {name, rank, varies, false, ""};
  bind(id);
}

void InstEmitter::define_scalar(InstId id, int rank, const std::string& text) {
  const DType t = dtype(id);
  const std::string name = fmt::format("u{}", idx(id));
  scopes_.add(rank, fmt::format("const {} {} = {};", t == DType::boolean ? "bool" : "int64_t", name, text));
  const std::string all = t == DType::boolean ? fmt::format("kb({})", name)
                          : t == DType::i32   ? fmt::format("ki(static_cast<int32_t>({}))", name)
                                              : fmt::format("kl({})", name);
  values_[id] = {all, rank, false, false, name};
  bind(id);
}

/// What is the same in all lanes as a number, or as a truth.
std::string InstEmitter::lane_zero(InstId id) const {
  const Value& v = value(id);
  if (!v.scalar.empty()) return v.scalar;
  return is_bool(dtype(id)) || dtype(id) == DType::i64 ? fmt::format("first({})", v.text) : fmt::format("({})[0]", v.text);
}

/// The value as a symbol of later indices, kept within its range: a faulty index is reported by a check, never followed.
void InstEmitter::bind(InstId id) {
  const SymId s = k_.insts[id].bind;
  if (s == kNone<SymId>) return;
  const Value& v = value(id);
  const SymInfo& info = scopes_.syms()[s];
  std::string last;
  if (info.extent)
    last = scopes_.scalar(*info.extent - 1);
  else if (info.max != kInf)
    last = fmt::format("{}L", info.max);
  const int64_t least = std::max<int64_t>(info.min, INT64_MIN / 2);
  const auto kept = [&](const std::string& x) { return last.empty() ? x : fmt::format("imax(imin({}, {}), {}L)", x, last, least); };
  const std::string name = fmt::format("x{}", idx(id));
  if (!v.varies) {
    scopes_.add(v.rank, fmt::format("const int64_t {} = {};", name, kept(lane_zero(id))));
    scopes_.define(s, v.rank, name);
    return;
  }
  const bool near = reg_type(dtype(id)) == "i32v";
  const std::string_view number = near ? "ki" : "kl";
  const std::string most = near ? fmt::format("static_cast<int32_t>({})", last) : last;
  const std::string all = last.empty() ? v.text
                                       : fmt::format("v_maximum(v_minimum({}, {}({})), {}({}))", v.text, number, most, number,
                                                     near ? std::max<int64_t>(least, INT32_MIN) : least);
  scopes_.add(v.rank, fmt::format("const {} y{} = {};\n  int64_t {}[AOTC_L];\n  unpack(to_i64(y{}), {});", near ? "i32v" : "i64v", idx(id),
                                  all, name, idx(id), name));
  scopes_.define_by_lane(s, name);
  lane_values_[s] = fmt::format("y{}", idx(id));
}

void InstEmitter::emit(InstId id) {
  const Inst& i = k_.insts[id];
  switch (i.kind) {
    case InstKind::constant:
      values_[id] = {constant(i.dtype, i.imm_f, i.imm_i), kFunction, false, false, scalar_constant(i)};
      bind(id);
      return;
    case InstKind::index: return emit_index(id);
    case InstKind::op: return emit_op(id);
    case InstKind::load: return emit_load(id);
    case InstKind::store: return emit_store(id);
    case InstKind::reduce: return emit_reduce(id);
    case InstKind::scan: return emit_scan(id);
    case InstKind::check: return emit_check(id);
  }
}

void InstEmitter::emit_index(InstId id) {
  const Expr& e = k_.insts[id].index;
  const LaneIndex x = scopes_.classify(e);
  switch (x.kind) {
    case LaneIndex::uniform: {
      const int rank = std::max(scopes_.rank(x.base), scopes_.varies(e) ? scopes_.segment_rank() : 0);
      return define_scalar(id, rank, scopes_.scalar(x.base));
    }
    case LaneIndex::contiguous:
    case LaneIndex::backward:
    case LaneIndex::strided: {
      const std::string step = scopes_.scalar(x.stride);
      const int rank = std::max(scopes_.segment_rank() + 1, scopes_.rank(x.base));
      return define(id, rank, true, "i64v", fmt::format("ramp({} + {} * {}, {})", scopes_.scalar(x.base), lane(), step, step));
    }
    case LaneIndex::by_lane:
      if (const auto near = scopes_.text_of_lanes(e, lane_values_))
        return define(id, place_.rank, true, "i64v", fmt::format("to_i64({})", *near));
      return define(id, place_.rank, true, "i64v", fmt::format("lanes64([&](int l) {{ (void)l; return {}; }})", scopes_.text_in_lane(e)));
  }
}

/// A comparison of indices that is affine in the lane is constant between two points: segments are cut there and it costs nothing inside.
bool InstEmitter::emit_lane_compare(InstId id) {
  const Inst& i = k_.insts[id];
  struct Row {
    Op op;
    const char* text;
    bool at_zero, at_one;
  };
  constexpr Row kRows[] = {{Op::lt, "<", true, false},  {Op::le, "<=", false, true}, {Op::gt, ">", false, true},
                           {Op::ge, ">=", true, false}, {Op::eq, "==", true, true},  {Op::ne, "!=", true, true}};
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.op == i.op; });
  if (row == std::end(kRows)) return false;
  Expr side[2];
  for (int s = 0; s < 2; ++s) {
    const Inst& a = k_.insts[i.args[s]];
    if (a.kind == InstKind::index)
      side[s] = a.index;
    else if (a.kind == InstKind::constant && a.dtype == DType::i64)
      side[s] = a.imm_i;
    else
      return false;
  }
  const Expr difference = side[0] - side[1];
  const auto at_segment = scopes_.constant_sign(difference, row->at_zero, row->at_one);
  if (!at_segment) return emit_index_compare(id, difference, row->text);
  define(id, scopes_.segment_rank(), false, "i32v", fmt::format("kb({} {} 0)", *at_segment, row->text));
  return true;
}

/// difference OP 0, `compared` as text, where the difference is affine in the lane, true for the first lanes only or for the last, or a
/// number of 32 bits.
bool InstEmitter::emit_index_compare(InstId id, const Expr& difference, const char* compared) {
  if (!scopes_.varies(difference)) return false;
  const LaneIndex x = scopes_.classify(difference);
  if (x.kind == LaneIndex::by_lane) {
    const auto near = scopes_.text_of_lanes(difference, lane_values_);
    if (near) define(id, place_.rank, true, "i32v", fmt::format("({} {} 0)", *near, compared));
    return near.has_value();
  }
  if (x.kind != LaneIndex::contiguous && x.kind != LaneIndex::backward && x.kind != LaneIndex::strided) return false;
  const auto k = x.stride.as_const();
  if (!k) return false;
  const auto below = [&](int n) { return fmt::format("lanes_below({}, {} + {} * {}L, {}L)", n, scopes_.scalar(x.base), lane(), *k, *k); };
  std::string text;
  switch (k_.insts[id].op) {
    case Op::lt: text = below(0); break;
    case Op::le: text = below(1); break;
    case Op::gt: text = "~" + below(1); break;
    case Op::ge: text = "~" + below(0); break;
    case Op::eq: text = "~" + below(0) + " & " + below(1); break;
    default: text = below(0) + " | ~" + below(1); break;
  }
  define(id, std::max(scopes_.segment_rank() + 1, scopes_.rank(x.base)), true, "i32v", text);
  return true;
}

/// x / row value, as in softmax: by the reciprocal, taken once. Only for what is made of sums: elsewhere (a row over its largest, steps of
/// a quantised row, index arithmetic in floats) quotients that are exact must stay so.
bool InstEmitter::emit_row_division(InstId id) {
  const Inst& i = k_.insts[id];
  if (i.op != Op::div || i.dtype != DType::f32) return false;
  const Value &x = value(i.args[0]), &y = value(i.args[1]);
  if (!x.varies || y.varies || !y.reduced || y.rank >= x.rank) return false;
  auto [it, fresh] = divisors_.try_emplace(i.args[1], fmt::format("d{}", idx(i.args[1])));
  if (fresh) scopes_.add(y.rank, fmt::format("const divisor {} = divide_by({});", it->second, y.text));
  define(id, x.rank, true, "f32v", fmt::format("div_by({}, {})", x.text, it->second));
  return true;
}

/// Integers that are the same in all lanes, as indices of rows are: a number each, not a vector of equal ones.
bool InstEmitter::emit_scalar_op(InstId id) {
  struct Row {
    Op op;
    const char* text;
  };
  constexpr Row kRows[] = {
      {Op::add, "{} + {}"},          {Op::sub, "{} - {}"},          {Op::mul, "{} * {}"},    {Op::lt, "{} < {}"},
      {Op::le, "{} <= {}"},          {Op::gt, "{} > {}"},           {Op::ge, "{} >= {}"},    {Op::eq, "{} == {}"},
      {Op::ne, "{} != {}"},          {Op::bit_and, "{} & {}"},      {Op::bit_or, "{} | {}"}, {Op::where, "{} ? {} : {}"},
      {Op::minimum, "imin({}, {})"}, {Op::maximum, "imax({}, {})"}, {Op::cast, "{}"},
  };
  const Inst& i = k_.insts[id];
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.op == i.op; });
  const bool near = i.dtype == DType::i32;
  if (row == std::end(kRows) || (i.dtype != DType::i64 && !near && i.dtype != DType::boolean)) return false;
  if (i.op == Op::cast && is_bool(i.dtype)) return false;
  fmt::dynamic_format_arg_store<fmt::format_context> args;
  int rank = kFunction;
  for (InstId a : i.args) {
    const Value& v = value(a);
    if (v.scalar.empty()) return false;
    args.push_back(v.scalar);
    rank = std::max(rank, v.rank);
  }
  const std::string text = fmt::vformat(row->text, args);
  const bool may_leave = near && (i.op == Op::add || i.op == Op::sub || i.op == Op::mul || i.op == Op::cast);
  define_scalar(id, rank, may_leave ? fmt::format("static_cast<int32_t>({})", text) : text);
  return true;
}

void InstEmitter::emit_op(InstId id) {
  const Inst& i = k_.insts[id];
  if (emit_lane_compare(id) || emit_row_division(id) || emit_scalar_op(id)) return;
  bool reduced = false;
  std::vector<std::string> args;
  std::vector<DType> types;
  int rank = kFunction;
  bool varies = false;
  for (InstId a : i.args) {
    const Value& v = value(a);
    args.push_back(v.text);
    types.push_back(dtype(a));
    rank = std::max(rank, v.rank);
    varies |= v.varies;
    reduced |= v.reduced;
  }
  std::string text = pointwise(i.op, args, types, i.op == Op::bitcast ? i.dtype : compute_type(i.dtype));
  if (rounded_products_[idx(id)]) text = "rounded(" + text + ")";
  define(id, rank, varies, reg_type(i.dtype), in_own_type(id, text));
  values_[id].reduced = reduced;
}

std::string InstEmitter::in_own_type(InstId id, const std::string& x) {
  const DType t = k_.insts[id].dtype;
  return representable_.must_round(k_.insts, id) ? cast(x, compute_type(t), t) : x;
}

std::string InstEmitter::arg_as(InstId arg, DType t) const { return cast(value(arg).text, dtype(arg), t); }

std::string InstEmitter::stored(InstId arg, DType t, std::string* pointer) {
  if (!is_half(t)) return arg_as(arg, t);
  const Inst& i = k_.insts[arg];
  const bool rounds = i.kind == InstKind::op && i.op == Op::cast && i.dtype == t && representable_.must_round(k_.insts, arg);
  if (rounds) return arg_as(i.args[0], compute_type(t));
  if (t == DType::bf16 && representable_.is(k_.insts, arg, t)) *pointer = "(bf16_as_is*)" + *pointer;
  return arg_as(arg, compute_type(t));
}

std::string InstEmitter::alive_mask(InstId mask) const {
  if (mask == kNone<InstId>) return fmt::format("alive({})", width());
  return place_.lanes ? fmt::format("({} & alive(w))", value(mask).text) : value(mask).text;
}

std::string InstEmitter::pointer(const Inst& i) const {
  const ParamRole role = k_.params[i.param].role;
  return role == ParamRole::acc || role == ParamRole::operand ? "tile_row" : fmt::format("p{}", idx(i.param));
}

void InstEmitter::emit_load(InstId id) {
  const Inst& i = k_.insts[id];
  const loop::Param& p = k_.params[i.param];
  const bool masked = i.mask != kNone<InstId>;
  const std::string ptr = pointer(i);
  const std::string reg = reg_type(p.dtype);
  const auto finish = [&](int rank, bool varies, std::string text) {
    if (masked) {
      const Value& m = value(i.mask);
      rank = std::max(rank, m.rank);
      const std::string other = constant(p.dtype, i.imm_f, i.imm_i);
      if (!m.varies)
        text = fmt::format("{} ? {} : {}", lane_zero(i.mask), text, other);
      else if (!varies)
        text = fmt::format("any({1} & alive({3})) ? sel({1}, {0}, {2}) : {2}", text, m.text, other, width());
      else
        text = fmt::format("sel({1}, {0}, {2})", text, m.text, other);
      varies |= m.varies;
    }
    define(id, rank, varies, reg_type(i.dtype), cast("(" + text + ")", p.dtype, i.dtype));
  };
  const bool lane_mask = masked && value(i.mask).varies;

  if (p.role == ParamRole::local && lanes_ == loop::LaneAxis::outer) {
    finish(place_.rank, true, fmt::format("ld({} + ({}) * {}, full())", ptr, scopes_.scalar(i.index), kMaxLanes));
    return;
  }
  if (p.role == ParamRole::acc) {
    if (!place_.lanes) return finish(place_.rank, false, "ld1(tile_row)");  // a product of one column
    finish(place_.rank, true,
           lane_mask ? fmt::format("ld_mask(tile_row + i, {})", alive_mask(i.mask)) : std::string("ld(tile_row + i, w)"));
    return;
  }
  const LaneIndex x = scopes_.classify(i.index);
  const bool fixed = p.role != ParamRole::input;  // not moved across stores
  if (x.kind == LaneIndex::uniform) {
    int rank = std::max({scopes_.rank(x.base), place_.least, scopes_.varies(i.index) ? scopes_.segment_rank() : 0});
    if (fixed) rank = place_.rank;
    if (!masked && p.dtype == i.dtype && (i.dtype == DType::i64 || i.dtype == DType::i32))
      return define_scalar(id, rank, fmt::format("{}[{}]", ptr, scopes_.scalar(x.base)));
    return finish(rank, false, fmt::format("ld1({} + {})", ptr, scopes_.scalar(x.base)));
  }
  AOTC_CHECK(place_.lanes, "kernel {}: a load along lanes outside of them", k_.name);
  int rank = place_.inner && lanes_ == loop::LaneAxis::outer && !scopes_.by_lane(i.index)
                 ? std::max({place_.least, scopes_.rank(i.index), static_cast<int>(kBody)})
                 : place_.rank;
  if (fixed) rank = place_.rank;
  const std::string m = lane_mask ? alive_mask(i.mask) + ", " : "";
  switch (x.kind) {
    case LaneIndex::contiguous: {
      const std::string at = fmt::format("{} + {} + {}", ptr, scopes_.scalar(x.base), lane());
      reads_kept_ |= p.role == ParamRole::local;
      return finish(rank, true, lane_mask ? fmt::format("ld_mask({}, {})", at, alive_mask(i.mask)) : fmt::format("ld({}, w)", at));
    }
    case LaneIndex::backward:
      if (!lane_mask) return finish(rank, true, fmt::format("ld_back({} + {} - {}, w)", ptr, scopes_.scalar(x.base), lane()));
      [[fallthrough]];
    case LaneIndex::strided:
      if (turns(i)) {
        const std::string first = scopes_.scalar(x.base.substitute({{turned_->sym, Expr(0)}})), stride = scopes_.scalar(x.stride);
        turned_->text += fmt::format("{0} t{1}[{2} * AOTC_L];\nturn({3} + {4} + {5} + i * {6}, {6}, {7} - {5}, w, t{1});\n",
                                     elem_type(p.dtype), idx(id), turned_->block, ptr, first, turned_->begin, stride, turned_->end);
        return finish(place_.rank, true, fmt::format("ld(t{} + ({} - {}) * AOTC_L, full())", idx(id), turned_->var, turned_->begin));
      }
      return finish(rank, true,
                    fmt::format("ld_strided({0} + {1} + {4} * {2}, {2}, w{3})", ptr, scopes_.scalar(x.base), scopes_.scalar(x.stride),
                                lane_mask ? ", " + alive_mask(i.mask) : "", lane()));
    default: break;
  }
  if (scopes_.by_lane(i.index)) rank = place_.rank;
  if (const std::string near = near_gather(i, ptr); !lane_mask && !near.empty()) return finish(rank, true, near);
  if (const auto near = lane_mask ? std::nullopt : scopes_.near_lanes(i.index, kMaxLanes))
    return finish(rank, true, fmt::format("pick<{}>({} + {}, {}, w)", near->span, ptr, scopes_.scalar(near->first), near->places));
  if (const auto places = scopes_.text_of_lanes(i.index, lane_values_)) {
    const bool floats = p.dtype == DType::f32 && i.dtype == DType::f32;
    return finish(rank, true, fmt::format("{}({}, {}, {}w)", floats ? "gather_near" : "gather_at", ptr, *places, m));
  }
  finish(rank, true, fmt::format("gather({}, w, {}[&](int l) {{ (void)l; return {}; }})", ptr, m, scopes_.text_in_lane(i.index)));
}

/// A load of float32 at places that one loaded index decides, all within 32 bits of a common one; empty: it is none.
std::string InstEmitter::near_gather(const Inst& i, const std::string& ptr) const {
  if (k_.params[i.param].dtype != DType::f32 || i.dtype != DType::f32) return "";
  for (const auto& [s, vector] : lane_values_) {
    if (!i.index.depends_on(s)) continue;
    const auto step = i.index.linear_coefficient(s);
    const int64_t k = step ? step->as_const().value_or(-1) : -1;
    const Expr base = i.index.substitute({{s, Expr(0)}});
    if (k < 0 || scopes_.by_lane(base) || scopes_.varies(base)) return "";
    const Interval places = scopes_.syms().interval(Expr::symbol(s) * k);
    if (places.min < 0 || places.max > INT32_MAX) return "";
    return fmt::format("gather_near({} + {}, to_i32({}) * {}, w)", ptr, scopes_.scalar(base), vector, k);
  }
  return "";
}

bool InstEmitter::turns(const Inst& i) {
  if (!turned_ || !is_turned(k_, i, turned_->sym)) return false;
  const int64_t bytes = turned_->block * kMaxLanes * dtype_bytes(k_.params[i.param].dtype);
  if (bytes > turned_->room) return false;
  turned_->room -= bytes;
  return true;
}

void InstEmitter::emit_store(InstId id) {
  const Inst& i = k_.insts[id];
  const loop::Param& p = k_.params[i.param];
  const bool masked = i.mask != kNone<InstId>;
  const LaneIndex at = scopes_.classify(i.index);
  const bool turned = at.kind == LaneIndex::strided && turns(i);
  std::string ptr = turned ? fmt::format("t{}", idx(id)) : pointer(i), guard;
  const std::string x = stored(i.args.at(0), p.dtype, &ptr);
  const bool lane_mask = masked && value(i.mask).varies;
  const std::string mask = lane_mask ? ", " + value(i.mask).text : "";
  if (masked && !lane_mask) guard = fmt::format("if ({}) ", lane_zero(i.mask));
  const auto put = [&](const std::string& text) {
    scopes_.add(place_.rank, (wide_ && !in_each(place_.rank) ? "AOTC_EACH " : "") + guard + text + ";");
  };

  if (p.role == ParamRole::local && lanes_ == loop::LaneAxis::outer)
    return put(fmt::format("st({} + ({}) * {}, {}, full())", ptr, scopes_.scalar(i.index), kMaxLanes, x));
  if (p.role == ParamRole::operand)  // the row is in the pointer
    return put(place_.lanes ? fmt::format("st({} + i, {}, w)", ptr, x) : fmt::format("st1({}, {})", ptr, x));
  if (turned) {
    const std::string first = scopes_.scalar(at.base.substitute({{turned_->sym, Expr(0)}})), stride = scopes_.scalar(at.stride);
    turned_->text += fmt::format("{} t{}[{} * AOTC_L];\n", elem_type(p.dtype), idx(id), turned_->block);
    turned_->out += fmt::format("turn_out(t{0}, {1} - {2}, w, {3} + {4} + {2} + i * {5}, {5});\n", idx(id), turned_->end, turned_->begin,
                                pointer(i), first, stride);
    return put(fmt::format("st({} + ({} - {}) * AOTC_L, {}, full())", ptr, turned_->var, turned_->begin, x));
  }
  switch (at.kind) {
    case LaneIndex::uniform:
      if (lane_mask) guard = fmt::format("if ({}[0] != 0) ", value(i.mask).text);
      return put(fmt::format("st1({} + {}, {})", ptr, scopes_.scalar(at.base), x));
    case LaneIndex::contiguous: {
      const std::string to = fmt::format("{} + {} + {}", ptr, scopes_.scalar(at.base), lane());
      if (lane_mask) return put(fmt::format("st_mask({}, {}, {})", to, x, alive_mask(i.mask)));
      const bool far = far_ && p.role == ParamRole::output && dtype_bytes(p.dtype) >= 4;
      if (far && far_store_.empty() && scopes_.rank(at.base) <= scopes_.segment_rank())
        far_store_ = fmt::format("{} + {}", ptr, scopes_.scalar(at.base));
      return put(far ? fmt::format("st_far({}, {}, w, far)", to, x) : fmt::format("st({}, {}, w)", to, x));
    }
    case LaneIndex::backward:
    case LaneIndex::strided:
      return put(fmt::format("st_strided({0} + {1} + {5} * {2}, {3}, w{4}, {2})", ptr, scopes_.scalar(at.base), scopes_.scalar(at.stride),
                             x, mask, lane()));
    case LaneIndex::by_lane:
      return put(fmt::format("scatter({}, {}, w{}, [&](int l) {{ (void)l; return {}; }})", ptr, x, mask, scopes_.text_in_lane(i.index)));
  }
}

InstEmitter::FarStore InstEmitter::take_far_store() { return {std::exchange(far_store_, {}), std::exchange(reads_kept_, false)}; }

int InstEmitter::unroll(const loop::Block& b) const {
  int weight = 0;
  bool reduces = false;
  for (InstId id : b.insts) {
    const Inst& i = k_.insts[id];
    if (i.kind == InstKind::scan || i.kind == InstKind::check) return 1;
    reduces |= i.kind == InstKind::reduce;
    weight += i.kind == InstKind::op ? loop::op_cost(i.op, i.dtype) : 1;
  }
  const auto last = k_.inner.back().extent.as_const();
  if (!reduces || weight > 24 || (last && *last < 4 * kMaxLanes)) return 1;
  return weight <= 12 ? 4 : 2;
}

bool InstEmitter::sums_floats(const Inst& i) { return i.kind == InstKind::reduce && i.reduce_kind == ReduceKind::sum && is_float(i.dtype); }

bool InstEmitter::along_lanes(const Inst& i) const { return i.kind == InstKind::reduce && place_.lanes && lanes_ != loop::LaneAxis::outer; }

std::string InstEmitter::accumulators(const Inst& i) const {
  return wide_ ? "n.value" : along_lanes(i) ? fmt::format("{} * AOTC_SUM_VECTORS", unroll_) : "1";
}

std::string InstEmitter::piece_text() const {
  std::string s;
  for (InstId id : reductions_)
    if (const Inst& i = k_.insts[id]; pieces_ && sums_floats(i))
      s += fmt::format("{} t{}[{}];\n", accumulator(ReduceKind::sum, i.dtype, false), idx(id), accumulators(i));
  return s;
}

std::string InstEmitter::merge_text() const {
  std::string s;
  for (InstId id : reductions_)
    if (pieces_ && sums_floats(k_.insts[id]))
      s += wide_ ? fmt::format("AOTC_EACH r{0}[u].merge(t{0}[u]), t{0}[u] = {{}};\n", idx(id))
                 : fmt::format("add_piece(r{0}, t{0});\n", idx(id));
  return s;
}

void InstEmitter::open_nest(const loop::Block& b, int around, int row, int unroll, bool pieces) {
  unroll_ = unroll;
  pieces_ = pieces;
  for (InstId id : b.insts) {
    const Inst& i = k_.insts[id];
    if (i.kind != InstKind::reduce && i.kind != InstKind::scan) continue;
    const bool scan = i.kind == InstKind::scan;
    const DType t = is_arg(i.reduce_kind) ? k_.insts[i.args.at(0)].dtype : i.dtype;
    std::string type = accumulator(i.reduce_kind, t, scan);
    if (!scan && is_arg(i.reduce_kind)) type.insert(type.size() - 1, near_points() ? ", i32v" : ", i64v");
    scopes_.add(scan ? row : around,
                scan && !wide_ ? fmt::format("{} r{};", type, idx(id)) : fmt::format("{} r{}[{}];", type, idx(id), accumulators(i)));
  }
}

void InstEmitter::close_nest(int around) {
  for (InstId id : reductions_) {
    const Inst& i = k_.insts[id];
    std::string text =
        along_lanes(i) ? fmt::format("merged(r{}).across()", idx(id)) : fmt::format("r{}[{}].lanes()", idx(id), wide_ ? "u" : "0");
    if (i.dtype == DType::boolean) text = fmt::format("({} < 0)", text);
    define(id, around, lanes_ == loop::LaneAxis::outer && place_.lanes, reg_type(i.dtype), in_own_type(id, wrapped(text, i.dtype)));
    values_[id].reduced = i.reduce_kind == ReduceKind::sum;
  }
  reductions_.clear();
}

/// Row-major index of the point within the inner loops.
std::string InstEmitter::point_index() const {
  Expr e = 0;
  for (const loop::LoopVar& v : k_.inner) e = e * v.extent + Expr::symbol(v.sym);
  const auto lane = scopes_.lane();
  const bool near = near_points();
  if (!lane || !e.depends_on(*lane)) return fmt::format("{}({})", near ? "ki" : "kl", scopes_.text(e));
  const std::string first = scopes_.text(e.substitute({{*lane, Expr(0)}}));
  return near ? fmt::format("iota32() + static_cast<int32_t>({} + i)", first) : fmt::format("ramp({} + i, 1)", first);
}

/// Whether 32 bits count the inner points.
bool InstEmitter::near_points() const {
  Expr points = 1;
  for (const loop::LoopVar& v : k_.inner) points *= v.extent;
  return scopes_.syms().interval(points).max <= INT32_MAX;
}

void InstEmitter::emit_reduce(InstId id) {
  const Inst& i = k_.insts[id];
  reductions_.push_back(id);
  const std::string slot = fmt::format("{}{}[{}]", pieces_ && sums_floats(i) ? "t" : "r", idx(id),
                                       wide_            ? "u"
                                       : along_lanes(i) ? "u.value"
                                                        : "0");
  if (is_arg(i.reduce_kind)) {
    const DType t = dtype(i.args.at(0));
    const std::string x = t == DType::boolean ? fmt::format("(-{})", value(i.args[0]).text) : value(i.args[0]).text;
    scopes_.add(place_.rank, fmt::format("{}.add({}, {}, {});", slot, width(), x, point_index()));
    return;
  }
  scopes_.add(place_.rank, fmt::format("{}.add({}, {});", slot, width(), arg_as(i.args.at(0), i.dtype)));
}

void InstEmitter::emit_scan(InstId id) {
  const Inst& i = k_.insts[id];
  const bool along = place_.lanes && lanes_ != loop::LaneAxis::outer;
  const bool arg = is_arg(i.reduce_kind);
  const SymId last = k_.inner.back().sym;
  std::string x = arg ? value(i.args.at(0)).text : arg_as(i.args.at(0), i.dtype);
  if (arg && dtype(i.args[0]) == DType::boolean) x = fmt::format("(-{})", x);
  if (arg) x += along ? ", ramp(i, 1)" : fmt::format(", kl({})", scopes_.text(Expr::symbol(last)));
  std::string text = along ? fmt::format("r{}.along(w, {})", idx(id), x) : fmt::format("r{}{}.add({})", idx(id), wide_ ? "[u]" : "", x);
  if (i.dtype == DType::boolean) text = fmt::format("({} < 0)", text);
  define(id, place_.rank, place_.lanes, reg_type(i.dtype), in_own_type(id, wrapped(text, i.dtype)));
}

void InstEmitter::emit_check(InstId id) {
  const Inst& i = k_.insts[id];
  const Value& v = value(i.args.at(0));
  const int rank = std::max(v.rank, place_.inner ? place_.least : static_cast<int>(kUnit));
  const std::string live = v.varies ? fmt::format("any(~{} & alive({}))", v.text, width()) : fmt::format("!{}", lane_zero(i.args[0]));
  scopes_.add(rank, fmt::format("if ({}) *a->fault = AOTC_FAULT_INDEX;", live));
}

}  // namespace aotc::emit::cpu
