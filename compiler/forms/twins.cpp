#include "forms/joining_passes.h"

#include <algorithm>
#include <map>

#include "forms/joining.h"
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
using loop::MatmulKernel;
using loop::Operand;
using loop::ParamId;
using loop::ParamRole;

namespace {

/// A call of a product in which each parameter is an argument.
struct Product {
  const MatmulKernel& k;
  const Call& call;
  const LoopKernel& epilogue() const { return k.segments[0].epilogue; }
  BufferId buffer(ParamId p) const { return call.args.at(idx(p)); }
};

bool plain(const MatmulKernel& k) {
  const auto simple = [](const Inst& i) { return i.kind != InstKind::check && i.bind == kNone<SymId>; };
  const bool takes_b = !k.b.prologue || (k.b_quantised && k.b_panels_read);
  return !k.a.prologue && takes_b && !k.twin && k.segments.size() == 1 && !k.segments[0].mates &&
         std::all_of(k.segments[0].epilogue.insts.begin(), k.segments[0].epilogue.insts.end(), simple);
}

bool same(const SymTable& s, const Expr& x, const Expr& y) { return x == y || s.proves_eq(x, y); }
bool same(const SymTable& s, const Exprs& x, const Exprs& y) {
  return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), [&](const Expr& a, const Expr& b) { return same(s, a, b); });
}

/// Whether an epilogue's access is to the element of the result that it is about.
bool at_result(const LoopKernel& e, const Inst& i) {
  Expr at = 0;
  for (const loop::LoopVar& v : e.outer) at = at * v.extent + Expr::symbol(v.sym);
  at = at * e.inner[0].extent + Expr::symbol(e.inner[0].sym);
  return i.mask == kNone<InstId> && same(e.syms, i.index, at);
}

/// The buffer that is all that the first of two products writes, one element for each of its own, and that the second reads likewise.
std::optional<BufferId> between(const Product& x, const Product& y) {
  std::optional<BufferId> found;
  for (size_t p = 0; p < x.k.params.size(); ++p) {
    const ParamId id = static_cast<ParamId>(p);
    if (x.k.params[id].role == ParamRole::input) continue;
    if (x.k.params[id].role != ParamRole::output || found) return std::nullopt;
    found = x.buffer(id);
  }
  if (!found) return std::nullopt;
  size_t stores = 0, loads = 0;
  for (const Inst& i : x.epilogue().insts)
    if (i.kind == InstKind::store && (++stores > 1 || !at_result(x.epilogue(), i))) return std::nullopt;
  for (const Inst& i : y.epilogue().insts) {
    if (i.param == kNone<ParamId> || !loop::takes_argument(y.epilogue().params[i.param].role) || y.buffer(i.param) != *found) continue;
    if (i.kind != InstKind::load || !at_result(y.epilogue(), i)) return std::nullopt;
    ++loads;
  }
  return stores == 1 && loads > 0 ? found : std::nullopt;
}

bool same_matrix(const Product& x, const Product& y) {
  const SymTable& s = y.k.syms;
  const Operand &a = x.k.a, &b = y.k.a;
  return !x.k.runs && !y.k.runs && x.buffer(a.param) == y.buffer(b.param) && same(s, a.base, b.base) &&
         same(s, a.batch_strides, b.batch_strides) && same(s, a.row_stride, b.row_stride) && same(s, a.col_stride, b.col_stride) &&
         x.k.in == y.k.in && same(s, Exprs{x.k.m, x.k.n, x.k.k}, Exprs{y.k.m, y.k.n, y.k.k}) && same(s, x.k.batch, y.k.batch);
}

/// Whether both have weights of the operands' type, or numbers of few bits in one format.
bool same_format(const MatmulKernel& x, const MatmulKernel& y) {
  if (!x.b_quantised || !y.b_quantised) return !x.b_quantised && !y.b_quantised;
  return loop::same_format(*x.b_quantised, x.params, *y.b_quantised, y.params);
}

/// The product of both, and its arguments.
class Pair {
 public:
  Pair(const Product& x, const Product& y, BufferId passed) : x_(x), y_(y), passed_(passed) {}

  std::pair<MatmulKernel, std::vector<BufferId>> make() {
    const std::vector<ParamId> of_y = params_of(y_), of_x = params_of(x_);
    z_.syms = y_.k.syms;
    z_.batch = y_.k.batch;
    z_.m = y_.k.m, z_.n = y_.k.n, z_.k = y_.k.k;
    z_.in = y_.k.in, z_.acc = y_.k.acc;
    z_.a = moved(y_.k.a, of_y);
    z_.b = moved(x_.k.b, of_x);
    z_.twin = moved(y_.k.b, of_y);
    z_.b_constant = x_.k.b_constant && y_.k.b_constant;
    if (x_.k.b_quantised) z_.b_quantised = loop::with_params(*x_.k.b_quantised, of_x);
    if (y_.k.b_quantised) z_.twin_quantised = loop::with_params(*y_.k.b_quantised, of_y);
    z_.b_panels_read = x_.k.b_panels_read;
    z_.nodes = x_.k.nodes;
    z_.nodes.insert(z_.nodes.end(), y_.k.nodes.begin(), y_.k.nodes.end());
    LoopKernel e = y_.epilogue();
    e.insts = {};
    e.params = z_.params;
    for (const Product* p : {&x_, &y_}) e.params.push(p->epilogue().params.raw().back());
    e.params.raw().back().name = "twin";
    e.blocks = {{false, {}}, {true, {}}};
    take(x_, of_x, 0, e);
    take(y_, of_y, 1, e);
    std::erase_if(e.blocks, [](const loop::Block& b) { return b.insts.empty(); });
    loop::number_insts(e);
    z_.segments.push_back({y_.k.segments[0].n_begin, y_.k.segments[0].n_end, std::move(e)});
    return {std::move(z_), std::move(args_)};
  }

