#include "plan/strips.h"

#include <algorithm>

#include "aotc/detail/strips_abi.h"
#include "forms/cpu/cost.h"
#include "loop/attached.h"

namespace aotc::plan {

using forms::StripArg;
using forms::StripStage;
using loop::BufferId;
using loop::InstKind;
using loop::ParamId;
using loop::ParamRole;

namespace {

/// Tiles of a few pixels sum in another order than larger ones (kernels/cpu/micro.h): from so many columns on, what a pixel is does not
/// depend on the rows that are computed with it, and so not on the threads.
constexpr int64_t kLeastColumns = 16;

/// Images, rows and columns.
struct Grid {
  Expr images, height, width;
  Expr pixels() const { return images * height * width; }
};

/// A call of which some rows can be computed alone.
struct Stage {
  StripStage strip;
  ParamId x, out;
  BufferId x_buffer, out_buffer;
  std::optional<Grid> in, result;  ///< of convolutions; products are told by their neighbours
  Expr pixels;                     ///< of products
  int64_t x_pixel_bytes = 0, weight_bytes = 0;
  bool x_dense = true, out_dense = false;  ///< pixels follow each other
};

/// The loops of an epilogue that count pixels: of an image, or where `image` is not set of all of them.
struct Pixels {
  std::optional<SymId> image;
  SymId pixel;
  Expr plane;  ///< pixels of an image
};

/// How far parameter p moves with pixels and images, as the epilogue uses it.
std::optional<StripArg> moves(const loop::LoopKernel& e, ParamId p, const Pixels& at, const SymTable& syms) {
  std::optional<StripArg> all;
  const int64_t bytes = dtype_bytes(e.params[p].dtype);
  for (const loop::Inst& i : e.insts) {
    if ((i.kind != InstKind::load && i.kind != InstKind::store) || i.param != p) continue;
    const auto by_pixel = i.index.linear_coefficient(at.pixel);
    const auto by_image = at.image ? i.index.linear_coefficient(*at.image) : std::optional<Expr>(0);
    if (!by_pixel || !by_image || !by_pixel->as_const()) return std::nullopt;
    const auto rest = at.image ? syms.simplify(*by_image - *by_pixel * at.plane).as_const() : std::optional<int64_t>(0);
    if (!rest) return std::nullopt;
    const StripArg one{0, *by_pixel->as_const() * bytes, *rest * bytes};
    if (all && !(*all == one)) return std::nullopt;
    all = one;
  }
  return all ? all : StripArg{};
}

/// Whether the epilogue does the same in all rows, given where its arguments lie.
bool counts_rows(const loop::LoopKernel& e, const Pixels& at) {
  return std::any_of(e.insts.begin(), e.insts.end(), [&](const loop::Inst& i) {
    return i.kind == InstKind::index && (i.index.depends_on(at.pixel) || (at.image && i.index.depends_on(*at.image)));
  });
}

class Analysis {
 public:
  Analysis(const loop::Module& m, const SymTable& syms) : m_(m), syms_(syms) {}

  std::optional<Stage> stage(const loop::Call& c, const forms::Choice& choice) const {
    if (!choice.form->by_rows() || AOTC_GEMM_SIZES + 2 + m_.syms.size() > AOTC_STRIP_MAX_SIZES) return std::nullopt;
    const loop::Kernel& k = m_.kernels[c.kernel];
    Stage s;
    Pixels at;
    Expr channels;
    if (const auto* conv = std::get_if<loop::ConvKernel>(&k)) {
      if (!of_conv(*conv, &s)) return std::nullopt;
      at = {conv->epilogue.outer[0].sym, conv->epilogue.outer[1].sym, s.result->height * s.result->width};
      if (s.result->images.is(1)) at.image.reset();
      channels = conv->out_dims[1];
    } else if (const auto* product = std::get_if<loop::MatmulKernel>(&k)) {
      if (!of_product(*product, &s)) return std::nullopt;
      at.pixel = product->segments[0].epilogue.outer.back().sym;
      channels = product->n;
    } else {
      return std::nullopt;
    }
    return arguments(k, c, at, channels, &s) ? std::optional(std::move(s)) : std::nullopt;
  }

 private:
  static std::optional<int64_t> bytes_of(const Expr& elems, DType t) {
    const auto n = elems.as_const();
    return n ? std::optional(*n * dtype_bytes(t)) : std::nullopt;
  }

