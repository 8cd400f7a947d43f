#include "forms/joining_passes.h"

#include <algorithm>
#include <optional>

#include "forms/joining.h"
#include "loop/attached.h"
#include "loop/tidy.h"

namespace aotc::forms {

using loop::BufferId;
using loop::Call;
using loop::Inst;
using loop::InstKind;
using loop::Kernel;
using loop::LoopKernel;
using loop::MatmulKernel;
using loop::ParamId;
using loop::ParamRole;

namespace {

bool same(const SymTable& s, const Expr& x, const Expr& y) { return x == y || s.proves_eq(x, y); }

/// The one parameter that the rows are stored to, each element once: element column of row `row` at row * columns + column.
std::optional<ParamId> stored_rows(const LoopKernel& k) {
  std::optional<ParamId> to;
  for (size_t p = 0; p < k.params.size(); ++p) {
    const ParamRole role = k.params.raw()[p].role;
    if (role == ParamRole::input) continue;
    if (role != ParamRole::output || to) return std::nullopt;
    to = static_cast<ParamId>(p);
  }
  if (!to || k.outer.size() > 1 || k.inner.size() != 1 || !loop::reduces(k)) return std::nullopt;
  Expr at = Expr::symbol(k.inner[0].sym);
  if (!k.outer.empty()) at = Expr::symbol(k.outer[0].sym) * k.inner[0].extent + at;
  size_t stores = 0;
  for (const Inst& i : k.insts) {
    if (i.kind == InstKind::scan || i.kind == InstKind::check || i.bind != kNone<SymId>) return std::nullopt;
    if (i.kind == InstKind::store && (++stores > 1 || i.mask != kNone<loop::InstId> || !same(k.syms, i.index, at))) return std::nullopt;
  }
  return stores == 1 ? to : std::nullopt;
}

/// A product with the rows as its prologue, and its arguments.
class Joined {
 public:
  Joined(const LoopKernel& rows, const std::vector<BufferId>& rows_args, ParamId stored, const MatmulKernel& product,
         const std::vector<BufferId>& args)
      : rows_(rows), rows_args_(rows_args), stored_(stored), z_(product), args_(args) {}

  std::pair<MatmulKernel, std::vector<BufferId>> make() {
    const ParamId slot = z_.a.param;
    const size_t before = z_.params.size();
    std::vector<ParamId> to(rows_.params.size(), kNone<ParamId>);
    bool filled = false;
    for (size_t p = 0; p < to.size(); ++p) {
      const ParamId id = static_cast<ParamId>(p);
      if (id == stored_) continue;
      const auto known = std::find(args_.begin(), args_.end(), rows_args_[p]);
      if (!filled) {
        to[p] = slot, filled = true;
        const std::string name = z_.params[slot].name;
        z_.params[slot] = rows_.params[id], args_[idx(slot)] = rows_args_[p];
        z_.params[slot].name = name;
      } else if (known != args_.end()) {
        to[p] = static_cast<ParamId>(known - args_.begin());
      } else {
        to[p] = z_.params.push(rows_.params[id]);
        z_.params[to[p]].name = fmt::format("p{}", args_.size());
        args_.push_back(rows_args_[p]);
      }
    }
    z_.a = {};
    std::vector<ParamId> kept;  // more parameters follow those that were there
    for (size_t p = 0; p < before; ++p) kept.push_back(static_cast<ParamId>(p));
    Kernel all = std::move(z_);
    loop::for_each_attached(all, [&](LoopKernel& k) { move_loop(k, std::get<MatmulKernel>(all).params, kept); });
    z_ = std::get<MatmulKernel>(std::move(all));
    z_.a.prologue = prologue(to);
    return {std::move(z_), std::move(args_)};
  }

 private:
  LoopKernel prologue(const std::vector<ParamId>& to) const {
    LoopKernel p = rows_;
    p.params = z_.params;
    const ParamId operand = p.params.push({"operand", ParamRole::operand, z_.in, {z_.m, z_.k}});
    if (p.outer.empty()) {
      SymInfo row;
      row.name = "r";
      row.kind = SymKind::loop;
      row.extent = 1;
      p.outer.push_back({p.syms.add(row), 1});
    }
    for (Inst& i : p.insts) {
      if (i.param == kNone<ParamId>) continue;
      i.param = i.param == stored_ ? operand : to.at(idx(i.param));
    }
    p.nodes.clear();
    return p;
  }

