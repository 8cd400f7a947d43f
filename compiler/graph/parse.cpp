#include <cctype>
#include <charconv>
#include <cmath>
#include <map>

#include "graph/infer.h"
#include "graph/scalar.h"
#include "graph/text.h"
#include "graph/verify.h"

namespace aotc {
namespace {

/// Characters of one line, with the place for messages.
class Line {
 public:
  Line(std::string_view text, std::string_view file, int number) : text_(text), file_(file), number_(number) {}

  [[noreturn]] void fail(std::string_view what) const {
    Loc loc;
    loc.file = std::string(file_);
    loc.path = fmt::format("{}:{}", number_, pos_ + 1);
    throw Diagnostic(std::move(loc), std::string(what)).note("the line is: " + std::string(text_));
  }
  void skip_space() {
    while (pos_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[pos_]))) ++pos_;
  }
  bool at_end() {
    skip_space();
    return pos_ >= text_.size() || text_[pos_] == '#';
  }
  char peek() {
    skip_space();
    return pos_ < text_.size() ? text_[pos_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++pos_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("expected '{}'", c));
  }
  /// Accepts the word only when it stands alone.
  bool accept_word(std::string_view w) {
    skip_space();
    if (text_.substr(pos_, w.size()) != w) return false;
    const size_t end = pos_ + w.size();
    if (end < text_.size() && is_name_char(text_[end])) return false;
    pos_ = end;
    return true;
  }
  static bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }
  std::string_view name() {
    skip_space();
    const size_t begin = pos_;
    while (pos_ < text_.size() && is_name_char(text_[pos_])) ++pos_;
    if (pos_ == begin) fail("expected a name");
    return text_.substr(begin, pos_ - begin);
  }
  std::string string() {
    expect('"');
    std::string s;
    while (pos_ < text_.size() && text_[pos_] != '"') {
      if (text_[pos_] == '\\' && pos_ + 1 < text_.size()) {
        ++pos_;
        s += text_[pos_] == 'n' ? '\n' : text_[pos_];
      } else {
        s += text_[pos_];
      }
      ++pos_;
    }
    if (pos_ == text_.size()) fail("the string does not end");
    ++pos_;
    return s;
  }
  std::string name_or_string() { return peek() == '"' ? string() : std::string(name()); }
  /// Text up to a comma, closing bracket or quote that is not nested.
  std::string_view chunk() {
    skip_space();
    const size_t begin = pos_;
    int depth = 0;
    while (pos_ < text_.size()) {
      const char c = text_[pos_];
      if (depth == 0 && (c == ',' || c == ')' || c == ']' || c == '}' || c == '"')) break;
      if (c == '(' || c == '[') ++depth;
      if (c == ')' || c == ']') --depth;
      ++pos_;
    }
    size_t end = pos_;
    while (end > begin && std::isspace(static_cast<unsigned char>(text_[end - 1]))) --end;
    if (end == begin) fail("expected an expression");
    return text_.substr(begin, end - begin);
  }
  int64_t integer() {
    skip_space();
    const char* first = text_.data() + pos_;
    int64_t v = 0;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), v);
    if (error != std::errc()) fail("expected an integer");
    pos_ += end - first;
    return v;
  }
  double real() {
    const std::string s(chunk());
    char* end = nullptr;
    const double v = std::strtod(s.c_str(), &end);
    if (end != s.c_str() + s.size()) fail(fmt::format("'{}' is not a number", s));
    return v;
  }
  bool boolean() {
    if (accept_word("true")) return true;
    if (accept_word("false")) return false;
    fail("expected true or false");
  }

 private:
  std::string_view text_, file_;
  int number_;
  size_t pos_ = 0;
};

constexpr double kMaxElems = 0x1p32;  ///< of a constant whose data is made up

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

