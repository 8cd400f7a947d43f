// Parser of the text that text.cpp prints. Symbols must be declared before use: shape symbols at the top, loop and value symbols in
// their kernel.
#include <fmt/format.h>

#include "graph/infer.h"
#include "graph/text.h"
#include "loop/names.h"
#include "loop/text.h"
#include "loop/verify.h"
#include "sym/text_reader.h"

namespace aotc::loop {
namespace {

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : in_(text, file) {}

  Module module() {
    in_.need_line();
    in_.want_word("module");
    in_.end_line();
    while (in_.next_line()) {
      if (in_.accept_word("sym"))
        m_.syms.add(in_.symbol(m_.syms));
      else if (in_.accept_word("buffer"))
        buffer();
      else if (in_.accept_word("call"))
        call();
      else if (in_.accept_word("weight"))
        weight();
      else if (in_.accept_word("note"))
        note(false);
      else if (in_.accept_word("prologue"))
        note(true);
      else
        kernel();
      in_.end_line();
    }
    return std::move(m_);
  }

 private:
  void need_line() {
    in_.end_line();
    in_.need_line();
  }
  Expr one(const SymTable& syms) {
    in_.want('[');
    Expr e = in_.expr(syms);
    in_.want(']');
    return e;
  }
  Exprs sized(size_t n, const SymTable& syms) {
    const TextReader::Place at = in_.place();
    Exprs es = in_.exprs(syms);
    if (es.size() != n) in_.fail(at, fmt::format("expected {} expressions", n));
    return es;
  }
  DType dtype() {
    auto t = parse_dtype(in_.word());
    if (!t) in_.fail("expected an element type");
    return *t;
  }
  template <class W>
  auto named(const W& words, const char* what) {
    auto e = words.parse(in_.word());
    if (!e) in_.fail(fmt::format("expected {}", what));
    return *e;
  }
  template <class Id>
  Id id(char prefix) {
    if (!in_.accept(prefix)) in_.fail(fmt::format("expected '{}' and a number", prefix));
    return number<Id>();
  }
  template <class Id>
  Id number() {
    return static_cast<Id>(in_.integer(0, INT32_MAX));
  }

  // ----------------------------------------------------------------------------------------------------------------- module
  void buffer() {
    if (id<BufferId>('b') != static_cast<BufferId>(m_.buffers.size())) in_.fail("buffers are numbered in order");
    Buffer b;
    b.kind = named(kBufferKinds, "a kind of buffer");
    b.index = static_cast<uint32_t>(in_.integer(0, INT32_MAX));
    b.name = in_.string();
    b.type.dtype = dtype();
    b.type.dims = in_.exprs(m_.syms);
    b.panels = in_.accept_word("panels");
    if (in_.accept_word("alias_input")) b.alias_input = static_cast<int32_t>(in_.integer(0, INT32_MAX));
    m_.buffers.push(std::move(b));
  }
  void call() {
    Call c;
    const auto kernel = kernel_ids_.find(in_.word());
    if (kernel == kernel_ids_.end()) in_.fail("no such kernel");
    c.kernel = kernel->second;
    in_.want('(');
    if (!in_.accept(')')) {
      do c.args.push_back(id<BufferId>('b'));
      while (in_.accept(','));
      in_.want(')');
    }
    c.label = in_.string();
    if (in_.accept_word("nodes"))
      while (!in_.at_end()) c.nodes.push_back(number<NodeId>());
    m_.calls.push_back(std::move(c));
  }
  void weight() {
    WeightNote n;
    n.buffer = id<BufferId>('b');
    n.why = in_.string();
    m_.weight_notes.push_back(std::move(n));
  }
  void note(bool prologue) {
    FusionNote n;
    n.prologue = prologue;
    n.value = number<ValueId>();
    n.why = in_.string();
    m_.notes.push_back(std::move(n));
  }

