// Parser of the text that text.cpp prints. Symbols must be declared before use: shape symbols at the top, loop and value symbols in
// their kernel.
#include <fmt/format.h>

#include <cctype>
#include <cstdlib>

#include "graph/infer.h"
#include "loop/names.h"
#include "loop/text.h"
#include "loop/verify.h"

namespace aotc::loop {
namespace {

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  Module module() {
    next_line();
    expect("module");
    while (next_line()) {
      const std::string w = word();
      if (w == "sym")
        symbol();
      else if (w == "buffer")
        buffer();
      else if (w == "call")
        call();
      else if (w == "weight")
        weight();
      else if (w == "note" || w == "prologue")
        note(w == "prologue");
      else
        kernel(w);
    }
    return std::move(m_);
  }

 private:
  // ------------------------------------------------------------------------------------------------------------ characters
  [[noreturn]] void fail(const std::string& what) const {
    Loc loc;
    loc.file = std::string(file_);
    loc.path = fmt::format("{}:{}", line_number_, pos_ + 1);
    throw Diagnostic(std::move(loc), what).note("the line is: " + std::string(line_));
  }
  /// Moves to the next line that is not empty.
  bool next_line() {
    while (begin_ < text_.size()) {
      size_t end = text_.find('\n', begin_);
      if (end == std::string_view::npos) end = text_.size();
      line_ = text_.substr(begin_, end - begin_);
      begin_ = end + 1;
      ++line_number_;
      pos_ = 0;
      if (!at_end()) return true;
    }
    line_ = {};
    pos_ = 0;
    return false;
  }
  void need_line() {
    if (!next_line()) fail("the text ends too early");
  }
  void space() {
    while (pos_ < line_.size() && std::isspace(static_cast<unsigned char>(line_[pos_]))) ++pos_;
  }
  bool at_end() {
    space();
    return pos_ >= line_.size();
  }
  char peek() {
    space();
    return pos_ < line_.size() ? line_[pos_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++pos_;
    return true;
  }
  void want(char c) {
    if (!accept(c)) fail(fmt::format("expected '{}'", c));
  }
  std::string word() {
    space();
    const size_t b = pos_;
    while (pos_ < line_.size() && (std::isalnum(static_cast<unsigned char>(line_[pos_])) || line_[pos_] == '_' || line_[pos_] == '.' ||
                                   line_[pos_] == '-' || line_[pos_] == '+'))
      ++pos_;
    if (b == pos_) fail("expected a word");
    return std::string(line_.substr(b, pos_ - b));
  }
  bool accept_word(std::string_view w) {
    space();
    const size_t at = pos_;
    if (!at_end() && word_starts() && word() == w) return true;
    pos_ = at;
    return false;
  }
  bool word_starts() {
    const char c = peek();
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  }
  void expect(std::string_view w) {
    if (!accept_word(w)) fail(fmt::format("expected '{}'", w));
  }
  int64_t integer() {
    const std::string w = word();
    if (w == "inf") return kInf;
    char* end = nullptr;
    const long long v = std::strtoll(w.c_str(), &end, 10);
    if (*end) fail("expected an integer");
    return v;
  }
  double real() {
    const std::string w = word();
    char* end = nullptr;
    const double v = std::strtod(w.c_str(), &end);
    if (*end) fail("expected a number");
    return v;
  }
  std::string quoted() {
    want('"');
    std::string s;
    for (; pos_ < line_.size() && line_[pos_] != '"'; ++pos_) {
      if (line_[pos_] == '\\') ++pos_;
      if (pos_ < line_.size()) s += line_[pos_];
    }
    want('"');
    return s;
  }
  Exprs list(const SymTable& syms) {
    want('[');
    Exprs es;
    size_t b = pos_;
    int depth = 0;
    for (; pos_ < line_.size(); ++pos_) {
      const char c = line_[pos_];
      if (c == '(') ++depth;
      if (c == ')') --depth;
      if (depth > 0 || (c != ',' && c != ']')) continue;
      const std::string_view part = line_.substr(b, pos_ - b);
      if (part.find_first_not_of(' ') != std::string_view::npos) es.push_back(parse_expr(part, syms));
      b = pos_ + 1;
      if (c == ']') break;
    }
    want(']');
    return es;
  }
  Expr one(const SymTable& syms) {
    const Exprs es = list(syms);
    if (es.size() != 1) fail("expected one expression");
    return es[0];
  }
  Ints ints() {
    Ints out;
    for (const Expr& e : list(SymTable{})) out.push_back(e.as_const().value());
    return out;
  }
  DType dtype() {
    auto t = parse_dtype(word());
    if (!t) fail("expected a dtype");
    return *t;
  }
  template <class W>
  auto named(const W& words, const char* what) {
    auto e = words.parse(word());
    if (!e) fail(fmt::format("expected {}", what));
    return *e;
  }
  template <class Id>
  Id id(char prefix) {
    space();
    if (peek() != prefix) fail(fmt::format("expected '{}' and a number", prefix));
    ++pos_;
    return static_cast<Id>(integer());
  }

  // ----------------------------------------------------------------------------------------------------------------- module
  void symbol() {
    SymInfo s;
    s.name = word();
    want('[');
    s.min = integer();
    want(',');
    s.max = integer();
    want(']');
    if (accept_word("multiple_of")) s.multiple_of = integer();
    if (accept_word("tune")) s.tune = ints();
    m_.syms.add(std::move(s));
  }
  void buffer() {
    if (id<BufferId>('b') != static_cast<BufferId>(m_.buffers.size())) fail("buffers are numbered in order");
    Buffer b;
    b.kind = named(kBufferKinds, "a kind of buffer");
    b.index = static_cast<uint32_t>(integer());
    b.name = quoted();
    b.type.dtype = dtype();
    b.type.dims = list(m_.syms);
    b.panels = accept_word("panels");
    m_.buffers.push(std::move(b));
  }
  void call() {
    Call c;
    c.kernel = kernel_ids_.count(peek_name()) ? kernel_ids_.at(peek_name()) : (fail("no such kernel"), kNone<KernelId>);
    word();
    want('(');
    while (!accept(')')) {
      c.args.push_back(id<BufferId>('b'));
      accept(',');
    }
    c.label = quoted();
    if (accept_word("nodes"))
      while (!at_end()) c.nodes.push_back(static_cast<NodeId>(integer()));
    m_.calls.push_back(std::move(c));
  }
  void weight() {
    WeightNote n;
    n.buffer = id<BufferId>('b');
    n.why = quoted();
    m_.weight_notes.push_back(std::move(n));
  }
  std::string peek_name() {
    const size_t at = pos_;
    const std::string w = word();
    pos_ = at;
    return w;
  }
  void note(bool prologue) {
    FusionNote n;
    n.prologue = prologue;
    n.value = static_cast<ValueId>(integer());
    n.why = quoted();
    m_.notes.push_back(std::move(n));
  }

  // ---------------------------------------------------------------------------------------------------------------- kernels
  void kernel(const std::string& kind) {
    Kernel k;
    if (kind == "loop")
      k = loop();
    else if (kind == "matmul")
      k = matmul();
    else if (kind == "conv")
      k = conv();
    else if (kind == "attention")
      k = attention();
    else if (kind == "library")
      k = library();
    else
      fail("expected sym, buffer, a kernel, call or note");
    const std::string name = kernel_name(k);
    kernel_ids_[name] = m_.kernels.push(std::move(k));
  }
  template <class K>
  void head(K& k) {
    const std::string name = word();
    if (name != "_") k.name = name;
    want('{');
    k.syms = m_.syms;
    need_line();
    if (accept_word("nodes")) {
      while (!at_end()) k.nodes.push_back(static_cast<NodeId>(integer()));
      need_line();
    }
    while (accept_word("param")) {
      Param p;
      p.name = word();
      p.role = named(kRoles, "a role");
      p.dtype = dtype();
      p.dims = list(k.syms);
      k.params.push(std::move(p));
      need_line();
    }
  }
  ParamId param(const IdVec<ParamId, Param>& params) {
    const std::string name = word();
    for (size_t i = 0; i < params.size(); ++i)
      if (params[static_cast<ParamId>(i)].name == name) return static_cast<ParamId>(i);
    fail("no such parameter: " + name);
  }
  void tail() { want('}'); }

  SymId declare(LoopKernel& k, SymKind kind) {
    SymInfo s;
    s.name = word();
    s.kind = kind;
    s.extent = one(k.syms);
    return k.syms.add(std::move(s));
  }

  LoopKernel loop() {
    LoopKernel k;
    head(k);
    for (;; need_line()) {
      const bool outer = accept_word("outer");
      if (!outer && !accept_word("inner")) break;
      const SymId s = declare(k, SymKind::loop);
      (outer ? k.outer : k.inner).push_back({s, *k.syms[s].extent});
    }
    for (; accept_word("value"); need_line()) declare(k, SymKind::value);
    expect("lanes");
    k.lanes = named(kLanes, "inner, outer or none");
    for (need_line(); peek() != '}'; need_line()) {
      if (accept_word("each_outer") || accept_word("each_inner")) {
        k.blocks.push_back({line_.find("each_inner") != std::string_view::npos, {}});
        want(':');
        continue;
      }
      if (k.blocks.empty()) fail("an instruction outside a block");
      k.blocks.back().insts.push_back(inst(k));
    }
    tail();
    return k;
  }

  InstId inst(LoopKernel& k) {
    if (id<InstId>('v') != static_cast<InstId>(k.insts.size())) fail("instructions are numbered in order");
    want('=');
    Inst i;
    i.kind = named(kInsts, "a kind of instruction");
    if (i.kind == InstKind::op) {
      auto op = parse_op(word());
      if (!op) fail("no such operator");
      i.op = *op;
    }
    if (i.kind == InstKind::reduce || i.kind == InstKind::scan) {
      auto r = parse_reduce(word());
      if (!r) fail("no such reduction");
      i.reduce_kind = *r;
    }
    i.dtype = dtype();
    auto imm = [&] {
      if (is_float(i.dtype))
        i.imm_f = real();
      else
        i.imm_i = integer();
    };
    if (i.kind == InstKind::constant) imm();
    if (i.kind == InstKind::load || i.kind == InstKind::store) {
      i.param = param(k.params);
      i.index = one(k.syms);
    }
    if (i.kind == InstKind::index) i.index = one(k.syms);
    if (peek() == 'v') do
        i.args.push_back(id<InstId>('v'));
      while (accept(','));
    if (accept_word("mask")) i.mask = id<InstId>('v');
    if (accept_word("else")) imm();
    if (accept_word("bind")) {
      auto s = k.syms.find(word());
      if (!s) fail("no such symbol");
      i.bind = *s;
    }
    if (peek() == '"') i.text = quoted();
    if (!at_end()) fail("unexpected text after the instruction");
    return k.insts.push(std::move(i));
  }

  Operand operand(const char* name, const MatmulKernel& k) {
    expect(name);
    Operand o;
    if (accept_word("computed")) {
      need_line();
      expect("prologue");
      o.prologue = loop();
      return o;
    }
    o.param = param(k.params);
    expect("base");
    o.base = one(k.syms);
    expect("batch");
    o.batch_strides = list(k.syms);
    expect("row");
    o.row_stride = one(k.syms);
    expect("col");
    o.col_stride = one(k.syms);
    return o;
  }

  MatmulKernel matmul() {
    MatmulKernel k;
    head(k);
    expect("types");
    k.in = dtype();
    k.acc = dtype();
    need_line();
    expect("batch");
    k.batch = list(k.syms);
    need_line();
    expect("size");
    const Exprs size = sized(list(k.syms), 3);
    k.m = size[0];
    k.n = size[1];
    k.k = size[2];
    need_line();
    k.a = operand("a", k);
    need_line();
    k.b = operand("b", k);
    k.b_constant = accept_word("constant");
    k.b_panels_read = accept_word("panels");
    for (need_line(); accept_word("segment"); need_line()) {
      Segment s;
      const Exprs range = sized(list(k.syms), 2);
      s.n_begin = range[0];
      s.n_end = range[1];
      need_line();
      expect("epilogue");
      s.epilogue = loop();
      k.segments.push_back(std::move(s));
    }
    tail();
    return k;
  }
  Exprs sized(Exprs es, size_t n) {
    if (es.size() != n) fail(fmt::format("expected {} expressions", n));
    return es;
  }

  ConvKernel conv() {
    ConvKernel k;
    head(k);
    expect("types");
    k.in = dtype();
    k.acc = dtype();
    need_line();
    expect("x");
    k.x = param(k.params);
    k.x_dims = list(k.syms);
    need_line();
    expect("w");
    k.w = param(k.params);
    k.transposed = accept_word("transposed");
    k.w_constant = accept_word("constant");
    need_line();
    expect("out");
    k.out_dims = list(k.syms);
    need_line();
    expect("shape");
    expect("kernel");
    k.kernel = ints();
    expect("stride");
    k.stride = ints();
    expect("padding");
    k.padding = ints();
    k.padding_hi = ints();
    expect("dilation");
    k.dilation = ints();
    expect("groups");
    k.groups = integer();
    need_line();
    expect("epilogue");
    k.epilogue = loop();
    need_line();
    tail();
    return k;
  }

  AttentionKernel::View view(const char* name, const AttentionKernel& k) {
    expect(name);
    AttentionKernel::View v;
    v.param = param(k.params);
    const Exprs e = sized(list(k.syms), 5);
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
    expect("type");
    k.dtype = dtype();
    need_line();
    expect("size");
    const Exprs s = sized(list(k.syms), 7);
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
    if (accept_word("mask")) {
      pos_ = 0;
      k.mask = view("mask", k);
      need_line();
    }
    expect("scale");
    k.scale = real();
    k.causal = accept_word("causal");
    need_line();
    tail();
    return k;
  }

  LibraryKernel library() {
    LibraryKernel k;
    head(k);
    expect("algorithm");
    k.algorithm = word();
    need_line();
    for (; accept_word("attr"); need_line()) {
      auto a = parse_attr(word());
      if (!a) fail("no such attribute");
      k.attrs[*a] = attr(*a, k.syms);
    }
    expect("sizes");
    k.sizes = list(k.syms);
    need_line();
    tail();
    return k;
  }
  AttrValue attr(Attr a, const SymTable& syms) {
    switch (attr_type(a)) {
      case AttrType::boolean: return word() == "true";
      case AttrType::integer: return integer();
      case AttrType::text: return quoted();
      case AttrType::ints: return ints();
      case AttrType::expr: return one(syms);
      case AttrType::exprs: return list(syms);
      default: return real();
    }
  }

  std::string_view text_, file_, line_;
  size_t begin_ = 0, pos_ = 0;
  int line_number_ = 0;
  Module m_;
  std::map<std::string, KernelId> kernel_ids_;
};

}  // namespace

Module parse_module(std::string_view text, std::string_view file_name) {
  Module m = Parser(text, file_name).module();
  verify(m, "parse");
  return m;
}

}  // namespace aotc::loop
