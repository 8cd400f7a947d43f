#include "forms/joining_passes.h"

#include <algorithm>

#include "forms/joining.h"
#include "forms/library_attrs.h"
#include "graph/states.h"
#include "loop/attached.h"
#include "loop/tidy.h"

namespace aotc::forms {

using loop::BufferId;
using loop::Call;
using loop::Inst;
using loop::InstId;
using loop::InstKind;
using loop::Kernel;
using loop::LibraryKernel;
using loop::LoopKernel;
using loop::ParamId;
using loop::ParamRole;

namespace {

/// Params of index_put, in their order.
enum Put : size_t { kOld, kValues, kNew, kIndices };

template <class F>
void for_each_loop(Kernel& k, const F& f) {
  if (auto* own = std::get_if<LoopKernel>(&k)) return f(*own);
  loop::for_each_attached(k, f);
}
IdVec<ParamId, loop::Param>& params_of(Kernel& k) {
  return std::visit([](auto& x) -> IdVec<ParamId, loop::Param>& { return x.params; }, k);
}

/// Whether one store instruction writes all that is written to p.
bool stored_once(Kernel k, ParamId p) {
  size_t stores = 0, others = 0;
  for_each_loop(k, [&](const LoopKernel& l) {
    for (const Inst& i : l.insts)
      if (i.param == p) ++(i.kind == InstKind::store ? stores : others);
  });
  return stores == 1 && others == 0;
}

/// A kernel whose store to `stored` goes where the indices of a put of one entry say.
class Putting {
 public:
  Putting(Kernel k, std::vector<BufferId> args, ParamId stored, const LibraryKernel& put, const std::vector<BufferId>& put_args)
      : z_(std::move(k)), args_(std::move(args)), stored_(stored), put_(put), put_args_(put_args), dims_(put.params[ParamId{kOld}].dims) {}

  std::pair<Kernel, std::vector<BufferId>> make() {
    IdVec<ParamId, loop::Param> params;
    for (const loop::Param& p : params_of(z_))
      if (loop::takes_argument(p.role)) params.push(p);
    std::vector<ParamId> kept;
    for (size_t p = 0; p < params.size(); ++p) kept.push_back(static_cast<ParamId>(p));
    for (size_t q = kIndices; q < put_args_.size(); ++q) indices_.push_back(param_of(q, params));
    params[stored_].role = ParamRole::inout;
    params[stored_].dims = dims_;
    args_[idx(stored_)] = put_args_[kNew];
    for_each_loop(z_, [&](LoopKernel& l) {
      move_loop(l, params, kept);
      for (size_t i = 0; i < l.insts.size(); ++i)
        if (const auto id = static_cast<InstId>(i); l.insts[id].param == stored_) return redirect(l, id);
    });
    if (!std::holds_alternative<LoopKernel>(z_)) params_of(z_) = std::move(params);
    return {std::move(z_), std::move(args_)};
  }

 private:
  ParamId param_of(size_t index, IdVec<ParamId, loop::Param>& params) {
    const auto known = std::find(args_.begin(), args_.end(), put_args_[index]);
    if (known != args_.end()) return static_cast<ParamId>(known - args_.begin());
    const ParamId p = params.push(put_.params[static_cast<ParamId>(index)]);
    params[p].name = fmt::format("p{}", args_.size());
    args_.push_back(put_args_[index]);
    return p;
  }

