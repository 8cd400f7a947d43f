#include "forms/joining_passes.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "base/effort.h"
#include "forms/joining.h"
#include "loop/attached.h"
#include "loop/quantised.h"
#include "loop/tidy.h"

namespace aotc::forms {

using loop::BufferId;
using loop::Call;
using loop::Inst;
using loop::InstId;
using loop::InstKind;
using loop::Kernel;
using loop::LoopKernel;
using loop::LoopVar;
using loop::MatmulKernel;
using loop::ParamId;
using loop::ParamRole;
using loop::Segment;

namespace {

bool plain(const LoopKernel& k) {
  return std::all_of(k.insts.begin(), k.insts.end(), [](const Inst& i) {
    return i.kind != InstKind::check && i.kind != InstKind::reduce && i.kind != InstKind::scan && i.bind == kNone<SymId>;
  });
}

/// The segment that alone stores to p, each of its elements once: (row, column) at row * columns + column.
std::optional<size_t> stored_by(const MatmulKernel& k, ParamId p) {
  std::optional<size_t> found;
  for (size_t s = 0; s < k.segments.size(); ++s)
    for (const Inst& i : k.segments[s].epilogue.insts) {
      if (i.param != p) continue;
      const LoopKernel& e = k.segments[s].epilogue;
      const Expr at = Expr::symbol(e.outer[0].sym) * e.inner[0].extent + Expr::symbol(e.inner[0].sym);
      if (found || i.kind != InstKind::store || i.mask != kNone<InstId> || !e.syms.proves_eq(i.index, at)) return std::nullopt;
      found = s;
    }
  return found;
}

/// How a loop over what a segment stores reads it.
struct Reading {
  SymMap at;          ///< its loop variables at the epilogue's row and column
  Expr own;           ///< the element that an iteration is about
  int64_t mates = 0;  ///< the distance to the other one that it reads
};

/// A loop whose one thing of interest is how it reads `from`, which an epilogue stores.
class Reader {
 public:
  Reader(const LoopKernel& k, ParamId from, const LoopKernel& epilogue) : k_(k), from_(from), e_(epilogue) {}

  std::optional<Reading> reading() {
    if (!plain(k_) || !e_.inner[0].extent.is_const() || !own_element() || !place()) return std::nullopt;
    columns_ = *e_.inner[0].extent.as_const();
    if (columns_ > effort::kPairedColumns) return std::nullopt;
    for (const Inst& i : k_.insts) {
      if (i.param != from_) continue;
      const auto distance = (i.index - r_.own).as_const();
      if (i.kind != InstKind::load || !distance) return std::nullopt;
      if (*distance == 0) continue;
      if (r_.mates && r_.mates != std::abs(*distance)) return std::nullopt;
      r_.mates = std::abs(*distance);
      if (columns_ % (2 * r_.mates) || !only_of_mates(i, *distance > 0)) return std::nullopt;
    }
    return r_.mates ? std::optional(r_) : std::nullopt;
  }

 private:
  std::vector<LoopVar> loops() const {
    std::vector<LoopVar> all = k_.outer;
    all.insert(all.end(), k_.inner.begin(), k_.inner.end());
    return all;
  }

  /// The element that an iteration is about: what its first access is at, counted from the first iteration's.
  bool own_element() {
    const auto first = std::find_if(k_.insts.begin(), k_.insts.end(), [&](const Inst& i) { return i.param == from_; });
    if (first == k_.insts.end()) return false;
    r_.own = 0;
    for (const LoopVar& v : loops()) {
      if (v.extent.is(1)) continue;
      const auto by = first->index.linear_coefficient(v.sym);
      if (!by || !by->is_const()) return false;
      r_.own += *by * Expr::symbol(v.sym);
    }
    return true;
  }