  bool of_conv(const loop::ConvKernel& k, Stage* s) const {
    if (!k.channels_last || k.transposed || k.kernel.size() != 2 || !k.w_constant || k.x == k.w) return false;
    const auto pixel = bytes_of(k.x_dims[1], k.in);
    const auto weight = bytes_of(floordiv(k.x_dims[1], k.groups) * k.out_dims[1] * k.kernel[0] * k.kernel[1], k.in);
    if (!pixel || !weight) return false;
    s->x = k.x, s->x_pixel_bytes = *pixel, s->weight_bytes = *weight;
    s->in = Grid{k.x_dims[0], k.x_dims[2], k.x_dims[3]};
    s->result = Grid{k.out_dims[0], k.out_dims[2], k.out_dims[3]};
    StripStage& r = s->strip;
    r.kernel = static_cast<int>(k.kernel[0]), r.stride = static_cast<int>(k.stride[0]);
    r.padding = static_cast<int>(k.padding[0]), r.dilation = static_cast<int>(k.dilation[0]);
    return true;
  }

  bool of_product(const loop::MatmulKernel& k, Stage* s) const {
    if (k.segments.size() != 1 || !k.b_constant || k.a.prologue || k.b.prologue || k.a.param == k.b.param) return false;
    if (k.runs || !product(k.batch).is(1) || !k.segments[0].n_begin.is(0)) return false;
    const auto pixel = bytes_of(k.a.row_stride, k.in), weight = bytes_of(k.k * k.n, k.in);
    if (!pixel || !weight || *pixel < 0) return false;
    s->x = k.a.param, s->x_pixel_bytes = *pixel, s->weight_bytes = *weight;
    s->x_dense = k.a.base.is(0) && k.a.col_stride.is(1) && k.a.row_stride == k.k;
    s->pixels = k.m;
    s->strip.product = true;
    return true;
  }

  bool arguments(const loop::Kernel& k, const loop::Call& c, const Pixels& at, const Expr& channels, Stage* s) const {
    const loop::LoopKernel& e = *loop::attached(k).back().loop;
    if (counts_rows(e, at) || loop::loads(e, s->x)) return false;
    const auto params = loop::argument_params(k);
    const auto& all = loop::kernel_params(k);
    if (params.size() > AOTC_STRIP_MAX_ARGS) return false;
    s->out = kNone<ParamId>;
    for (size_t i = 0; i < params.size(); ++i) {
      const ParamId p = params[i];
      std::optional<StripArg> a = p == s->x ? StripArg{0, s->x_pixel_bytes, 0} : StripArg{};
      if (p == s->x)
        s->strip.x = static_cast<int>(i), s->x_buffer = c.args[i];
      else if (e.params.contains(p))
        a = moves(e, p, at, syms_);
      if (!a || all[p].role == ParamRole::inout) return false;
      s->strip.args.push_back(*a);
      if (all[p].role != ParamRole::output) continue;
      if (s->out != kNone<ParamId>) return false;
      s->out = p, s->out_buffer = c.args[i];
    }
    const auto width = channels.as_const();
    if (s->out == kNone<ParamId> || !width) return false;
    s->strip.pixel_bytes = *width * dtype_bytes(all[s->out].dtype);
    s->out_dense = dense(e, s->out, at, *width);
    return true;
  }

  /// Every result is stored at (pixel of all images) * channels + channel.
  bool dense(const loop::LoopKernel& e, ParamId out, const Pixels& at, int64_t channels) const {
    Expr pixel = Expr::symbol(at.pixel);
    if (at.image) pixel += Expr::symbol(*at.image) * at.plane;
    const Expr place = pixel * channels + Expr::symbol(e.inner[0].sym);
    return std::all_of(e.insts.begin(), e.insts.end(), [&](const loop::Inst& i) {
      if (i.kind != InstKind::store || i.param != out) return true;
      SymMap first;  // the loops that run once
      for (const loop::LoopVar& v : e.outer)
        if (v.sym != at.pixel && v.sym != at.image) first[v.sym] = 0;
      return e.syms.proves_eq(i.index.substitute(first), place);
    });
  }