ConstData make_data(std::string name, TensorType type) {
  const int64_t count = *type.elems().as_const();
  auto bytes = std::make_shared<std::vector<std::byte>>(count * dtype_bytes(type.dtype));
  uint64_t state = 0;
  for (char c : name) state = mix(state ^ static_cast<unsigned char>(c));
  for (int64_t i = 0; i < count && !is_complex(type.dtype); ++i) {
    const uint64_t r = mix(state + static_cast<uint64_t>(i));
    std::byte* p = bytes->data() + i * dtype_bytes(type.dtype);
    if (is_float(type.dtype)) {
      const double v = static_cast<double>(r >> 40) * 0x1p-24 - 0.5;
      store_f64(type.dtype, &v, p, 1);
    } else {
      const int64_t v = static_cast<int64_t>(is_bool(type.dtype) ? r & 1 : r % 4);
      store_i64(type.dtype, &v, p, 1);
    }
  }
  return {std::move(name), std::move(type), bytes, bytes->data(), bytes->size()};
}

class Parser {
 public:
  Parser(std::string_view file, const ParseOptions& options) : file_(file), options_(options) {}

  Graph run(std::string_view text) {
    int number = 0;
    while (!text.empty()) {
      const size_t nl = text.find('\n');
      Line line(text.substr(0, nl), file_, ++number);
      text = nl == std::string_view::npos ? std::string_view() : text.substr(nl + 1);
      if (line.at_end()) continue;
      statement(line);
      if (!line.at_end()) line.fail("unexpected text at the end of the line");
    }
    for (const auto& [state, use] : updates_) g_.states[state].updated = lookup(use.second, use.first);
    return std::move(g_);
  }

 private:
  void statement(Line& l) {
    struct Keyword {
      std::string_view word;
      void (Parser::*parse)(Line&);
    };
    static constexpr Keyword kKeywords[] = {
        {"graph", &Parser::graph}, {"sym", &Parser::sym},     {"input", &Parser::input},   {"const", &Parser::constant},
        {"state", &Parser::state}, {"guard", &Parser::guard}, {"output", &Parser::output},
    };
    if (l.peek() == '%') return node(l);
    for (const Keyword& k : kKeywords)
      if (l.accept_word(k.word)) return (this->*k.parse)(l);
    l.fail("expected graph, sym, input, const, state, guard, output or a %value");
  }

  // ---- pieces
  Expr expr(Line& l) {
    const std::string_view text = l.chunk();
    try {
      return parse_expr(text, g_.syms);
    } catch (const Diagnostic& d) { l.fail(d.message()); }
  }
  template <class F>
  auto list(Line& l, F&& item) {
    std::vector<decltype(item())> out;
    l.expect('[');
    if (l.accept(']')) return out;
    do out.push_back(item());
    while (l.accept(','));
    l.expect(']');
    return out;
  }
  TensorType type(Line& l) {
    const std::string_view name = l.name();
    const auto t = parse_dtype(name);
    if (!t) l.fail(fmt::format("unknown element type '{}'", name));
    return {*t, list(l, [&] { return expr(l); })};
  }
  ValueId lookup(const Line& l, const std::string& name) const {
    auto it = names_.find(name);
    if (it == names_.end()) l.fail(fmt::format("%{} is not defined", name));
    return it->second;
  }
  ValueId use(Line& l) {
    l.expect('%');
    return lookup(l, std::string(l.name()));
  }
  std::string new_name(Line& l) {
    l.expect('%');
    std::string name(l.name());
    if (names_.count(name)) l.fail(fmt::format("%{} is defined twice", name));
    return name;
  }
  void define(const std::string& name, ValueId v) {
    names_[name] = v;
    const bool number = name.find_first_not_of("0123456789") == std::string::npos;
    g_.values[v].name = number ? "" : name;
  }
  AttrValue scalar(Line& l) {
    if (l.accept_word("true")) return true;
    if (l.accept_word("false")) return false;
    const std::string s(l.chunk());
    char* end = nullptr;
    if (s.find_first_of(".en") == std::string::npos) {
      const int64_t v = std::strtoll(s.c_str(), &end, 10);
      if (end == s.c_str() + s.size()) return v;
    }
    const double v = std::strtod(s.c_str(), &end);
    if (end != s.c_str() + s.size()) l.fail(fmt::format("'{}' is not a number", s));
    return v;
  }
  AttrValue attr_value(Line& l, Attr a) {
    switch (attr_type(a)) {
      case AttrType::boolean: return l.boolean();
      case AttrType::integer: return l.integer();
      case AttrType::real: return l.real();
      case AttrType::text: return l.name_or_string();
      case AttrType::ints: return list(l, [&] { return l.integer(); });
      case AttrType::expr: return expr(l);
      case AttrType::exprs: return list(l, [&] { return expr(l); });
      case AttrType::scalar: return scalar(l);
    }
    l.fail("attribute type");
  }