  void redirect(LoopKernel& l, InstId store) {
    loop::Block head{false, {}};
    const auto push = [&](Inst i) {
      head.insts.push_back(l.insts.push(std::move(i)));
      return head.insts.back();
    };
    const auto number = [&](InstKind kind, const Expr& value, int64_t imm) {
      Inst i;
      i.kind = kind, i.dtype = DType::i64, i.index = value, i.imm_i = imm;
      return push(std::move(i));
    };
    const auto op = [&](Op o, DType t, std::vector<InstId> args) {
      Inst i;
      i.op = o, i.dtype = t, i.args = std::move(args);
      return push(std::move(i));
    };
    const DType b = DType::boolean;
    const auto both = [&](Op o, InstId x, InstId y) { return x == kNone<InstId> ? y : op(o, b, {x, y}); };
    const InstId zero = number(InstKind::constant, 0, 0), nowhere = number(InstKind::constant, 0, kNowhere);
    InstId good = kNone<InstId>, none = kNone<InstId>;
    const Ints& indexed = std::get<Ints>(put_.attrs.at(Attr::dims));
    Expr place = free_place(l.insts[store].index, indexed);
    for (size_t q = 0; q < indices_.size(); ++q) {
      const auto d = static_cast<size_t>(indexed[q]);
      Inst load;
      load.kind = InstKind::load, load.dtype = DType::i64, load.param = indices_[q], load.index = 0;
      const InstId at = push(std::move(load)), size = number(InstKind::index, dims_[d], 0);
      const InstId from_start = op(Op::where, DType::i64, {op(Op::lt, b, {at, zero}), op(Op::add, DType::i64, {at, size}), at});
      SymInfo s;
      s.name = "put" + std::to_string(q);
      s.kind = SymKind::value;
      s.extent = dims_[d];
      l.insts[from_start].bind = l.syms.add(s);
      place += Expr::symbol(l.insts[from_start].bind) * behind(d);
      good = both(Op::bit_and, good, op(Op::bit_and, b, {op(Op::ge, b, {from_start, zero}), op(Op::lt, b, {from_start, size})}));
      none = both(Op::bit_or, none, op(Op::eq, b, {at, nowhere}));
    }
    Inst check;
    check.kind = InstKind::check, check.dtype = b, check.text = "an index of " + put_.name;
    check.args = {op(Op::bit_or, b, {good, none})};
    push(std::move(check));
    Inst& to = l.insts[store];
    to.index = l.syms.simplify(place);
    if (to.mask == kNone<InstId>) {
      to.mask = good;
    } else {  // what masks it already stands before it, in its own block
      for (loop::Block& block : l.blocks)
        if (const auto here = std::find(block.insts.begin(), block.insts.end(), store); here != block.insts.end()) {
          Inst i;
          i.op = Op::bit_and, i.dtype = b, i.args = {to.mask, good};
          const InstId mask = l.insts.push(std::move(i));
          l.insts[store].mask = mask;
          block.insts.insert(here, mask);
          break;
        }
    }
    l.blocks.insert(l.blocks.begin(), std::move(head));
    loop::number_insts(l);
  }

  /// Elements of the state from one place of dim d to the next.
  Expr behind(size_t d) const {
    Expr n = 1;
    for (size_t e = d + 1; e < dims_.size(); ++e) n *= dims_[e];
    return n;
  }
  /// The element of the state, at place 0 of the indexed dims, that element `at` of what is written becomes.
  Expr free_place(Expr at, const Ints& indexed) const {
    const auto is_free = [&](size_t d) { return std::find(indexed.begin(), indexed.end(), static_cast<int64_t>(d)) == indexed.end(); };
    Expr place = 0;
    for (size_t end = dims_.size(); end > 0;) {
      if (!is_free(end - 1)) {
        --end;
        continue;
      }
      size_t first = end - 1;
      Expr extent = dims_[first];
      while (first > 0 && is_free(first - 1)) extent *= dims_[--first];
      bool outermost = true;
      for (size_t d = 0; d < first; ++d) outermost &= !is_free(d);
      place += (outermost ? at : mod(at, extent)) * behind(end - 1);
      at = floordiv(at, extent);
      end = first;
    }
    return place;
  }

  Kernel z_;
  std::vector<BufferId> args_;
  const ParamId stored_;
  const LibraryKernel& put_;
  const std::vector<BufferId>& put_args_;
  const Exprs dims_;  ///< of the state
  std::vector<ParamId> indices_;
};

class Fuser {
 public:
  Fuser(loop::Module& m, const Goal& goal) : m_(m), joining_(m, goal) {}