  // ---------------------------------------------------------------------------------------------------------------- kernels
  void kernel() {
    Kernel k;
    if (in_.accept_word("loop"))
      k = loop();
    else if (in_.accept_word("matmul"))
      k = matmul();
    else if (in_.accept_word("conv"))
      k = conv();
    else if (in_.accept_word("attention"))
      k = attention();
    else if (in_.accept_word("library"))
      k = library();
    else
      in_.fail("expected sym, buffer, a kernel (loop, matmul, conv, attention, library), call, note or prologue");
    const std::string name = kernel_name(k);
    if (kernel_ids_.count(name)) in_.fail(fmt::format("kernel {} is defined twice", name));
    kernel_ids_[name] = m_.kernels.push(std::move(k));
  }
  template <class K>
  void head(K& k) {
    const std::string_view name = in_.word();
    if (name != "_") k.name = name;
    in_.want('{');
    k.syms = m_.syms;
    need_line();
    if (in_.accept_word("nodes")) {
      while (!in_.at_end()) k.nodes.push_back(number<NodeId>());
      need_line();
    }
    while (in_.accept_word("param")) {
      Param p;
      p.name = in_.word();
      for (const Param& other : k.params)
        if (other.name == p.name) in_.fail(fmt::format("parameter {} is defined twice", p.name));
      p.role = named(kRoles, "a role");
      p.dtype = dtype();
      p.dims = in_.exprs(k.syms);
      k.params.push(std::move(p));
      need_line();
    }
  }
  ParamId param(const IdVec<ParamId, Param>& params) {
    const std::string_view name = in_.word();
    for (size_t i = 0; i < params.size(); ++i)
      if (params[static_cast<ParamId>(i)].name == name) return static_cast<ParamId>(i);
    in_.fail(fmt::format("no such parameter: {}", name));
  }
  void tail() { in_.want('}'); }

  SymId declare(LoopKernel& k, SymKind kind) {
    SymInfo s;
    s.name = in_.word();
    if (k.syms.find(s.name)) in_.fail(fmt::format("symbol {} is defined twice", s.name));
    s.kind = kind;
    s.extent = one(k.syms);
    return k.syms.add(std::move(s));
  }

  LoopKernel loop() {
    LoopKernel k;
    head(k);
    for (;; need_line()) {
      const bool outer = in_.accept_word("outer");
      if (!outer && !in_.accept_word("inner")) break;
      const SymId s = declare(k, SymKind::loop);
      (outer ? k.outer : k.inner).push_back({s, *k.syms[s].extent});
    }
    for (; in_.accept_word("value"); need_line()) declare(k, SymKind::value);
    in_.want_word("lanes");
    k.lanes = named(kLanes, "inner, outer or none");
    for (need_line(); in_.peek() != '}'; need_line()) {
      const bool outer = in_.accept_word("each_outer");
      if (outer || in_.accept_word("each_inner")) {
        k.blocks.push_back({!outer, {}});
        in_.want(':');
        continue;
      }
      if (k.blocks.empty()) in_.fail("an instruction outside a block");
      k.blocks.back().insts.push_back(inst(k));
    }
    tail();
    return k;
  }

  InstId inst(LoopKernel& k) {
    if (id<InstId>('v') != static_cast<InstId>(k.insts.size())) in_.fail("instructions are numbered in order");
    in_.want('=');
    Inst i;
    i.kind = named(kInsts, "a kind of instruction");
    if (i.kind == InstKind::op) {
      auto op = parse_op(in_.word());
      if (!op) in_.fail("no such operator");
      i.op = *op;
    }
    if (i.kind == InstKind::reduce || i.kind == InstKind::scan) {
      auto r = parse_reduce(in_.word());
      if (!r) in_.fail("no such reduction");
      i.reduce_kind = *r;
    }
    i.dtype = dtype();
    auto imm = [&] {
      if (is_float(i.dtype))
        i.imm_f = in_.real();
      else
        i.imm_i = in_.integer();
    };
    if (i.kind == InstKind::constant) imm();
    if (i.kind == InstKind::load || i.kind == InstKind::store) {
      i.param = param(k.params);
      i.index = one(k.syms);
    }
    if (i.kind == InstKind::index) i.index = one(k.syms);
    if (in_.peek() == 'v') do
        i.args.push_back(id<InstId>('v'));
      while (in_.accept(','));
    if (in_.accept_word("mask")) i.mask = id<InstId>('v');
    if (in_.accept_word("else")) imm();
    if (in_.accept_word("bind")) {
      auto s = k.syms.find(in_.word());
      if (!s) in_.fail("no such symbol");
      i.bind = *s;
    }
    if (in_.peek() == '"') i.text = in_.string();
    if (!in_.at_end()) in_.fail("unexpected text after the instruction");
    return k.insts.push(std::move(i));
  }

