#include "plan/share_weights.h"

#include <algorithm>

#include "base/uarch.h"
#include "forms/list.h"
#include "forms/slabs.h"
#include "loop/attached.h"
#include "plan/panel_loads.h"

namespace aotc::plan {

using loop::BufferId;
using loop::LoopKernel;
using loop::MatmulKernel;
using loop::ParamId;

namespace {

/// One for all machines, as the stored form is.
const CpuCosts& costs() { return uarch_of(Isa::avx2).cpu; }
constexpr double kMostShare = 0.02;  ///< of the products' time that reads from panels may cost

class Sharer {
 public:
  explicit Sharer(loop::Module& m) : m_(m), loads_(m) {
    for (const loop::Call& c : m_.calls) products_ns_ += product_ns(m_.kernels[c.kernel]);
  }

  void run() {
    for (size_t b = 0; b < m_.buffers.size(); ++b)
      if (m_.buffers.raw()[b].kind == loop::BufferKind::constant) buffer(static_cast<BufferId>(b));
  }

 private:
  static double product_ns(const loop::Kernel& kernel) {
    if (const auto* k = std::get_if<MatmulKernel>(&kernel)) {
      const double n = hint(k->syms, k->n * k->k), rows = hint(k->syms, product(k->batch) * k->m);
      return std::max(rows * n / costs().share_macs_per_ns,
                      k->b_constant ? n * static_cast<double>(dtype_bytes(k->in)) / costs().share_bytes_per_ns : 0.0);
    }
    if (const auto* k = std::get_if<loop::ConvKernel>(&kernel)) {
      double macs = hint(k->syms, product(k->out_dims) * k->x_dims.at(1)) / static_cast<double>(k->groups);
      for (int64_t taps : k->kernel) macs *= static_cast<double>(taps);
      return macs / costs().share_macs_per_ns;
    }
    return 0;
  }
  static double hint(const SymTable& syms, const Expr& e) { return static_cast<double>(std::max<int64_t>(syms.hint(e), 1)); }

  /// What the reads of one loop kernel cost when each is a cache line of its own.
  static double reads_ns(const LoopKernel& k, ParamId p, int64_t bytes) {
    double points = 0;
    for (const loop::Inst& i : k.insts) {
      if (i.kind != loop::InstKind::load || i.param != p) continue;
      const bool inner = std::any_of(k.inner.begin(), k.inner.end(), [&](const loop::LoopVar& v) { return i.index.depends_on(v.sym); });
      points += hint(k.syms, inner ? k.outer_points() * k.inner_points() : k.outer_points());
    }
    return points * (bytes > costs().share_far_bytes ? costs().share_far_ns : costs().share_near_ns);
  }

  void buffer(BufferId b) {
    const loop::Buffer& x = m_.buffers[b];
    std::vector<Use> packers, readers;
    std::string also;  // a use that takes nothing but the dense form
    double cost = 0;
    bool own = false;  // a product reads its operand in another way too: dense, it would have to be packed in every run
    const int64_t bytes = x.type.bytes().as_const().value_or(kInf);
    for (const Use& u : uses_of(m_, b)) {
      loop::Kernel& kernel = m_.kernels[m_.calls[u.call].kernel];
      const auto* matmul = std::get_if<MatmulKernel>(&kernel);
      const auto* conv = std::get_if<loop::ConvKernel>(&kernel);
      const bool left = matmul && !matmul->a.prologue && matmul->a.param == u.param;
      const bool few_bits = matmul && is_few_bits(*matmul, u.param);
      const bool packs = few_bits || (matmul && !matmul->b.prologue && matmul->b.param == u.param && matmul->b_constant);
      bool reads = false;
      if (packs && !left) packers.push_back(u);
      for_each_loop(kernel, [&](const LoopKernel& k) {
        // What makes operand b of few bits says what the panels hold.
        if (!loop::loads(k, u.param) || (few_bits && &k == &*matmul->b.prologue)) return;
        reads = true;
        cost += reads_ns(k, u.param, bytes);
      });
      if (reads) readers.push_back(u);
      own = own || (reads && packs);
      const bool whole = left || (matmul && !matmul->b.prologue && matmul->b.param == u.param && !packs) ||
                         (conv && (conv->x == u.param || conv->w == u.param)) ||
                         (!matmul && !conv && !std::holds_alternative<LoopKernel>(kernel));
      if (whole) also = loop::kernel_name(kernel);
    }
    if (packers.empty() || (readers.empty() && also.empty())) return;
    const auto note = [&](std::string why) { m_.weight_notes.push_back({b, std::move(why)}); };
    const std::string product_name = loop::kernel_name(m_.kernels[m_.calls[packers[0].call].kernel]);
    const std::optional<Panels> panels = form_of(packers[0]);
    if (!panels) return;
    const std::string twice = own ? fmt::format("stored as it is, {} packs it in every run: ", product_name)
                                  : fmt::format("stored as panels for {} and as it is: ", product_name);
    if (!also.empty()) return note(twice + also + " takes it dense");
    for (const Use& u : packers)
      if (form_of(u) != panels) return note(twice + loop::kernel_name(m_.kernels[m_.calls[u.call].kernel]) + " has other panels of it");
    if (!panel_index(*panels, x.type.elems().as_const().value_or(0), 0, m_.syms)) return note(twice + "the product takes a part of it");
    if (!own && cost > kMostShare * products_ns_)
      return note(twice + fmt::format("reading it from the panels would cost {:.1f} % of the products' time", 100 * cost / products_ns_));
    for (const Use& u : readers) loads_.rewrite(u.call, u.param, b, *panels);
    for (const Use& u : packers) {
      if (is_few_bits(std::get<MatmulKernel>(m_.kernels[m_.calls[u.call].kernel]), u.param)) loads_.rewrite(u.call, u.param, b, *panels);
      std::get<MatmulKernel>(m_.kernels[m_.calls[u.call].kernel]).b_panels_read = true;
    }
    m_.buffers[b].panels = true;
    note(fmt::format("stored once: its other readers find their elements in the panels of {} ({:.2f} % of the products' time)",
                     product_name, 100 * cost / products_ns_));
  }

  std::optional<Panels> form_of(const Use& u) const {
    MatmulKernel k = std::get<MatmulKernel>(m_.kernels[m_.calls[u.call].kernel]);
    k.b_panels_read = true;
    return shared_form(k, Arch::x86_64);
  }

  loop::Module& m_;
  PanelLoads loads_;
  double products_ns_ = 0;
};

}  // namespace

std::optional<forms::WeightForm> shared_form(const loop::Kernel& product, Arch arch) {
  if (arch == Arch::cuda) return forms::slabs_of(std::get<MatmulKernel>(product));
  const SymTable& syms = std::get<MatmulKernel>(product).syms;
  const Machine any = machine_of(Isa::avx2, 1);
  const forms::Choice choice = forms::decide({product, syms, any, {}}).choice;
  auto stored = choice.form->weight(product, choice);
  return stored ? std::optional(std::move(stored->second)) : std::nullopt;
}

void share_weights(loop::Module& m) { Sharer(m).run(); }

}  // namespace aotc::plan