  /// Where each loop stands at an epilogue's point; fails unless every element has one iteration.
  bool place() {
    const Expr row = Expr::symbol(e_.outer[0].sym), column = Expr::symbol(e_.inner[0].sym);
    const int64_t n = *e_.inner[0].extent.as_const();
    std::map<int64_t, LoopVar> by_stride;
    for (const LoopVar& v : loops()) {
      if (v.extent.is(1)) {
        r_.at[v.sym] = 0;
      } else if (!by_stride.emplace(*r_.own.linear_coefficient(v.sym)->as_const(), v).second) {
        return false;
      }
    }
    std::optional<int64_t> next = 1;  // the stride that the next loop must have
    Expr points = 1;
    for (const auto& [stride, v] : by_stride) {
      const auto extent = v.extent.as_const();
      const bool last = &v == &by_stride.rbegin()->second;
      if (!next || stride != *next || (stride < n && n % (last ? stride : stride * extent.value_or(n + 1)) != 0)) return false;
      if (stride < n)
        r_.at[v.sym] = last ? floordiv(column, stride) + row * (n / stride) : mod(floordiv(column, stride), v.extent);
      else
        r_.at[v.sym] = last ? floordiv(row, stride / n) : mod(floordiv(row, stride / n), v.extent);
      r_.at[v.sym] = e_.syms.simplify(r_.at[v.sym]);
      next = extent ? std::optional(stride * *extent) : std::nullopt;
      points *= v.extent;
    }
    return k_.syms.proves_eq(points, e_.outer[0].extent * n);
  }

  /// Whether a load at that side of the own element happens only where it is of the mate.
  bool only_of_mates(const Inst& load, bool after) {
    if (load.mask == kNone<InstId>) return false;
    for (int64_t j = 0; j < columns_; ++j) {
      const auto on = value(load.mask, j);
      if (!on || (*on && (j / r_.mates % 2 == 0) != after)) return false;
    }
    return true;
  }

  /// An integer that depends on nothing but the column.
  std::optional<int64_t> value(InstId id, int64_t column) {
    const Inst& i = k_.insts[id];
    if (is_float(i.dtype)) return std::nullopt;
    if (i.kind == InstKind::constant) return i.imm_i;
    if (i.kind == InstKind::index) {
      const auto [at, fresh] = indices_.try_emplace(id);
      if (fresh) at->second = i.index.substitute(r_.at);
      return at->second.try_eval([&](SymId s) { return s == e_.inner[0].sym ? std::optional(column) : std::nullopt; });
    }
    if (i.kind != InstKind::op || i.args.size() != 2 || is_float(k_.insts[i.args[0]].dtype)) return std::nullopt;
    const auto a = value(i.args[0], column), b = value(i.args[1], column);
    if (!a || !b) return std::nullopt;
    switch (i.op) {
      case Op::lt: return *a < *b;
      case Op::le: return *a <= *b;
      case Op::gt: return *a > *b;
      case Op::ge: return *a >= *b;
      case Op::bit_and: return *a & *b;
      default: return std::nullopt;
    }
  }

  const LoopKernel& k_;
  const ParamId from_;
  const LoopKernel& e_;
  int64_t columns_ = 0;
  std::map<InstId, Expr> indices_;  ///< at the epilogue's point
  Reading r_;
};

/// A call of a product, and a later one of a loop that reads what a segment of the product stores to `passed`.
struct Found {
  const MatmulKernel& product;
  const std::vector<BufferId>& args;
  size_t segment;
  ParamId stored;
  const LoopKernel& loop;
  const std::vector<BufferId>& loop_args;
  ParamId read;
  Reading reading;
};

/// The product that finishes mates, and its arguments.
class Joined {
 public:
  explicit Joined(const Found& f) : f_(f), z_(f.product) {}

  std::pair<MatmulKernel, std::vector<BufferId>> make() {
    std::vector<ParamId> of_product, of_loop;
    take(f_.product.params, f_.args, f_.stored, of_product);
    take(f_.loop.params, f_.loop_args, f_.read, of_loop);
    for (loop::Operand* o : {&z_.a, &z_.b})
      if (o->param != kNone<ParamId>) o->param = of_product.at(idx(o->param));
    if (z_.b_quantised) z_.b_quantised = loop::with_params(*z_.b_quantised, of_product);
    z_.params = params_;
    const LoopKernel finish = epilogue(of_product, of_loop);
    Kernel all = std::move(z_);
    loop::for_each_attached(all, [&](LoopKernel& k) { move_loop(k, params_, of_product); });
    z_ = std::get<MatmulKernel>(std::move(all));
    z_.segments[f_.segment].epilogue = finish;
    z_.segments[f_.segment].mates = f_.reading.mates;
    z_.nodes.insert(z_.nodes.end(), f_.loop.nodes.begin(), f_.loop.nodes.end());
    return {std::move(z_), std::move(args_)};
  }

