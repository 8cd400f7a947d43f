#include <cstdlib>
#include <map>

#include "graph/infer.h"
#include "graph/scalar.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "sym/text_reader.h"

namespace aotc {
namespace {

constexpr double kMaxElems = 0x1p32;  ///< of a constant whose data is made up

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

AttrValue read_scalar(TextReader& in) {
  if (in.accept_word("true")) return true;
  if (in.accept_word("false")) return false;
  const std::string s(in.chunk());
  char* end = nullptr;
  if (s.find_first_of(".en") == std::string::npos) {
    const int64_t v = std::strtoll(s.c_str(), &end, 10);
    if (end == s.c_str() + s.size()) return v;
  }
  const double v = std::strtod(s.c_str(), &end);
  if (end != s.c_str() + s.size()) in.fail(fmt::format("'{}' is not a number", s));
  return v;
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view file, const ParseOptions& options) : in_(text, file), options_(options) {}

  Graph run() {
    while (in_.next_line()) {
      statement();
      in_.end_line();
    }
    for (const Update& u : updates_) g_.states[u.state].updated = lookup(u.value, u.at);
    return std::move(g_);
  }

 private:
  void statement() {
    struct Keyword {
      std::string_view word;
      void (Parser::*parse)();
    };
    static constexpr Keyword kKeywords[] = {
        {"graph", &Parser::graph}, {"sym", &Parser::sym},     {"input", &Parser::input},   {"const", &Parser::constant},
        {"state", &Parser::state}, {"guard", &Parser::guard}, {"output", &Parser::output},
    };
    if (in_.peek() == '%') return node();
    for (const Keyword& k : kKeywords)
      if (in_.accept_word(k.word)) return (this->*k.parse)();
    in_.fail("expected graph, sym, input, const, state, guard, output or a %value");
  }

  // ---- pieces
  Expr expr() { return in_.expr(g_.syms); }
  TensorType type() {
    const std::string_view name = in_.word();
    const auto t = parse_dtype(name);
    if (!t) in_.fail(fmt::format("unknown element type '{}'", name));
    return {*t, in_.exprs(g_.syms)};
  }
  ValueId lookup(const std::string& name, const TextReader::Place& at) const {
    auto it = names_.find(name);
    if (it == names_.end()) in_.fail(at, fmt::format("%{} is not defined", name));
    return it->second;
  }
  ValueId use() {
    in_.want('%');
    const std::string name(in_.word());
    return lookup(name, in_.place());
  }
  std::string new_name() {
    in_.want('%');
    std::string name(in_.word());
    if (names_.count(name)) in_.fail(fmt::format("%{} is defined twice", name));
    return name;
  }
  void define(const std::string& name, ValueId v) {
    names_[name] = v;
    const bool number = name.find_first_not_of("0123456789") == std::string::npos;
    g_.values[v].name = number ? "" : name;
  }

  // ---- statements
  void graph() {
    in_.want('@');
    g_.name = in_.word_or_string();
  }

  void sym() { g_.syms.add(in_.symbol(g_.syms)); }

  void input() {
    const std::string name = new_name();
    in_.want(':');
    const ValueId v = g_.add_input(name, type());
    define(name, v);
    InputInfo& info = g_.inputs.back();
    if (in_.peek() == '"') info.tree_path = in_.string();
    if (in_.accept_word("name")) info.name = in_.string();
    info.complex = in_.accept_word("complex");
  }

  ConstData data(std::string name, TensorType t) {
    double elems = 1;
    for (const Expr& d : t.dims) {
      const auto n = d.as_const();
      if (!n || *n < 0) in_.fail("a constant's dims must be numbers");
      elems *= static_cast<double>(*n);
    }
    const bool exchangeable = in_.accept_word("exchangeable");
    const int bits = exchangeable && in_.accept_word("bits") ? static_cast<int>(in_.integer(1, 8)) : 0;
    ConstData c;
    if (elems * static_cast<double>(dtype_bytes(t.dtype)) >= 0x1p62) in_.fail("the constant is too large");
    if (in_.peek() != '=' && options_.missing == MissingData::opaque) {
      c.bytes = static_cast<size_t>(*t.bytes().as_const());
      c.name = std::move(name);
      c.type = std::move(t);
    } else {
      if (elems > kMaxElems) in_.fail("the constant is too large for a text");
      c = made_up_constant(std::move(name), std::move(t));
    }
    c.exchangeable = exchangeable, c.bits = bits;
    if (in_.accept_word("data")) {
      const std::string key(in_.word());
      if (options_.constants) options_.constants->get(key, c);
    }
    return c;
  }
  void literal(ConstData& c) {
    if (!in_.accept('=')) return;
    const DType t = c.type.dtype;
    const int64_t width = dtype_bytes(t), count = static_cast<int64_t>(c.bytes) / width;
    auto bytes = std::make_shared<std::vector<std::byte>>(c.bytes);
    int64_t i = 0;
    in_.list([&] {
      if (i == count) in_.fail("too many elements");
      std::byte* p = bytes->data() + width * i++;
      if (is_float(t)) {
        const double v = in_.real();
        store_f64(t, &v, p, 1);
      } else {
        const int64_t v = is_bool(t) ? in_.boolean() : in_.integer();
        store_i64(t, &v, p, 1);
      }
      return 0;
    });
    if (i != count) in_.fail(fmt::format("{} elements, not {}", i, count));
    c.keepalive = bytes;
    c.data = bytes->data();
  }

