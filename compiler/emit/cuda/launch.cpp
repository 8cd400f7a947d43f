#include "emit/cuda/launch.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <set>

namespace aotc::emit::cuda {

using loop::InstKind;
using loop::LoopKernel;
using loop::MatmulKernel;
using loop::ParamRole;

namespace {

void add_symbols(const Expr& e, const SymTable& syms, std::set<SymId>& out) {
  for (SymId s : syms.simplify(e).symbols())
    if (syms[s].kind == SymKind::shape) out.insert(s);
}

void add_symbols(const LoopKernel& k, std::set<SymId>& out) {
  for (const auto* vars : {&k.outer, &k.inner})
    for (const loop::LoopVar& v : *vars) add_symbols(v.extent, k.syms, out);
  for (const loop::Inst& i : k.insts) add_symbols(i.index, k.syms, out);
}

}  // namespace

const loop::LoopVar* lane_var(const LoopKernel& k, Mapping m) {
  const std::vector<loop::LoopVar>& vars = m == Mapping::serial || k.inner.empty() ? k.outer : k.inner;
  return vars.empty() ? nullptr : &vars.back();
}

bool same_in_lanes(const LoopKernel& k, loop::InstId id, SymId lane) {
  IdVec<loop::InstId, char> known;  // 0: not asked yet, 1: the same, 2: not
  known.raw().resize(k.insts.size());
  const std::function<bool(loop::InstId)> same = [&](loop::InstId at) -> bool {
    if (known[at]) return known[at] == 1;
    known[at] = 2;
    const loop::Inst& i = k.insts[at];
    static constexpr InstKind kKinds[] = {InstKind::constant, InstKind::index, InstKind::op, InstKind::load};
    if (std::find(std::begin(kKinds), std::end(kKinds), i.kind) == std::end(kKinds) || i.bind != kNone<SymId>) return false;
    if (i.kind == InstKind::load && !loop::takes_argument(k.params[i.param].role)) return false;
    for (SymId s : k.syms.simplify(i.index).symbols())
      if (s == lane || k.syms[s].kind == SymKind::value) return false;
    if (!std::all_of(i.args.begin(), i.args.end(), same) || (i.mask != kNone<loop::InstId> && !same(i.mask))) return false;
    known[at] = 1;
    return true;
  };
  return same(id);
}

bool is_wide(const LoopKernel& k, loop::InstId id, SymId lane, int lanes) {
  const loop::Inst& i = k.insts[id];
  if (i.kind != InstKind::load && i.kind != InstKind::store) return false;
  if (const auto bytes = static_cast<unsigned>(lanes * dtype_bytes(i.dtype)); bytes % 16 != 0 && !std::has_single_bit(bytes)) return false;
  if (i.mask != kNone<loop::InstId> && (i.kind == InstKind::store || !same_in_lanes(k, i.mask, lane))) return false;
  if (k.params[i.param].role == ParamRole::local) return true;
  const Expr index = k.syms.simplify(i.index);
  for (SymId s : index.symbols())
    if (k.syms[s].kind == SymKind::value) return false;
  const auto step = index.linear_coefficient(lane);
  return step && step->is(1) && k.syms.proves_divisible(index.substitute({{lane, Expr(0)}}), lanes);
}

bool scans_in_pieces(const LoopKernel& k) {
  const loop::Block* scans = nullptr;
  for (const loop::Block& b : k.blocks) {
    const auto has = [&](InstKind kind) {
      return std::any_of(b.insts.begin(), b.insts.end(), [&](loop::InstId id) { return k.insts[id].kind == kind; });
    };
    if (!b.over_inner) {
      if (has(InstKind::store)) return false;
      continue;
    }
    if (scans || has(InstKind::reduce) || !has(InstKind::scan)) return false;
    scans = &b;
  }
  if (!scans || k.inner.size() != 1) return false;
  IdVec<loop::InstId, char> scanned;
  scanned.raw().resize(k.insts.size());
  for (loop::InstId id : scans->insts) {
    const loop::Inst& i = k.insts[id];
    bool of_scan = i.mask != kNone<loop::InstId> && scanned[i.mask];
    for (loop::InstId a : i.args) of_scan = of_scan || scanned[a];
    if (i.bind != kNone<SymId>) return false;
    if (i.kind == InstKind::scan && of_scan) return false;
    scanned[id] = of_scan || i.kind == InstKind::scan;
  }
  return true;
}

loop::InstId store_across(const LoopKernel& k, int lanes) {
  constexpr int64_t kMost = 4;
  if (k.outer.empty() || k.inner.size() != 1 || k.blocks.size() != 1) return kNone<loop::InstId>;
  const loop::LoopVar &across = k.outer.back(), &along = k.inner.back();
  const auto extent = across.extent.as_const();
  if (!extent || *extent < 2 || *extent > kMost || !k.syms.proves_divisible(along.extent, lanes)) return kNone<loop::InstId>;
  loop::InstId store = kNone<loop::InstId>;
  bool loads = false;
  for (loop::InstId id : k.blocks[0].insts) {
    const loop::Inst& i = k.insts[id];
    if (i.kind == InstKind::reduce || i.kind == InstKind::scan || i.kind == InstKind::check) return kNone<loop::InstId>;
    loads |= i.kind == InstKind::load && is_wide(k, id, along.sym, lanes);
    if (i.kind != InstKind::store) continue;
    const Expr index = k.syms.simplify(i.index);
    const auto by_across = index.linear_coefficient(across.sym), by_along = index.linear_coefficient(along.sym);
    for (SymId s : index.symbols())
      if (k.syms[s].kind == SymKind::value) return kNone<loop::InstId>;
    if (store != kNone<loop::InstId> || i.mask != kNone<loop::InstId> || !by_across || !by_across->is(1) || !by_along ||
        !by_along->is(*extent))
      return kNone<loop::InstId>;
    const int64_t run = *extent * lanes * static_cast<int64_t>(dtype_bytes(i.dtype));
    const Expr first = index.substitute({{along.sym, Expr(0)}, {across.sym, Expr(0)}});
    if (run % 16 != 0 || !k.syms.proves_divisible(first, 16 / static_cast<int64_t>(dtype_bytes(i.dtype)))) return kNone<loop::InstId>;
    store = id;
  }
  return loads ? store : kNone<loop::InstId>;
}

std::vector<SymId> size_symbols(const LoopKernel& k) {
  std::set<SymId> out;
  add_symbols(k, out);
  return {out.begin(), out.end()};
}

std::vector<SymId> size_symbols(const MatmulKernel& k) {
  std::set<SymId> out;
  auto add = [&](const Expr& e) { add_symbols(e, k.syms, out); };
  for (const Expr& e : k.batch) add(e);
  for (const Expr* e : {&k.m, &k.n, &k.k}) add(*e);
  for (const loop::Operand* o : {&k.a, &k.b}) {
    for (const Expr& e : o->batch_strides) add(e);
    for (const Expr* e : {&o->base, &o->row_stride, &o->col_stride}) add(*e);
    if (o->prologue) add_symbols(*o->prologue, out);
  }
  if (k.runs) add(k.runs->count), add(k.runs->stride);
  if (k.twin) {
    for (const Expr& e : k.twin->batch_strides) add(e);
    for (const Expr* e : {&k.twin->base, &k.twin->row_stride, &k.twin->col_stride}) add(*e);
  }
  for (const loop::Segment& s : k.segments) {
    add(s.n_begin), add(s.n_end);
    add_symbols(s.epilogue, out);
  }
  return {out.begin(), out.end()};
}

std::vector<SymId> size_symbols(const loop::ConvKernel& k) {
  std::set<SymId> out;
  for (const Exprs* dims : {&k.x_dims, &k.out_dims})
    for (const Expr& e : *dims) add_symbols(e, k.syms, out);
  add_symbols(k.epilogue, out);
  return {out.begin(), out.end()};
}

std::vector<SymId> size_symbols(const loop::AttentionKernel& k) {
  std::set<SymId> out;
  auto add = [&](const Expr& e) { add_symbols(e, k.syms, out); };
  for (const Expr* e : {&k.batch, &k.heads, &k.kv_heads, &k.q_len, &k.kv_len, &k.head_dim, &k.v_dim}) add(*e);
  auto view = [&](const loop::AttentionKernel::View& v) {
    for (const Expr* e : {&v.base, &v.b, &v.h, &v.s, &v.e}) add(*e);
  };
  for (const auto* v : {&k.q, &k.k, &k.v, &k.out}) view(*v);
  if (k.mask) view(*k.mask);
  if (k.shown) view(k.shown->from), view(k.shown->end);
  if (k.sinks) view(*k.sinks);
  if (k.row_scales) view(k.row_scales->k), view(k.row_scales->v);
  return {out.begin(), out.end()};
}

}  // namespace aotc::emit::cuda