  const loop::Module& m_;
  const SymTable& syms_;
};

class Finder {
 public:
  Finder(const loop::Module& m, const SymTable& syms, const Machine& machine, const ChoiceOf& choice_of, const StripRules& rules)
      : m_(m), syms_(syms), machine_(machine), rules_(rules) {
    reads_.resize(m.buffers.size()), writes_.resize(m.buffers.size());
    const Analysis analysis(m, syms);
    for (const loop::Call& c : m.calls) {
      const auto params = loop::argument_params(m.kernels[c.kernel]);
      for (size_t i = 0; i < params.size(); ++i) {
        const loop::Param& p = loop::kernel_params(m.kernels[c.kernel])[params[i]];
        reads_[idx(c.args[i])] += loop::reads(p), writes_[idx(c.args[i])] += loop::writes(p);
      }
      stages_.push_back(analysis.stage(c, choice_of(c.kernel)));
    }
  }

  std::vector<StripGroup> run() {
    std::vector<StripGroup> groups;
    for (size_t i = 0; i < stages_.size();) {
      size_t end = i + 1;
      while (stages_[i] && end < stages_.size() && linked(end - 1)) ++end;
      tell_grids(i, end);
      while (i < end) {
        if (const auto g = best(i, end)) groups.push_back(*g);
        i = groups.empty() ? i + 1 : std::max(i + 1, groups.back().last);
      }
    }
    return groups;
  }

 private:
  /// Call i hands its result to the next one and to nobody else.
  bool linked(size_t i) const {
    const auto &a = stages_[i], &b = stages_[i + 1];
    if (!a || !b || !a->out_dense || !b->x_dense || a->out_buffer != b->x_buffer) return false;
    const BufferId handed = a->out_buffer;
    return m_.buffers[handed].kind == loop::BufferKind::temp && reads_[idx(handed)] == 1 && writes_[idx(handed)] == 1 &&
           a->strip.pixel_bytes == b->x_pixel_bytes;
  }

  /// Products get the grids of the convolutions beside them.
  void tell_grids(size_t begin, size_t end) {
    for (size_t i = begin + 1; i < end; ++i)
      if (stages_[i] && stages_[i]->strip.product && stages_[i - 1]->result) tell(i, *stages_[i - 1]->result);
    for (size_t i = end; i-- > begin + 1;)
      if (stages_[i - 1] && stages_[i - 1]->strip.product && stages_[i]->in) tell(i - 1, *stages_[i]->in);
  }
  void tell(size_t i, const Grid& g) {
    if (!stages_[i]->in && syms_.proves_eq(stages_[i]->pixels, g.pixels())) stages_[i]->in = stages_[i]->result = g;
  }
  bool same(const Grid& a, const Grid& b) const {
    return syms_.proves_eq(a.images, b.images) && syms_.proves_eq(a.height, b.height) && syms_.proves_eq(a.width, b.width);
  }

  bool wide(const Grid& g) const { return syms_.interval(g.width).min >= kLeastColumns; }

  int64_t of_l2(double share) const { return static_cast<int64_t>(share * static_cast<double>(machine_.l2_bytes)); }
  int64_t bytes(const Grid& g, int64_t pixel_bytes) const { return syms_.hint(g.pixels()) * pixel_bytes; }

  /// The longest group of calls from `begin` whose strips stay in L2 and each of whose handed activations would not.
  std::optional<StripGroup> best(size_t begin, size_t end) const {
    std::optional<StripGroup> found;
    for (size_t last = begin + 1; last < end && last - begin < AOTC_STRIP_MAX_STAGES; ++last) {
      const Stage &a = *stages_[last - 1], &b = *stages_[last];
      if (!a.result || !b.in || !same(*a.result, *b.in) || !wide(*a.result) || !wide(*b.result)) break;
      if (bytes(*a.result, a.strip.pixel_bytes) / machine_.cores < of_l2(rules_.handed_of_l2)) break;
      auto g = group(begin, last + 1);
      if (!g) break;
      found = std::move(g);
    }
    return found;
  }