  // ---- statements
  void graph(Line& l) {
    l.expect('@');
    g_.name = l.name_or_string();
  }

  void sym(Line& l) {
    SymInfo s;
    s.name = std::string(l.name());
    if (g_.syms.find(s.name)) l.fail(fmt::format("symbol {} is defined twice", s.name));
    if (l.accept('[')) {
      s.min = l.integer();
      l.expect(',');
      s.max = l.accept_word("inf") ? kInf : l.integer();
      l.expect(']');
    }
    if (l.accept_word("multiple_of")) s.multiple_of = l.integer();
    if (l.accept_word("tune")) s.tune = list(l, [&] { return l.integer(); });
    g_.syms.add(std::move(s));
  }

  void input(Line& l) {
    const std::string name = new_name(l);
    l.expect(':');
    const ValueId v = g_.add_input(name, type(l));
    define(name, v);
    InputInfo& info = g_.inputs.back();
    if (l.peek() == '"') info.tree_path = l.string();
    if (l.accept_word("name")) info.name = l.string();
  }

  ConstData data(Line& l, std::string name, TensorType t) {
    double elems = 1;
    for (const Expr& d : t.dims) {
      const auto n = d.as_const();
      if (!n || *n < 0) l.fail("a constant's dims must be numbers");
      elems *= static_cast<double>(*n);
    }
    ConstData c;
    if (elems * static_cast<double>(dtype_bytes(t.dtype)) >= 0x1p62) l.fail("the constant is too large");
    if (l.peek() != '=' && options_.missing == MissingData::opaque) {
      c.bytes = static_cast<size_t>(*t.bytes().as_const());
      c.name = std::move(name);
      c.type = std::move(t);
    } else {
      if (elems > kMaxElems) l.fail("the constant is too large for a text");
      c = make_data(std::move(name), std::move(t));
    }
    if (l.accept_word("data")) {
      const std::string key(l.name());
      if (options_.constants) options_.constants->get(key, c);
    }
    return c;
  }
  void literal(Line& l, ConstData& c) {
    if (!l.accept('=')) return;
    const DType t = c.type.dtype;
    const int64_t width = dtype_bytes(t), count = static_cast<int64_t>(c.bytes) / width;
    auto bytes = std::make_shared<std::vector<std::byte>>(c.bytes);
    int64_t i = 0;
    list(l, [&] {
      if (i == count) l.fail("too many elements");
      std::byte* p = bytes->data() + width * i++;
      if (is_float(t)) {
        const double v = l.real();
        store_f64(t, &v, p, 1);
      } else {
        const int64_t v = is_bool(t) ? l.boolean() : l.integer();
        store_i64(t, &v, p, 1);
      }
      return 0;
    });
    if (i != count) l.fail(fmt::format("{} elements, not {}", i, count));
    c.keepalive = bytes;
    c.data = bytes->data();
  }

  void constant(Line& l) {
    const std::string name = new_name(l);
    l.expect(':');
    TensorType t = type(l);
    ConstData c = data(l, l.peek() == '"' ? l.string() : name, std::move(t));
    literal(l, c);
    define(name, g_.add_constant(std::move(c)));
  }

  void state(Line& l) {
    const std::string name = new_name(l);
    l.expect(':');
    TensorType t = type(l);
    const std::string label = l.peek() == '"' ? l.string() : name;
    std::string updated;
    if (l.accept_word("updated")) {
      l.expect('%');
      updated = std::string(l.name());
    }
    ConstData c = data(l, label, t);
    literal(l, c);
    const ConstId initial = g_.constants.push(std::move(c));
    const ValueId v = g_.add_state(label, std::move(t), initial);
    define(name, v);
    if (!updated.empty()) updates_.push_back({g_.values[v].state, {updated, l}});
  }