 private:
  /// The parameters of z by those of `params`, all of which take an argument; kNone for `without`.
  void take(const IdVec<ParamId, loop::Param>& params, const std::vector<BufferId>& args, ParamId without, std::vector<ParamId>& to) {
    for (size_t i = 0; i < params.size(); ++i) {
      const auto known = std::find(args_.begin(), args_.end(), args[i]);
      if (static_cast<ParamId>(i) == without) {
        to.push_back(kNone<ParamId>);
      } else if (known != args_.end()) {
        to.push_back(static_cast<ParamId>(known - args_.begin()));
      } else {
        to.push_back(params_.push(params[static_cast<ParamId>(i)]));
        params_[to.back()].name = fmt::format("p{}", args_.size());
        args_.push_back(args[i]);
      }
    }
  }

  LoopKernel epilogue(const std::vector<ParamId>& of_product, const std::vector<ParamId>& of_loop) {
    const LoopKernel& from = f_.product.segments[f_.segment].epilogue;
    LoopKernel e = from;
    e.params = params_;
    e.params.push(from.params.raw().back());
    e.params.push(from.params.raw().back());
    e.params.raw().back().name = "mate";
    e.insts = {};
    e.blocks = {{false, {}}, {true, {}}};
    of_product_ = &of_product;
    const InstId own = stored_value(from, e, false), mate = stored_value(from, e, true);
    for (const loop::Block& b : f_.loop.blocks)
      for (InstId id : b.insts) {
        Inst i = f_.loop.insts[id];
        rename(i, loop_now_);
        i.index = e.syms.simplify(i.index.substitute(f_.reading.at));
        if (i.param == f_.read) {
          const InstId value = f_.loop.insts[id].index == f_.reading.own ? own : mate;
          loop_now_[id] = i.mask == kNone<InstId> ? value : chosen(i, value, e);
          continue;
        }
        if (i.param != kNone<ParamId>) i.param = of_loop.at(idx(i.param));
        loop_now_[id] = push(std::move(i), e, true);
      }
    std::erase_if(e.blocks, [](const loop::Block& b) { return b.insts.empty(); });
    return e;
  }

  InstId chosen(const Inst& load, InstId value, LoopKernel& e) {
    Inst other;
    other.kind = InstKind::constant;
    other.dtype = load.dtype, other.imm_f = load.imm_f, other.imm_i = load.imm_i;
    Inst where;
    where.op = Op::where;
    where.dtype = load.dtype;
    where.args = {load.mask, value, push(std::move(other), e, true)};
    return push(std::move(where), e, true);
  }

  /// The instructions of the product's own epilogue, for a column or its mate: the value that is passed on. Other stores are the column's.
  InstId stored_value(const LoopKernel& from, LoopKernel& e, bool mate) {
    const Expr j = Expr::symbol(from.inner[0].sym);
    const SymMap other = {{from.inner[0].sym, j + f_.reading.mates - 2 * f_.reading.mates * mod(floordiv(j, f_.reading.mates), 2)}};
    const std::set<InstId> needed = mate ? needed_for_stored(from) : std::set<InstId>{};
    InstId stored = kNone<InstId>;
    for (const loop::Block& b : from.blocks)
      for (InstId id : b.insts) {
        if (mate && (!b.over_inner || !needed.count(id))) continue;  // outer ones are the same for both
        Inst i = from.insts[id];
        rename(i, now_);
        const bool sum = i.param != kNone<ParamId> && from.params[i.param].role == ParamRole::acc;
        if (i.kind == InstKind::store && i.param == f_.stored) {
          stored = i.args[0];
          continue;
        }
        if (sum) {
          i.param = static_cast<ParamId>(params_.size() + (mate ? 1 : 0));
        } else {
          if (i.param != kNone<ParamId>) i.param = of_product_->at(idx(i.param));
          if (mate) i.index = e.syms.simplify(i.index.substitute(other));
        }
        now_[id] = push(std::move(i), e, b.over_inner);
      }
    return stored;
  }

  std::set<InstId> needed_for_stored(const LoopKernel& from) const {
    std::set<InstId> needed;
    for (size_t n = from.blocks.size(); n-- > 0;)
      for (auto at = from.blocks[n].insts.rbegin(); at != from.blocks[n].insts.rend(); ++at) {
        const Inst& i = from.insts[*at];
        if (!needed.count(*at) && !(i.kind == InstKind::store && i.param == f_.stored)) continue;
        needed.insert(*at);
        needed.insert(i.args.begin(), i.args.end());
        if (i.mask != kNone<InstId>) needed.insert(i.mask);
      }
    return needed;
  }