  Operand operand(const char* name, const MatmulKernel& k) {
    in_.want_word(name);
    return operand_after(k);
  }
  Operand operand_after(const MatmulKernel& k) {
    Operand o;
    if (in_.accept_word("computed")) {
      need_line();
      in_.want_word("prologue");
      o.prologue = loop();
      return o;
    }
    o.param = param(k.params);
    in_.want_word("base");
    o.base = one(k.syms);
    in_.want_word("batch");
    o.batch_strides = in_.exprs(k.syms);
    in_.want_word("row");
    o.row_stride = one(k.syms);
    in_.want_word("col");
    o.col_stride = one(k.syms);
    return o;
  }

  QuantisedWeight quantised_after(MatmulKernel& k) {
    QuantisedWeight q;
    q.values = param(k.params);
    if (in_.accept_word("scales")) q.scales = param(k.params);
    if (in_.accept_word("offsets")) q.offsets = param(k.params);
    in_.want_word("group");
    q.group = in_.integer();
    in_.want_word("bits");
    q.bits = static_cast<int>(in_.integer());
    q.by_column = in_.accept_word("by_column");
    k.b_panels_read = in_.accept_word("panels");
    need_line();
    return q;
  }

  MatmulKernel matmul() {
    MatmulKernel k;
    head(k);
    in_.want_word("types");
    k.in = dtype();
    k.acc = dtype();
    need_line();
    in_.want_word("batch");
    k.batch = in_.exprs(k.syms);
    need_line();
    in_.want_word("size");
    const Exprs size = sized(3, k.syms);
    k.m = size[0];
    k.n = size[1];
    k.k = size[2];
    k.ordered = in_.accept_word("ordered");
    need_line();
    k.a = operand("a", k);
    need_line();
    k.b = operand("b", k);
    k.b_constant = in_.accept_word("constant");
    k.b_panels_read = in_.accept_word("panels");
    need_line();
    if (in_.accept_word("twin")) {
      k.twin = operand_after(k);
      need_line();
    }
    if (in_.accept_word("runs")) {
      Runs& r = k.runs.emplace();
      r.ends = param(k.params);
      in_.want_word("count");
      r.count = one(k.syms);
      in_.want_word("stride");
      r.stride = one(k.syms);
      need_line();
    }
    if (in_.accept_word("quantised")) k.b_quantised = quantised_after(k);
    if (in_.accept_word("twin_quantised")) k.twin_quantised = quantised_after(k);
    for (; in_.accept_word("segment"); need_line()) {
      Segment s;
      const Exprs range = sized(2, k.syms);
      s.n_begin = range[0];
      s.n_end = range[1];
      if (in_.accept_word("mates")) s.mates = in_.integer();
      need_line();
      in_.want_word("epilogue");
      s.epilogue = loop();
      k.segments.push_back(std::move(s));
    }
    tail();
    return k;
  }