  void constant() {
    const std::string name = new_name();
    in_.want(':');
    TensorType t = type();
    ConstData c = data(in_.peek() == '"' ? in_.string() : name, std::move(t));
    literal(c);
    define(name, g_.add_constant(std::move(c)));
  }

  void state() {
    const std::string name = new_name();
    in_.want(':');
    TensorType t = type();
    const std::string label = in_.peek() == '"' ? in_.string() : name;
    Update update;
    if (in_.accept_word("updated")) {
      in_.want('%');
      update.value = std::string(in_.word());
      update.at = in_.place();
    }
    ConstData c = data(label, t);
    literal(c);
    const ConstId initial = g_.constants.push(std::move(c));
    const ValueId v = g_.add_state(label, std::move(t), initial);
    define(name, v);
    update.state = g_.values[v].state;
    if (!update.value.empty()) updates_.push_back(std::move(update));
  }

  void guard() {
    ShapeGuard q{ShapeGuard::Kind::eq, 0, 0, ""};
    if (in_.accept_word("le")) {
      q.kind = ShapeGuard::Kind::le;
    } else if (in_.accept_word("divisible")) {
      q.kind = ShapeGuard::Kind::divisible;
    } else if (!in_.accept_word("eq")) {
      in_.fail("expected eq, le or divisible");
    }
    q.a = expr();
    in_.want(',');
    q.b = expr();
    if (in_.peek() == '"') q.why = in_.string();
    g_.guards.push_back(std::move(q));
  }

  void output() {
    OutputInfo o;
    o.value = use();
    o.name = in_.peek() == '"' ? in_.string() : fmt::format("output{}", g_.outputs.size());
    if (in_.accept_word("tree")) o.tree_path = in_.string();
    if (in_.accept_word("alias_input")) o.alias_input = static_cast<int32_t>(in_.integer(-1, INT32_MAX));
    if (in_.accept_word("gradient_of")) o.gradient_of = in_.string();
    if (in_.accept_word("found")) o.found = in_.exprs(g_.syms);
    if (in_.accept_word("size")) o.role = OutputRole::size;
    if (in_.accept_word("check")) o.role = OutputRole::check;
    o.complex = in_.accept_word("complex");
    g_.outputs.push_back(std::move(o));
  }

  void node() {
    std::vector<std::string> results;
    do results.push_back(new_name());
    while (in_.accept(','));
    in_.want('=');
    Node n;
    const std::string_view op_text = in_.word();
    const auto op = parse_op(op_text);
    if (!op) in_.fail(fmt::format("unknown operator '{}'", op_text));
    n.op = *op;
    in_.want('(');
    if (!in_.accept(')')) {
      do n.inputs.push_back(use());
      while (in_.accept(','));
      in_.want(')');
    }
    if (in_.accept('{')) {
      do {
        const std::string_view key = in_.word();
        const auto a = parse_attr(key);
        if (!a) in_.fail(fmt::format("unknown attribute '{}'", key));
        in_.want('=');
        n.attrs[*a] = read_attr(in_, *a, g_.syms);
      } while (in_.accept(','));
      in_.want('}');
    }
    std::vector<TensorType> types;
    if (in_.accept(':')) {
      do types.push_back(type());
      while (in_.accept(','));
    }
    if (in_.accept('@')) n.name = in_.word_or_string();
    if (in_.peek() == '"') n.source = in_.string();
    std::vector<TensorType> inferred;
    try {
      const DType in = n.inputs.empty() ? (types.empty() ? DType::f32 : types[0].dtype) : g_.type(n.inputs[0]).dtype;
      complete_attrs(n, n.inputs.empty() ? 0 : g_.type(n.inputs[0]).rank(), in);
      inferred = infer_types(g_, n, types.empty() ? nullptr : &types[0]);
    } catch (const std::exception& e) { in_.fail(e.what()); }
    if (inferred.size() != results.size()) in_.fail(fmt::format("{} has {} results", op_text, inferred.size()));
    for (size_t i = 1; i < types.size(); ++i)
      if (i >= inferred.size() || types[i].dtype != inferred[i].dtype || !same_dims(g_, types[i].dims, inferred[i].dims))
        in_.fail(fmt::format("result {} has another type", i));
    if (!types.empty()) inferred[0] = types[0];
    const NodeId id = g_.add_node(std::move(n), std::move(inferred));
    for (size_t i = 0; i < results.size(); ++i) define(results[i], g_.nodes[id].outputs[i]);
  }

  /// What a state becomes, which stands further down.
  struct Update {
    StateId state;
    std::string value;
    TextReader::Place at;
  };
  TextReader in_;
  const ParseOptions& options_;
  Graph g_;
  std::map<std::string, ValueId> names_;
  std::vector<Update> updates_;
};

}  // namespace

ConstData made_up_constant(std::string name, TensorType type) {
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

AttrValue read_attr(TextReader& in, Attr a, const SymTable& syms) {
  switch (attr_type(a)) {
    case AttrType::boolean: return in.boolean();
    case AttrType::integer: return in.integer();
    case AttrType::real: return in.real();
    case AttrType::text: return in.word_or_string();
    case AttrType::ints: return in.integers();
    case AttrType::expr: return in.expr(syms);
    case AttrType::exprs: return in.exprs(syms);
    case AttrType::scalar: return read_scalar(in);
  }
  in.fail("attribute type");
}

Graph parse_graph(std::string_view text, std::string_view file_name, const ParseOptions& options) {
  return TextReader::verified(Parser(text, file_name, options).run(), file_name, [](const Graph& g) { verify(g, "parsing"); });
}

}  // namespace aotc
