// Printer. The grammar is what parse.cpp reads: one thing a line, expressions in brackets.
#include "loop/text.h"

#include <fmt/format.h>

#include "graph/text.h"
#include "loop/names.h"
#include "sym/text_reader.h"

#include "aotc/detail/blob_hash.h"
#include "loop/attached.h"

namespace aotc::loop {
namespace {

class Printer {
 public:
  std::string take() { return std::move(out_); }

  void module(const Module& m) {
    line("module");
    for (size_t i = 0; i < m.syms.size(); ++i) line("{}", symbol_text(m.syms[static_cast<SymId>(i)]));
    for (size_t i = 0; i < m.buffers.size(); ++i) {
      const Buffer& b = m.buffers[static_cast<BufferId>(i)];
      line("buffer b{} {} {} {} {}{}{}", i, kBufferKinds.name(b.kind), b.index, quoted_text(b.name), aotc::print(b.type, m.syms),
           b.panels ? " panels" : "", b.alias_input < 0 ? "" : fmt::format(" alias_input {}", b.alias_input));
    }
    for (const Kernel& k : m.kernels) kernel(k);
    for (const Call& c : m.calls) {
      std::string args;
      for (BufferId b : c.args) args += fmt::format("{}b{}", args.empty() ? "" : ", ", idx(b));
      std::string nodes;
      for (NodeId n : c.nodes) nodes += " " + std::to_string(idx(n));
      line("call {}({}) {}{}{}", kernel_name(m.kernels[c.kernel]), args, quoted_text(c.label), nodes.empty() ? "" : " nodes", nodes);
    }
    for (const WeightNote& n : m.weight_notes) line("weight b{} {}", idx(n.buffer), quoted_text(n.why));
    for (const FusionNote& n : m.notes) line("{} {} {}", n.prologue ? "prologue" : "note", idx(n.value), quoted_text(n.why));
  }

  void kernel(const Kernel& k) {
    std::visit([this](const auto& x) { print(x); }, k);
  }

 private:
  template <class... A>
  void line(fmt::format_string<A...> f, A&&... a) {
    out_.append(static_cast<size_t>(indent_) * 2, ' ');
    fmt::format_to(std::back_inserter(out_), f, std::forward<A>(a)...);
    out_ += '\n';
  }

  static std::string one(const Expr& e, const SymTable& syms) { return "[" + e.str(syms) + "]"; }

  void head(const char* what, const std::string& name, const std::vector<NodeId>& nodes) {
    line("{} {} {{", what, name.empty() ? "_" : name);
    ++indent_;
    if (nodes.empty()) return;
    std::string text = "nodes";
    for (NodeId n : nodes) text += " " + std::to_string(idx(n));
    line("{}", text);
  }
  void tail() {
    --indent_;
    line("}}");
  }
  void params(const IdVec<ParamId, Param>& ps, const SymTable& syms) {
    for (const Param& p : ps) line("param {} {} {}", p.name, kRoles.name(p.role), aotc::print(TensorType{p.dtype, p.dims}, syms));
  }

  void print(const LoopKernel& k) { loop(k, "loop"); }

  void loop(const LoopKernel& k, const char* what) {
    head(what, k.name, k.nodes);
    params(k.params, k.syms);
    for (const LoopVar& v : k.outer) line("outer {} [{}]", k.syms[v.sym].name, v.extent.str(k.syms));
    for (const LoopVar& v : k.inner) line("inner {} [{}]", k.syms[v.sym].name, v.extent.str(k.syms));
    for (size_t i = 0; i < k.syms.size(); ++i)
      if (const SymInfo& s = k.syms[static_cast<SymId>(i)]; s.kind == SymKind::value) line("value {} [{}]", s.name, s.extent->str(k.syms));
    line("lanes {}", kLanes.name(k.lanes));
    for (const Block& b : k.blocks) {
      line("{}:", b.over_inner ? "each_inner" : "each_outer");
      ++indent_;
      for (InstId i : b.insts) inst(k, i);
      --indent_;
    }
    tail();
  }

  static std::string imm(const Inst& i) { return is_float(i.dtype) ? fmt::format("{}", i.imm_f) : std::to_string(i.imm_i); }

  void inst(const LoopKernel& k, InstId id) {
    const Inst& i = k.insts[id];
    std::string text = fmt::format("v{} = {}", idx(id), kInsts.name(i.kind));
    if (i.kind == InstKind::op) text += fmt::format(" {}", op_name(i.op));
    if (i.kind == InstKind::reduce || i.kind == InstKind::scan) text += fmt::format(" {}", reduce_name(i.reduce_kind));
    text += fmt::format(" {}", dtype_name(i.dtype));
    if (i.kind == InstKind::constant) text += " " + imm(i);
    if (i.param != kNone<ParamId>) text += " " + k.params[i.param].name;
    if (i.param != kNone<ParamId> || i.kind == InstKind::index) text += (i.param == kNone<ParamId> ? " " : "") + one(i.index, k.syms);
    for (size_t a = 0; a < i.args.size(); ++a) text += fmt::format("{} v{}", a ? "," : "", idx(i.args[a]));
    if (i.mask != kNone<InstId>) text += fmt::format(" mask v{}", idx(i.mask));
    if (i.mask != kNone<InstId> && i.kind == InstKind::load) text += " else " + imm(i);
    if (i.bind != kNone<SymId>) text += " bind " + k.syms[i.bind].name;
    if (!i.text.empty()) text += " " + quoted_text(i.text);
    line("{}", text);
  }