  ConvKernel conv() {
    ConvKernel k;
    head(k);
    in_.want_word("types");
    k.in = dtype();
    k.acc = dtype();
    need_line();
    in_.want_word("x");
    k.x = param(k.params);
    k.x_dims = in_.exprs(k.syms);
    need_line();
    in_.want_word("w");
    k.w = param(k.params);
    k.transposed = in_.accept_word("transposed");
    k.w_constant = in_.accept_word("constant");
    need_line();
    in_.want_word("out");
    k.out_dims = in_.exprs(k.syms);
    need_line();
    in_.want_word("shape");
    in_.want_word("kernel");
    k.kernel = in_.integers();
    in_.want_word("stride");
    k.stride = in_.integers();
    in_.want_word("padding");
    k.padding = in_.integers();
    k.padding_hi = in_.integers();
    in_.want_word("dilation");
    k.dilation = in_.integers();
    in_.want_word("groups");
    k.groups = in_.integer();
    need_line();
    if (in_.accept_word("around")) {
      k.around = in_.integer();
      need_line();
    }
    if (k.channels_last = in_.accept_word("channels_last"); k.channels_last) need_line();
    if (k.ordered = in_.accept_word("ordered"); k.ordered) need_line();
    in_.want_word("epilogue");
    k.epilogue = loop();
    need_line();
    tail();
    return k;
  }

  AttentionKernel::View view(const char* name, const AttentionKernel& k) {
    if (name) in_.want_word(name);
    AttentionKernel::View v;
    v.param = param(k.params);
    const Exprs e = sized(5, k.syms);
    v.base = e[0];
    v.b = e[1];
    v.h = e[2];
    v.s = e[3];
    v.e = e[4];
    return v;
  }
  AttentionKernel attention() {
    AttentionKernel k;
    head(k);
    in_.want_word("type");
    k.dtype = dtype();
    need_line();
    in_.want_word("size");
    const Exprs s = sized(7, k.syms);
    Expr* to[] = {&k.batch, &k.heads, &k.kv_heads, &k.q_len, &k.kv_len, &k.head_dim, &k.v_dim};
    for (size_t i = 0; i < 7; ++i) *to[i] = s[i];
    need_line();
    k.q = view("q", k);
    need_line();
    k.k = view("k", k);
    need_line();
    k.v = view("v", k);
    need_line();
    k.out = view("out", k);
    need_line();
    if (in_.accept_word("mask")) {
      k.mask = view(nullptr, k);
      need_line();
    }
    if (in_.accept_word("shown_from")) {
      const AttentionKernel::View from = view(nullptr, k);
      need_line();
      k.shown = AttentionKernel::Shown{from, view("shown_end", k)};
      need_line();
    }
    if (in_.accept_word("sinks")) {
      k.sinks = view(nullptr, k);
      need_line();
    }
    if (in_.accept_word("scales_k")) {
      const AttentionKernel::View of_k = view(nullptr, k);
      need_line();
      k.row_scales = AttentionKernel::RowScales{of_k, view("scales_v", k)};
      need_line();
    }
    in_.want_word("scale");
    k.scale = in_.real();
    k.causal = in_.accept_word("causal");
    k.nan_rows = in_.accept_word("nan_rows");
    k.mask_fills = in_.accept_word("mask_fills");
    need_line();
    tail();
    return k;
  }

  LibraryKernel library() {
    LibraryKernel k;
    head(k);
    in_.want_word("algorithm");
    k.algorithm = in_.word();
    need_line();
    for (; in_.accept_word("attr"); need_line()) {
      auto a = parse_attr(in_.word());
      if (!a) in_.fail("no such attribute");
      k.attrs[*a] = read_attr(in_, *a, k.syms);
    }
    in_.want_word("sizes");
    k.sizes = in_.exprs(k.syms);
    need_line();
    if (in_.accept_word("weight")) {
      k.weight = param(k.params);
      need_line();
    }
    tail();
    return k;
  }

  TextReader in_;
  Module m_;
  std::map<std::string, KernelId, std::less<>> kernel_ids_;
};

}  // namespace

Module parse_module(std::string_view text, std::string_view file_name) {
  return TextReader::verified(Parser(text, file_name).module(), file_name, [](const Module& m) { verify(m, "parsing"); });
}

}  // namespace aotc::loop