  void guard(Line& l) {
    ShapeGuard q{ShapeGuard::Kind::eq, 0, 0, ""};
    if (l.accept_word("le")) {
      q.kind = ShapeGuard::Kind::le;
    } else if (l.accept_word("divisible")) {
      q.kind = ShapeGuard::Kind::divisible;
    } else if (!l.accept_word("eq")) {
      l.fail("expected eq, le or divisible");
    }
    q.a = expr(l);
    l.expect(',');
    q.b = expr(l);
    if (l.peek() == '"') q.why = l.string();
    g_.guards.push_back(std::move(q));
  }

  void output(Line& l) {
    OutputInfo o;
    o.value = use(l);
    o.name = l.peek() == '"' ? l.string() : fmt::format("output{}", g_.outputs.size());
    if (l.accept_word("tree")) o.tree_path = l.string();
    if (l.accept_word("alias_input")) o.alias_input = static_cast<int32_t>(l.integer());
    g_.outputs.push_back(std::move(o));
  }

  void node(Line& l) {
    std::vector<std::string> results;
    do results.push_back(new_name(l));
    while (l.accept(','));
    l.expect('=');
    Node n;
    const std::string_view op_text = l.name();
    const auto op = parse_op(op_text);
    if (!op) l.fail(fmt::format("unknown operator '{}'", op_text));
    n.op = *op;
    l.expect('(');
    if (!l.accept(')')) {
      do n.inputs.push_back(use(l));
      while (l.accept(','));
      l.expect(')');
    }
    if (l.accept('{')) {
      do {
        const std::string_view key = l.name();
        const auto a = parse_attr(key);
        if (!a) l.fail(fmt::format("unknown attribute '{}'", key));
        l.expect('=');
        n.attrs[*a] = attr_value(l, *a);
      } while (l.accept(','));
      l.expect('}');
    }
    std::vector<TensorType> types;
    if (l.accept(':')) {
      do types.push_back(type(l));
      while (l.accept(','));
    }
    if (l.accept('@')) n.name = l.name_or_string();
    if (l.peek() == '"') n.source = l.string();
    std::vector<TensorType> inferred;
    try {
      const DType in = n.inputs.empty() ? (types.empty() ? DType::f32 : types[0].dtype) : g_.type(n.inputs[0]).dtype;
      complete_attrs(n, n.inputs.empty() ? 0 : g_.type(n.inputs[0]).rank(), in);
      inferred = infer_types(g_, n, types.empty() ? nullptr : &types[0]);
    } catch (const InternalError& e) { l.fail(e.what()); }
    if (inferred.size() != results.size()) l.fail(fmt::format("{} has {} results", op_text, inferred.size()));
    for (size_t i = 1; i < types.size(); ++i)
      if (i >= inferred.size() || types[i].dtype != inferred[i].dtype || !same_dims(g_, types[i].dims, inferred[i].dims))
        l.fail(fmt::format("result {} has another type", i));
    if (!types.empty()) inferred[0] = types[0];
    const NodeId id = g_.add_node(std::move(n), std::move(inferred));
    for (size_t i = 0; i < results.size(); ++i) define(results[i], g_.nodes[id].outputs[i]);
  }

  std::string_view file_;
  const ParseOptions& options_;
  Graph g_;
  std::map<std::string, ValueId> names_;
  std::vector<std::pair<StateId, std::pair<std::string, Line>>> updates_;
};

}  // namespace

Graph parse_graph(std::string_view text, std::string_view file_name, const ParseOptions& options) {
  Graph g = Parser(file_name, options).run(text);
  try {
    verify(g, "parsing");
  } catch (const InternalError& e) {  // the text's fault
    Loc loc;
    loc.file = std::string(file_name);
    throw Diagnostic(std::move(loc), e.what());
  }
  return g;
}

}  // namespace aotc