  static void rename(Inst& i, const std::map<InstId, InstId>& now) {
    for (InstId& a : i.args) a = now.at(a);
    if (i.mask != kNone<InstId>) i.mask = now.at(i.mask);
  }
  static InstId push(Inst i, LoopKernel& e, bool over_inner) {
    const InstId id = e.insts.push(std::move(i));
    e.blocks[over_inner ? 1 : 0].insts.push_back(id);
    return id;
  }

  const Found& f_;
  MatmulKernel z_;
  IdVec<ParamId, loop::Param> params_;  ///< of z
  std::vector<BufferId> args_;
  const std::vector<ParamId>* of_product_ = nullptr;
  std::map<InstId, InstId> now_, loop_now_;
};

class Finisher {
 public:
  Finisher(loop::Module& m, const Goal& goal) : m_(m), joining_(m, goal) {}

  void run() {
    bool any = false;
    for (size_t i = 0; i < m_.calls.size(); ++i)
      while (join(i)) any = true;
    if (any) loop::drop_unused(m_);
  }

 private:
  /// Some later call into call i.
  bool join(size_t i) {
    const auto* k = std::get_if<MatmulKernel>(&m_.kernels[m_.calls[i].kernel]);
    if (!k || k->twin || k->runs || !k->batch.empty()) return false;
    for (size_t p = 0; p < k->params.size(); ++p) {
      const BufferId passed = m_.calls[i].args.at(p);
      if (k->params.raw()[p].role != ParamRole::output || m_.buffers[passed].kind != loop::BufferKind::temp || joining_.uses(passed) != 2)
        continue;
      const std::optional<size_t> segment = stored_by(*k, static_cast<ParamId>(p));
      if (!segment || k->segments[*segment].mates || !plain(k->segments[*segment].epilogue)) continue;
      for (size_t c = i + 1; c < m_.calls.size(); ++c) {
        const std::vector<BufferId>& args = m_.calls[c].args;
        const auto at = std::find(args.begin(), args.end(), passed);
        if (at == args.end()) continue;
        if (join(i, static_cast<ParamId>(p), *segment, c, static_cast<ParamId>(at - args.begin()))) return true;
        break;
      }
    }
    return false;
  }

  bool join(size_t i, ParamId stored, size_t segment, size_t c, ParamId read) {
    const auto& product = std::get<MatmulKernel>(m_.kernels[m_.calls[i].kernel]);
    const auto* found = std::get_if<LoopKernel>(&m_.kernels[m_.calls[c].kernel]);
    if (!found || !may_move(*found, m_.calls[c], read, i, c)) return false;
    const auto reading = Reader(*found, read, product.segments[segment].epilogue).reading();
    if (!reading) return false;
    const Found f{product, m_.calls[i].args, segment, stored, *found, m_.calls[c].args, read, *reading};
    auto [z, args] = Joined(f).make();
    Kernel both = std::move(z);
    if (!joining_.pays(both, m_.kernels[m_.calls[i].kernel], *found)) return false;
    joining_.merge(m_.calls[i], m_.calls[c], std::move(both), std::move(args));
    m_.calls.erase(m_.calls.begin() + static_cast<long>(c));
    return true;
  }

  /// Whether call c may run where call i does, but for what it gets from that: nothing from i on writes what it reads, or has to do with
  /// what it writes beside writing other parts of it in call i.
  bool may_move(const LoopKernel& k, const Call& call, ParamId passed, size_t i, size_t c) const {
    for (size_t p = 0; p < k.params.size(); ++p) {
      const ParamRole role = k.params.raw()[p].role;
      if (static_cast<ParamId>(p) == passed) continue;
      if (role != ParamRole::input && role != ParamRole::output) return false;
      for (size_t between = i; between < c; ++between)
        if (joining_.any_argument(m_.calls[between], [&](BufferId b, bool writes) {
              return b == call.args[p] && (role == ParamRole::input ? writes : !writes || between != i);
            }))
          return false;
    }
    return true;
  }

  loop::Module& m_;
  Joining joining_;
};

}  // namespace

void finish_mates(loop::Module& m, const Goal& goal) { Finisher(m, goal).run(); }

}  // namespace aotc::forms