  std::optional<StripGroup> group(size_t begin, size_t end) const {
    StripGroup g;
    g.first = begin, g.last = end;
    const Grid &in = *stages_[begin]->in, &out = *stages_[end - 1]->result;
    g.sizes = {in.images, in.height, in.width};
    for (size_t i = begin; i < end; ++i) {
      g.stages.push_back(stages_[i]->strip);
      if (i > begin) g.stages.back().args[static_cast<size_t>(stages_[i]->strip.x)].ptr = AOTC_STRIP_BEFORE;
      if (i + 1 < end) g.stages.back().args[out_argument(i)].ptr = AOTC_STRIP_OWN;
      g.sizes.push_back(stages_[i]->result->height), g.sizes.push_back(stages_[i]->result->width);
    }
    const int64_t height = std::max<int64_t>(1, syms_.hint(out.height)), images = std::max<int64_t>(1, syms_.hint(out.images));
    for (int64_t parts = 1; parts <= height; ++parts) {
      const int64_t rows = forms::cpu::ceil_div(height, parts);
      if (forms::cpu::ceil_div(height, rows) != parts) continue;
      if (rows < 2 && height > 1) return std::nullopt;
      if (images * parts % machine_.cores && images * parts < 8 * machine_.cores) continue;
      if (strip_bytes(g, rows) > of_l2(rules_.kept_of_l2)) continue;
      g.rows = static_cast<int>(rows);
      const std::vector<int64_t> needed = forms::rows_of_strip(g.stages, rows);
      for (size_t i = begin; i + 1 < end; ++i)
        g.kept_bytes += stages_[i]->result->width * (needed[i - begin] * stages_[i]->strip.pixel_bytes) + 64;
      for (size_t i = begin; i + 1 < end; ++i) g.handed_bytes += bytes(*stages_[i]->result, stages_[i]->strip.pixel_bytes);
      g.work = out.images * ceildiv(out.height, rows);
      return g;
    }
    return std::nullopt;
  }

  size_t out_argument(size_t call) const {
    return static_cast<size_t>(loop::argument_index(m_.kernels[m_.calls[call].kernel], stages_[call]->out));
  }

  /// What a strip and its weights take of L2.
  int64_t strip_bytes(const StripGroup& g, int64_t rows) const {
    const std::vector<int64_t> needed = forms::rows_of_strip(g.stages, rows);
    const Stage& first = *stages_[g.first];
    const StripStage& f = g.stages[0];
    int64_t sum = aotc_strip_rows(f.kernel, f.stride, f.dilation, needed[0]) * syms_.hint(first.in->width) * first.x_pixel_bytes;
    for (size_t i = g.first; i < g.last; ++i) {
      const Stage& s = *stages_[i];
      sum += s.weight_bytes + needed[i - g.first] * syms_.hint(s.result->width) * s.strip.pixel_bytes;
    }
    return sum;
  }

  const loop::Module& m_;
  const SymTable& syms_;
  const Machine& machine_;
  const StripRules rules_;
  std::vector<int> reads_, writes_;           ///< by buffer: how many arguments
  std::vector<std::optional<Stage>> stages_;  ///< by call
};

}  // namespace

std::vector<StripGroup> find_strips(const loop::Module& m, const SymTable& syms, const Machine& machine, const ChoiceOf& choice_of,
                                    const StripRules& rules) {
  if (!machine.traits().strips) return {};
  return Finder(m, syms, machine, choice_of, rules).run();
}

forms::Strips strips_of(const StripGroup& g, const std::vector<Step>& steps) {
  forms::Strips s;
  s.rows = g.rows;
  s.stages = g.stages;
  int next = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    forms::StripStage& stage = s.stages[i];
    stage.config = steps[i].config, stage.symbol = steps[i].symbol, stage.sizes = static_cast<int>(steps[i].sizes.size());
    for (StripArg& a : stage.args)
      if (a.ptr >= 0) a.ptr = next++;
    const auto scratch = steps[i].scratch_bytes.as_const();
    AOTC_CHECK(scratch, "scratch of {} depends on the shape", steps[i].label);
    s.scratch_bytes = std::max(s.scratch_bytes, (*scratch + 63) / 64 * 64);
  }
  return s;
}

Step strips_step(const StripGroup& g, const std::vector<Step>& steps, const SymTable& syms) {
  Step out;
  out.library = true;
  out.symbol = "aotc_strips";
  out.sizes = g.sizes;
  out.work = syms.simplify(g.work);
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& s = steps[i];
    out.sizes.insert(out.sizes.end(), s.sizes.begin(), s.sizes.end());
    out.label += (out.label.empty() ? "" : "; ") + s.label;
    for (size_t a = 0; a < s.args.size(); ++a)
      if (g.stages[i].args[a].ptr >= 0) out.args.push_back(s.args[a]);
  }
  out.note = fmt::format("strips of {} rows: of {} bytes that {} kernels hand on {} are kept", g.rows, g.handed_bytes, steps.size(),
                         syms.hint(g.kept_bytes));
  out.scratch_bytes = syms.simplify(g.kept_bytes + strips_of(g, steps).scratch_bytes);
  return out;
}

}  // namespace aotc::plan