  void run() {
    bool any = false;
    for (size_t c = 0; c < m_.calls.size();) {
      if (fuse(c)) {
        m_.calls.erase(m_.calls.begin() + static_cast<long>(c));
        any = true;
      } else {
        ++c;
      }
    }
    if (any) loop::drop_unused(m_);
  }

 private:
  /// Call c into the call that computes what it writes.
  bool fuse(size_t c) {
    const auto* put = std::get_if<LibraryKernel>(&m_.kernels[m_.calls[c].kernel]);
    if (!put || put->algorithm != "index_put" || flag(*put, Attr::accumulate, false)) return false;
    const Call& call = m_.calls[c];
    if (!m_.syms.proves_eq(product(put->params[ParamId{kIndices}].dims), 1)) return false;
    if (m_.buffers[call.args[kOld]].kind != loop::BufferKind::state || m_.buffers[call.args[kNew]].kind != loop::BufferKind::state_out)
      return false;
    const BufferId values = call.args[kValues];
    if (m_.buffers[values].kind != loop::BufferKind::temp || joining_.uses(values) != 2) return false;
    for (size_t i = 0; i < c; ++i) {
      const auto at = std::find(m_.calls[i].args.begin(), m_.calls[i].args.end(), values);
      if (at == m_.calls[i].args.end()) continue;
      const auto arg = static_cast<size_t>(at - m_.calls[i].args.begin());
      // Indices that are computed between the two come first, where they may.
      const std::vector<Call> before = m_.calls;
      for (size_t j = i + 1; j < c; ++j)
        if (writes_an_index(j, call) && may_precede(j, i))
          std::rotate(m_.calls.begin() + static_cast<long>(i++), m_.calls.begin() + static_cast<long>(j),
                      m_.calls.begin() + static_cast<long>(j) + 1);
      if (may_move(i, c) && fuse(i, arg, c, *put)) return true;
      m_.calls = before;
      return false;
    }
    return false;
  }

  bool writes_an_index(size_t j, const Call& put) const {
    return joining_.any_argument(m_.calls[j], [&](BufferId b, bool writes) {
      return writes && std::find(put.args.begin() + kIndices, put.args.end(), b) != put.args.end();
    });
  }
  /// Whether call j may be made before call i and those that follow that.
  bool may_precede(size_t j, size_t i) const {
    return !joining_.any_argument(m_.calls[j], [&](BufferId b, bool writes) {
      return std::any_of(m_.calls.begin() + static_cast<long>(i), m_.calls.begin() + static_cast<long>(j), [&](const Call& before) {
        return joining_.any_argument(before, [&](BufferId other, bool also) { return other == b && (writes || also); });
      });
    });
  }

  bool fuse(size_t i, size_t arg, size_t c, const LibraryKernel& put) {
    const Kernel& from = m_.kernels[m_.calls[i].kernel];
    const ParamId stored = loop::argument_params(from).at(arg);
    if (idx(stored) != arg || !stored_once(from, stored)) return false;
    auto [z, args] = Putting(from, m_.calls[i].args, stored, put, m_.calls[c].args).make();
    if (!joining_.pays(z, from, put)) return false;
    joining_.merge(m_.calls[i], m_.calls[c], std::move(z), std::move(args));
    return true;
  }

  /// Whether put c may be carried out by call i: its indices are there, and nobody reads the old content from then on.
  bool may_move(size_t i, size_t c) const {
    const std::vector<BufferId>& args = m_.calls[c].args;
    for (size_t j = 0; j < m_.calls.size(); ++j) {
      if (j == c) continue;
      if (j >= i && writes_an_index(j, m_.calls[c])) return false;
      const bool touches =
          joining_.any_argument(m_.calls[j], [&](BufferId b, bool) { return (j >= i && b == args[kOld]) || (j < c && b == args[kNew]); });
      if (touches) return false;
    }
    return true;
  }

  loop::Module& m_;
  Joining joining_;
};

}  // namespace

void fuse_puts(loop::Module& m, const Goal& goal) { Fuser(m, goal).run(); }

}  // namespace aotc::forms