  const LoopKernel& rows_;
  const std::vector<BufferId>& rows_args_;
  const ParamId stored_;
  MatmulKernel z_;
  std::vector<BufferId> args_;
};

class Joiner {
 public:
  Joiner(loop::Module& m, const Goal& goal) : m_(m), joining_(m, goal) {}

  void run() {
    bool any = false;
    for (size_t i = 0; i + 1 < m_.calls.size(); ++i)
      if (join(i)) {
        m_.calls.erase(m_.calls.begin() + static_cast<long>(i));
        any = true;
      }
    if (any) loop::drop_unused(m_);
  }

 private:
  /// Call i into all of the calls after it that read what it stores.
  bool join(size_t i) {
    const auto* found = std::get_if<LoopKernel>(&m_.kernels[m_.calls[i].kernel]);
    const std::optional<ParamId> to = found ? stored_rows(*found) : std::nullopt;
    if (!to) return false;
    const LoopKernel rows = *found;
    const BufferId stored = m_.calls[i].args.at(idx(*to));
    const size_t readers = joining_.uses(stored) - 1;
    if (m_.buffers[stored].kind != loop::BufferKind::temp || readers == 0 || i + readers >= m_.calls.size()) return false;
    double apart = joining_.cost_ns(Kernel(rows)).value_or(0), together = 0;
    std::vector<std::pair<Kernel, std::vector<BufferId>>> made;
    for (size_t c = i + 1; c <= i + readers; ++c) {
      const Call& call = m_.calls[c];
      const auto* product = std::get_if<MatmulKernel>(&m_.kernels[call.kernel]);
      if (!product || !takes(*product, call, rows, stored)) return false;
      auto [z, args] = Joined(rows, m_.calls[i].args, *to, *product, call.args).make();
      Kernel kernel = std::move(z);
      const auto own = joining_.cost_ns(m_.kernels[call.kernel]), cost = joining_.cost_ns(kernel);
      if (!own || !cost) return false;
      apart += *own, together += *cost;
      made.emplace_back(std::move(kernel), std::move(args));
    }
    if (together > apart) return false;
    for (size_t n = 0; n < made.size(); ++n) {
      Call& call = m_.calls[i + 1 + n];
      const std::string name = rows.name + "_" + loop::kernel_name(m_.kernels[call.kernel]);
      call.kernel = joining_.known(std::move(made[n].first), name);
      call.args = std::move(made[n].second);
      call.label = m_.calls[i].label + " " + call.label;
      call.nodes.insert(call.nodes.begin(), m_.calls[i].nodes.begin(), m_.calls[i].nodes.end());
    }
    return true;
  }

  /// Whether the product's left operand is what the rows store, as they store it, and nothing else of it is.
  bool takes(const MatmulKernel& k, const Call& call, const LoopKernel& rows, BufferId stored) const {
    if (k.a.prologue || k.runs || !k.batch.empty() || call.args.at(idx(k.a.param)) != stored) return false;
    if (std::count(call.args.begin(), call.args.end(), stored) != 1) return false;
    for (const loop::Operand* o : loop::operands(k))
      if (o != &k.a && (o->prologue ? loop::loads(*o->prologue, k.a.param) : o->param == k.a.param)) return false;
    for (const loop::Segment& s : k.segments)
      if (loop::loads(s.epilogue, k.a.param)) return false;
    const Expr count = rows.outer.empty() ? Expr(1) : rows.outer[0].extent;
    return k.a.base.is(0) && k.a.col_stride.is(1) && (count.is(1) || same(k.syms, k.a.row_stride, k.k)) && same(k.syms, k.m, count) &&
           same(k.syms, k.k, rows.inner[0].extent) && rows.params[*stored_rows(rows)].dtype == k.in;
  }

  loop::Module& m_;
  Joining joining_;
};

}  // namespace

void compute_rows_in_products(loop::Module& m, const Goal& goal) { Joiner(m, goal).run(); }

}  // namespace aotc::forms