  void operand(const char* name, const Operand& o, const IdVec<ParamId, Param>& ps, const SymTable& s, const char* what) {
    if (o.prologue) {
      line("{} computed", name);
      return loop(*o.prologue, "prologue");
    }
    line("{} {} base {} batch {} row {} col {}{}", name, ps[o.param].name, one(o.base, s), list_text(o.batch_strides, s),
         one(o.row_stride, s), one(o.col_stride, s), what);
  }

  void quantised(const char* name, const QuantisedWeight& q, const MatmulKernel& k) {
    line("{} {}{}{} group {} bits {}{}{}", name, k.params[q.values].name,
         q.scales == kNone<ParamId> ? "" : " scales " + k.params[q.scales].name,
         q.offsets == kNone<ParamId> ? "" : " offsets " + k.params[q.offsets].name, q.group, q.bits, q.by_column ? " by_column" : "",
         k.b_panels_read ? " panels" : "");
  }

  void print(const MatmulKernel& k) {
    head("matmul", k.name, k.nodes);
    params(k.params, k.syms);
    line("types {} {}", dtype_name(k.in), dtype_name(k.acc));
    line("batch {}", list_text(k.batch, k.syms));
    line("size {}{}", list_text({k.m, k.n, k.k}, k.syms), k.ordered ? " ordered" : "");
    operand("a", k.a, k.params, k.syms, "");
    operand("b", k.b, k.params, k.syms, !k.b_constant ? "" : k.b_panels_read ? " constant panels" : " constant");
    if (k.twin) operand("twin", *k.twin, k.params, k.syms, "");
    if (k.runs) line("runs {} count {} stride {}", k.params[k.runs->ends].name, one(k.runs->count, k.syms), one(k.runs->stride, k.syms));
    if (k.b_quantised) quantised("quantised", *k.b_quantised, k);
    if (k.twin_quantised) quantised("twin_quantised", *k.twin_quantised, k);
    for (const Segment& s : k.segments) {
      line("segment {}{}", list_text({s.n_begin, s.n_end}, k.syms), s.mates ? fmt::format(" mates {}", s.mates) : "");
      loop(s.epilogue, "epilogue");
    }
    tail();
  }

  void print(const ConvKernel& k) {
    head("conv", k.name, k.nodes);
    params(k.params, k.syms);
    line("types {} {}", dtype_name(k.in), dtype_name(k.acc));
    line("x {} {}", k.params[k.x].name, list_text(k.x_dims, k.syms));
    line("w {}{}{}", k.params[k.w].name, k.transposed ? " transposed" : "", k.w_constant ? " constant" : "");
    line("out {}", list_text(k.out_dims, k.syms));
    line("shape kernel {} stride {} padding {} {} dilation {} groups {}", list_text(k.kernel), list_text(k.stride), list_text(k.padding),
         list_text(k.padding_hi), list_text(k.dilation), k.groups);
    if (k.around) line("around {}", k.around);
    if (k.channels_last) line("channels_last");
    if (k.ordered) line("ordered");
    loop(k.epilogue, "epilogue");
    tail();
  }

  void view(const char* name, const AttentionKernel::View& v, const AttentionKernel& k) {
    line("{} {} {}", name, k.params[v.param].name, list_text({v.base, v.b, v.h, v.s, v.e}, k.syms));
  }
  void print(const AttentionKernel& k) {
    head("attention", k.name, k.nodes);
    params(k.params, k.syms);
    line("type {}", dtype_name(k.dtype));
    line("size {}", list_text({k.batch, k.heads, k.kv_heads, k.q_len, k.kv_len, k.head_dim, k.v_dim}, k.syms));
    view("q", k.q, k);
    view("k", k.k, k);
    view("v", k.v, k);
    view("out", k.out, k);
    if (k.mask) view("mask", *k.mask, k);
    if (k.shown) view("shown_from", k.shown->from, k), view("shown_end", k.shown->end, k);
    if (k.sinks) view("sinks", *k.sinks, k);
    if (k.row_scales) view("scales_k", k.row_scales->k, k), view("scales_v", k.row_scales->v, k);
    line("scale {}{}{}{}", k.scale, k.causal ? " causal" : "", k.nan_rows ? " nan_rows" : "", k.mask_fills ? " mask_fills" : "");
    tail();
  }

  void print(const LibraryKernel& k) {
    head("library", k.name, k.nodes);
    params(k.params, k.syms);
    line("algorithm {}", k.algorithm);
    for (const auto& [a, v] : k.attrs) line("attr {} {}", attr_name(a), attr_text(v, k.syms));
    line("sizes {}", list_text(k.sizes, k.syms));
    if (k.weight) line("weight {}", k.params[*k.weight].name);
    tail();
  }

  std::string out_;
  int indent_ = 0;
};

}  // namespace

std::string print(const Module& m) {
  Printer p;
  p.module(m);
  return p.take();
}

std::string print(const Kernel& k, const Module*) {
  Printer p;
  p.kernel(k);
  return p.take();
}

std::string structure(Kernel k) {
  std::visit([](auto& x) { x.name.clear(), x.nodes.clear(); }, k);
  for_each_attached(k, [](LoopKernel& attached) { attached.name.clear(), attached.nodes.clear(); });
  return print(k);
}

uint64_t structure_hash(const Kernel& k) {
  const std::string text = structure(k);
  return aotc_blob_hash(text.data(), text.size());
}

}  // namespace aotc::loop
