#include "plan/slab_weights.h"

#include <algorithm>
#include <map>
#include <optional>

#include "forms/slabs.h"
#include "plan/panel_loads.h"

namespace aotc::plan {

using loop::BufferId;
using loop::KernelId;
using loop::MatmulKernel;
using loop::ParamId;

namespace {

class Slabber {
 public:
  explicit Slabber(loop::Module& m) : m_(m), loads_(m) {}

  void run() {
    for (size_t b = 0; b < m_.buffers.size(); ++b)
      if (m_.buffers.raw()[b].kind == loop::BufferKind::constant) consider(static_cast<BufferId>(b));
    // A product's kernel serves several calls: all of its weights are in slabs, or none.
    for (bool again = true; again;) {
      again = false;
      for (auto it = slabs_.begin(); it != slabs_.end();) {
        const std::string why = not_alike(it->first);
        if (why.empty()) {
          ++it;
          continue;
        }
        dense(it->first, why);
        it = slabs_.erase(it);
        again = true;
      }
    }
    for (const auto& [b, panels] : slabs_) rewrite(b, panels);
  }

 private:
  const loop::Kernel& kernel_of(const Use& u) const { return m_.kernels[m_.calls[u.call].kernel]; }
  /// As which product's weight the use takes it.
  const MatmulKernel* product_of(const Use& u) const {
    const auto* k = std::get_if<MatmulKernel>(&kernel_of(u));
    return k && is_few_bits(*k, u.param) ? k : nullptr;
  }
  void note(BufferId b, std::string why) { m_.weight_notes.push_back({b, std::move(why)}); }
  void dense(BufferId b, const std::string& why) { note(b, "stored as it is, and in slabs for forms that take these: " + why); }

  void consider(BufferId b) {
    std::optional<Panels> panels;
    std::string also;
    for (const Use& u : uses_of(m_, b)) {
      const MatmulKernel* k = product_of(u);
      if (k) {
        const auto of = forms::slabs_of(*k);
        if (!of || (panels && *of != *panels)) also = k->name + " takes it otherwise";
        panels = panels ? panels : of;
      } else if (!only_loads(kernel_of(u), u.param)) {
        also = loop::kernel_name(kernel_of(u)) + " takes it dense";
      }
    }
    if (!panels) return;
    if (also.empty() && !panel_index(*panels, m_.buffers[b].type.elems().as_const().value_or(0), 0, m_.syms))
      also = "a product takes a part of it";
    if (!also.empty()) return dense(b, also);
    slabs_.emplace(b, *panels);
  }

  /// Whether the kernel reads the parameter by loads of its loops alone.
  static bool only_loads(const loop::Kernel& kernel, ParamId p) {
    if (std::holds_alternative<loop::LoopKernel>(kernel)) return true;
    if (const auto* k = std::get_if<MatmulKernel>(&kernel))
      return k->a.param != p && k->b.param != p && !(k->twin && k->twin->param == p) && !(k->runs && k->runs->ends == p);
    if (const auto* k = std::get_if<loop::ConvKernel>(&kernel)) return k->x != p && k->w != p;
    return false;
  }

  std::string not_alike(BufferId b) const {
    const auto own = slabs_.find(b);
    for (const Use& u : uses_of(m_, b)) {
      if (!product_of(u)) continue;
      const KernelId kernel = m_.calls[u.call].kernel;
      const auto params = loop::argument_params(m_.kernels[kernel]);
      const auto at = static_cast<size_t>(std::find(params.begin(), params.end(), u.param) - params.begin());
      for (const loop::Call& c : m_.calls) {
        if (c.kernel != kernel) continue;
        const auto other = slabs_.find(c.args.at(at));
        if (other == slabs_.end() || other->second != own->second)
          return loop::kernel_name(m_.kernels[kernel]) + " takes another one dense";
      }
    }
    return {};
  }

  void rewrite(BufferId b, const Panels& panels) {
    std::string reader;
    for (const Use& u : uses_of(m_, b)) {
      if (product_of(u)) {
        loads_.rewrite_kernel(m_.calls[u.call].kernel, u.param, *m_.buffers[b].type.elems().as_const(), panels);
        std::get<MatmulKernel>(m_.kernels[m_.calls[u.call].kernel]).b_panels_read = true;
      } else {
        loads_.rewrite(u.call, u.param, b, panels);
        reader = loop::kernel_name(m_.kernels[m_.calls[u.call].kernel]);
      }
    }
    m_.buffers[b].panels = true;
    if (!reader.empty()) note(b, "stored once, in slabs, in which " + reader + " finds its elements, too");
  }

  loop::Module& m_;
  PanelLoads loads_;
  std::map<BufferId, Panels> slabs_;
};

}  // namespace

void slab_weights(loop::Module& m) { Slabber(m).run(); }

}  // namespace aotc::plan
