// Printer. The grammar is what parse.cpp reads: one thing a line, expressions in brackets.
#include "loop/text.h"

#include <fmt/format.h>

#include "loop/names.h"

namespace aotc::loop {
namespace {

class Printer {
 public:
  std::string take() { return std::move(out_); }

  void module(const Module& m) {
    line("module");
    for (size_t i = 0; i < m.syms.size(); ++i) shape_symbol(m.syms[static_cast<SymId>(i)]);
    for (size_t i = 0; i < m.buffers.size(); ++i) {
      const Buffer& b = m.buffers[static_cast<BufferId>(i)];
      line("buffer b{} {} {} {} {}{}", i, kBufferKinds.name(b.kind), b.index, quoted(b.name), type(b.type.dtype, b.type.dims, m.syms),
           b.panels ? " panels" : "");
    }
    for (const Kernel& k : m.kernels) kernel(k);
    for (const Call& c : m.calls) {
      std::string args;
      for (BufferId b : c.args) args += fmt::format("{}b{}", args.empty() ? "" : ", ", idx(b));
      std::string nodes;
      for (NodeId n : c.nodes) nodes += " " + std::to_string(idx(n));
      line("call {}({}) {}{}{}", kernel_name(m.kernels[c.kernel]), args, quoted(c.label), nodes.empty() ? "" : " nodes", nodes);
    }
    for (const WeightNote& n : m.weight_notes) line("weight b{} {}", idx(n.buffer), quoted(n.why));
    for (const FusionNote& n : m.notes) line("{} {} {}", n.prologue ? "prologue" : "note", idx(n.value), quoted(n.why));
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

  static std::string quoted(const std::string& s) {
    std::string q = "\"";
    for (char c : s) {
      if (c == '"' || c == '\\') q += '\\';
      q += c == '\n' ? ' ' : c;
    }
    return q + "\"";
  }
  static std::string list(const Exprs& es, const SymTable& syms) {
    std::string s = "[";
    for (const Expr& e : es) s += (s.size() > 1 ? ", " : "") + e.str(syms);
    return s + "]";
  }
  static std::string one(const Expr& e, const SymTable& syms) { return "[" + e.str(syms) + "]"; }
  static std::string type(DType t, const Exprs& dims, const SymTable& syms) { return std::string(dtype_name(t)) + list(dims, syms); }
  static std::string ints(const Ints& v) {
    std::string s = "[";
    for (int64_t i : v) s += (s.size() > 1 ? ", " : "") + std::to_string(i);
    return s + "]";
  }

  void shape_symbol(const SymInfo& s) {
    std::string text = fmt::format("sym {} [{}, {}]", s.name, s.min, s.max == kInf ? std::string("inf") : std::to_string(s.max));
    if (s.multiple_of != 1) text += fmt::format(" multiple_of {}", s.multiple_of);
    if (!s.tune.empty()) text += " tune " + ints(s.tune);
    line("{}", text);
  }

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
    for (const Param& p : ps) line("param {} {} {}", p.name, kRoles.name(p.role), type(p.dtype, p.dims, syms));
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
    if (!i.text.empty()) text += " " + quoted(i.text);
    line("{}", text);
  }

  void operand(const char* name, const Operand& o, const IdVec<ParamId, Param>& ps, const SymTable& s, const char* what) {
    if (o.prologue) {
      line("{} computed", name);
      return loop(*o.prologue, "prologue");
    }
    line("{} {} base {} batch {} row {} col {}{}", name, ps[o.param].name, one(o.base, s), list(o.batch_strides, s), one(o.row_stride, s),
         one(o.col_stride, s), what);
  }

  void print(const MatmulKernel& k) {
    head("matmul", k.name, k.nodes);
    params(k.params, k.syms);
    line("types {} {}", dtype_name(k.in), dtype_name(k.acc));
    line("batch {}", list(k.batch, k.syms));
    line("size {}", list({k.m, k.n, k.k}, k.syms));
    operand("a", k.a, k.params, k.syms, "");
    operand("b", k.b, k.params, k.syms, !k.b_constant ? "" : k.b_panels_read ? " constant panels" : " constant");
    for (const Segment& s : k.segments) {
      line("segment {}", list({s.n_begin, s.n_end}, k.syms));
      loop(s.epilogue, "epilogue");
    }
    tail();
  }

  void print(const ConvKernel& k) {
    head("conv", k.name, k.nodes);
    params(k.params, k.syms);
    line("types {} {}", dtype_name(k.in), dtype_name(k.acc));
    line("x {} {}", k.params[k.x].name, list(k.x_dims, k.syms));
    line("w {}{}{}", k.params[k.w].name, k.transposed ? " transposed" : "", k.w_constant ? " constant" : "");
    line("out {}", list(k.out_dims, k.syms));
    line("shape kernel {} stride {} padding {} {} dilation {} groups {}", ints(k.kernel), ints(k.stride), ints(k.padding),
         ints(k.padding_hi), ints(k.dilation), k.groups);
    loop(k.epilogue, "epilogue");
    tail();
  }

  void view(const char* name, const AttentionKernel::View& v, const AttentionKernel& k) {
    line("{} {} {}", name, k.params[v.param].name, list({v.base, v.b, v.h, v.s, v.e}, k.syms));
  }
  void print(const AttentionKernel& k) {
    head("attention", k.name, k.nodes);
    params(k.params, k.syms);
    line("type {}", dtype_name(k.dtype));
    line("size {}", list({k.batch, k.heads, k.kv_heads, k.q_len, k.kv_len, k.head_dim, k.v_dim}, k.syms));
    view("q", k.q, k);
    view("k", k.k, k);
    view("v", k.v, k);
    view("out", k.out, k);
    if (k.mask) view("mask", *k.mask, k);
    line("scale {}{}", k.scale, k.causal ? " causal" : "");
    tail();
  }

  void print(const LibraryKernel& k) {
    head("library", k.name, k.nodes);
    params(k.params, k.syms);
    line("algorithm {}", k.algorithm);
    for (const auto& [a, v] : k.attrs) line("attr {} {}", attr_name(a), attr(v, k.syms));
    line("sizes {}", list(k.sizes, k.syms));
    tail();
  }
  static std::string attr(const AttrValue& v, const SymTable& syms) {
    struct {
      const SymTable& syms;
      std::string operator()(bool b) const { return b ? "true" : "false"; }
      std::string operator()(int64_t i) const { return std::to_string(i); }
      std::string operator()(double d) const { return fmt::format("{}", d); }
      std::string operator()(const std::string& s) const { return quoted(s); }
      std::string operator()(const Ints& i) const { return ints(i); }
      std::string operator()(const Expr& e) const { return one(e, syms); }
      std::string operator()(const Exprs& e) const { return list(e, syms); }
    } text{syms};
    return std::visit(text, v);
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

}  // namespace aotc::loop