 private:
  /// The parameters of z by those of a product; kNone for what is passed on.
  std::vector<ParamId> params_of(const Product& p) {
    std::vector<ParamId> to;
    for (size_t i = 0; i < p.k.params.size(); ++i) {
      const BufferId b = p.call.args[i];
      const auto known = std::find(args_.begin(), args_.end(), b);
      if (b == passed_) {
        to.push_back(kNone<ParamId>);
      } else if (known != args_.end()) {
        to.push_back(static_cast<ParamId>(known - args_.begin()));
      } else {
        to.push_back(z_.params.push(p.k.params[static_cast<ParamId>(i)]));
        z_.params[to.back()].name = fmt::format("p{}", args_.size());
        args_.push_back(b);
      }
    }
    return to;
  }
  Operand moved(Operand o, const std::vector<ParamId>& to) const {
    if (o.prologue)
      move_loop(*o.prologue, z_.params, to);
    else
      o.param = to.at(idx(o.param));
    return o;
  }

  /// Its epilogue's instructions; accumulators: which of the two are its own.
  void take(const Product& p, const std::vector<ParamId>& to, uint32_t accumulators, LoopKernel& e) {
    const LoopKernel& from = p.epilogue();
    SymMap loops;
    for (size_t v = 0; v < from.outer.size(); ++v) loops[from.outer[v].sym] = Expr::symbol(e.outer[v].sym);
    loops[from.inner[0].sym] = Expr::symbol(e.inner[0].sym);
    std::map<InstId, InstId> now;
    for (const loop::Block& b : from.blocks)
      for (InstId id : b.insts) {
        Inst i = from.insts[id];
        for (InstId& a : i.args) a = now.at(a);
        if (i.mask != kNone<InstId>) i.mask = now.at(i.mask);
        const bool own = i.param != kNone<ParamId> && from.params[i.param].role == ParamRole::acc;
        const bool passes = i.param != kNone<ParamId> && !own && to.at(idx(i.param)) == kNone<ParamId>;
        if (passes && i.kind == InstKind::store) result_ = i.args[0];
        if (passes && i.kind == InstKind::load) now[id] = result_;
        if (passes) continue;
        if (i.param != kNone<ParamId>) i.param = own ? static_cast<ParamId>(z_.params.size() + accumulators) : to[idx(i.param)];
        i.index = i.index.substitute(loops);
        e.blocks[b.over_inner ? 1 : 0].insts.push_back(now[id] = e.insts.push(std::move(i)));
      }
  }

  const Product &x_, &y_;
  const BufferId passed_;
  MatmulKernel z_;
  std::vector<BufferId> args_;
  InstId result_ = kNone<InstId>;  ///< what the first passes on
};

class Pairer {
 public:
  Pairer(loop::Module& m, const Goal& goal) : m_(m), joining_(m, goal) {}

  void run() {
    bool any = false;
    for (size_t i = 0; i + 1 < m_.calls.size(); ++i)
      if (pair(i)) {
        m_.calls.erase(m_.calls.begin() + static_cast<long>(i) + 1);
        any = true;
      }
    if (any) loop::drop_unused(m_);
  }

 private:
  /// Calls i and i + 1 as call i.
  bool pair(size_t i) {
    const auto *x = product(i), *y = product(i + 1);
    if (!x || !y || !plain(*x) || !plain(*y)) return false;
    const Product first{*x, m_.calls[i]}, second{*y, m_.calls[i + 1]};
    if (!same_matrix(first, second) || !same_format(*x, *y)) return false;
    const std::optional<BufferId> passed = between(first, second);
    if (!passed || m_.buffers[*passed].kind != loop::BufferKind::temp || joining_.uses(*passed) != 2) return false;
    auto [z, args] = Pair(first, second, *passed).make();
    Kernel both = std::move(z);
    if (!joining_.pays(both, m_.kernels[first.call.kernel], m_.kernels[second.call.kernel])) return false;
    joining_.merge(m_.calls[i], m_.calls[i + 1], std::move(both), std::move(args));
    return true;
  }
  const MatmulKernel* product(size_t i) const { return std::get_if<MatmulKernel>(&m_.kernels[m_.calls[i].kernel]); }

  loop::Module& m_;
  Joining joining_;
};

}  // namespace

void pair_products(loop::Module& m, const Goal& goal) { Pairer(m, goal).run(); }

}  // namespace aotc::forms
