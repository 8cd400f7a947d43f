#include "import/sym_parse.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/words.h"

namespace aotc::import {
namespace {

constexpr size_t kMaxText = 65536;
constexpr int kMaxDepth = 100;

struct Refusal {
  std::string why;
};

/// Other spellings of a function.
struct Alias {
  std::string_view from, to;
};
constexpr Alias kAliases[] = {
    {"max torch.sym_max", "Max"},
    {"min torch.sym_min", "Min"},
    {"torch.sym_int int trunc math.trunc", "TruncToInt"},
    {"torch.sym_sqrt torch._sym_sqrt math.sqrt OpaqueUnaryFn_sqrt", "sqrt"},
    {"torch.sym_not", "Not"},
    {"torch.sym_ite", "Where"},
    {"abs", "Abs"},
    {"floor math.floor", "FloorToInt"},
    {"ceiling math.ceil", "CeilToInt"},
    {"round", "RoundToInt"},
    {"float torch.sym_float", "ToFloat"},
    {"math.log2 OpaqueUnaryFn_log2", "log2"},
    {"FloatTrueDiv IntTrueDiv", "TrueDiv"},
    {"CleanDiv", "FloorDiv"},
    {"PythonMod", "Mod"},
    {"FloatPow PowByNatural", "Pow"},
    {"Equality", "Eq"},
    {"Unequality", "Ne"},
    {"LessThan", "Le"},
    {"StrictLessThan", "Lt"},
    {"GreaterThan", "Ge"},
    {"StrictGreaterThan", "Gt"},
};
std::string canonical(std::string_view name) {
  for (const Alias& a : kAliases)
    if (has_word(a.from, name)) return std::string(a.to);
  return std::string(name);
}

struct Infix {
  std::string_view text, name;
};
constexpr Infix kRelations[] = {{"==", "Eq"}, {"!=", "Ne"}, {"<=", "Le"}, {">=", "Ge"}, {"<", "Lt"}, {">", "Gt"}};
constexpr Infix kProducts[] = {{"//", "FloorDiv"}, {"*", "Mul"}, {"/", "TrueDiv"}, {"%", "Mod"}};

SymNode call(std::string_view name, std::vector<SymNode> args) {
  SymNode n;
  n.kind = SymNode::Kind::call;
  n.name = name;
  n.args = std::move(args);
  return n;
}
SymNode integer(int64_t i) {
  SymNode n;
  n.integer = i;
  return n;
}
SymNode symbol(std::string name) {
  SymNode n;
  n.kind = SymNode::Kind::symbol;
  n.name = std::move(name);
  return n;
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {
    if (text.size() > kMaxText) throw Refusal{fmt::format("an expression of more than {} characters", kMaxText)};
  }

  SymNode parse() {
    SymNode n = choice();
    skip();
    if (at_ != text_.size()) throw unexpected();
    return n;
  }

 private:
  /// Counts how deep the parser is in itself.
  class Depth {
   public:
    explicit Depth(int& depth) : depth_(depth) {
      if (++depth_ > kMaxDepth) throw Refusal{fmt::format("an expression nested deeper than {}", kMaxDepth)};
    }
    ~Depth() { --depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    int& depth_;
  };

  /// "a if c else b"
  SymNode choice() {
    const Depth depth(depth_);
    SymNode a = any();
    if (!take_word("if")) return a;
    SymNode c = any();
    if (!take_word("else")) throw unexpected();
    return call("Where", {std::move(c), std::move(a), choice()});
  }
  SymNode any() {
    SymNode first = all();
    if (!peek_word("or")) return first;
    std::vector<SymNode> args{std::move(first)};
    while (take_word("or")) args.push_back(all());
    return call("Or", std::move(args));
  }
  SymNode all() {
    SymNode first = negation();
    if (!peek_word("and")) return first;
    std::vector<SymNode> args{std::move(first)};
    while (take_word("and")) args.push_back(negation());
    return call("And", std::move(args));
  }
  SymNode negation() {
    if (!take_word("not")) return relation();
    const Depth depth(depth_);
    return call("Not", {negation()});
  }
  SymNode relation() {
    SymNode a = sum();
    for (const Infix& r : kRelations)
      if (take(r.text)) {
        SymNode out = call(r.name, {std::move(a), sum()});
        for (const Infix& next : kRelations)
          if (peek(next.text)) throw Refusal{"a chain of comparisons"};
        return out;
      }
    return a;
  }
  SymNode sum() {
    SymNode first = term();
    if (!peek("+") && !peek("-")) return first;
    std::vector<SymNode> args{std::move(first)};
    for (;;) {
      if (take("+"))
        args.push_back(term());
      else if (take("-"))
        args.push_back(call("Mul", {integer(-1), term()}));
      else
        return call("Add", std::move(args));
    }
  }
  SymNode term() {
    SymNode r = factor();
    std::string_view last;  // of the products made here: a run of one kind of "*" is one call
    for (int length = 0;; ++length) {
      const auto p = std::find_if(std::begin(kProducts), std::end(kProducts), [&](const Infix& i) { return take(i.text); });
      if (p == std::end(kProducts)) return r;
      if (length > kMaxDepth) throw Refusal{fmt::format("a product of more than {} factors", kMaxDepth)};
      if (p->name == "Mul" && last == "Mul")
        r.args.push_back(factor());
      else
        r = call(p->name, {std::move(r), factor()});
      last = p->name;
    }
  }
  SymNode factor() {
    const bool minus = take("-");
    if (minus || take("+")) {
      const Depth depth(depth_);
      SymNode x = factor();
      if (!minus) return x;
      if (x.kind == SymNode::Kind::integer && x.integer != INT64_MIN) return integer(-x.integer);
      return call("Mul", {integer(-1), std::move(x)});
    }
    SymNode base = atom();
    if (!take("**")) return base;
    const Depth depth(depth_);
    return call("Pow", {std::move(base), factor()});
  }
  SymNode atom() {
    skip();
    if (take("(")) {
      SymNode r = choice();
      if (!take(")")) throw unexpected();
      return r;
    }
    if (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '.' || text_[at_] == '\'')) return number();
    const size_t start = at_;
    std::string_view name = word();
    if (name.empty()) throw unexpected();
    if (peek("[")) return symbol(source(start));
    while (peek(".")) {
      ++at_;
      if (word().empty()) throw unexpected();
      name = text_.substr(start, at_ - start);
    }
    if (take("(")) return name == "Symbol" ? named_symbol() : arguments(canonical(name));
    if (name == "True" || name == "true") return call("True", {});
    if (name == "False" || name == "false") return call("False", {});
    if (name == "NegativeOne") return integer(-1);
    if (name == "Zero") return integer(0);
    if (name == "One") return integer(1);
    if (name.find('.') != std::string_view::npos) throw Refusal{fmt::format("the name {}", name)};
    return symbol(std::string(name));
  }
  SymNode arguments(std::string name) {
    std::vector<SymNode> args;
    do {
      if (skip_keyword()) continue;
      args.push_back(choice());
    } while (take(","));
    if (!take(")")) throw unexpected();
    // A number in its own wrapper.
    if ((name == "Integer" || name == "Float" || name == "Identity") && args.size() == 1) return std::move(args[0]);
    return name == "Piecewise" ? pieces(std::move(args)) : call(name, std::move(args));
  }
  /// Values with their conditions, of which the first that holds counts, as choices; the last condition is true.
  static SymNode pieces(std::vector<SymNode> pairs) {
    std::optional<SymNode> r;
    for (auto p = pairs.rbegin(); p != pairs.rend(); ++p) {
      if (p->name != "ExprCondPair" || p->args.size() != 2) throw Refusal{"a piece without a condition"};
      if (!r && p->args[1].name != "True") throw Refusal{"pieces that leave values out"};
      r = r ? call("Where", {std::move(p->args[1]), std::move(p->args[0]), std::move(*r)}) : std::move(p->args[0]);
    }
    return std::move(*r);
  }
  /// "L['x']['k'][0].field.size()[2]", from its first name.
  std::string source(size_t start) {
    while (at_ < text_.size()) {
      if (text_[at_] == '[') {
        bool quoted = false;
        for (; at_ < text_.size() && (quoted || text_[at_] != ']'); ++at_) quoted ^= text_[at_] == '\'';
        if (at_ == text_.size()) throw unexpected();
        ++at_;
      } else if (text_[at_] == '.') {
        ++at_;
        if (word().empty()) throw unexpected();
      } else if (text_.substr(at_, 2) == "()") {
        at_ += 2;
      } else {
        break;
      }
    }
    return std::string(text_.substr(start, at_ - start));
  }
  /// "precision=53": true when one was skipped.
  bool skip_keyword() {
    const size_t start = at_;
    const std::string_view name = word();
    if (!name.empty() && !peek("==") && take("=")) {
      word();
      if (at_ < text_.size() && is_digit(text_[at_])) number();
      return true;
    }
    at_ = start;
    return false;
  }
  SymNode named_symbol() {
    if (!take("'")) throw unexpected();
    const size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) throw unexpected();
    std::string name(text_.substr(at_, end - at_));
    at_ = end + 1;
    while (take(","))
      if (!skip_keyword()) throw unexpected();
    if (!take(")")) throw unexpected();
    if (name.empty()) throw Refusal{"a symbol without a name"};
    return symbol(std::move(name));
  }
  /// "12", "0.5", "'1.0e-5'"
  SymNode number() {
    const bool quoted = take("'");
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.' ||
                                  ((text_[at_] == '-' || text_[at_] == '+') &&
                                   (at_ == start || text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E') && (at_ > start || quoted))))
      ++at_;
    const std::string digits(text_.substr(start, at_ - start));
    if (quoted && !take("'")) throw unexpected();
    int64_t i = 0;
    if (auto [p, e] = std::from_chars(digits.data(), digits.data() + digits.size(), i);
        e == std::errc() && p == digits.data() + digits.size())
      return integer(i);
    char* end = nullptr;
    SymNode n;
    n.kind = SymNode::Kind::real;
    n.real = std::strtod(digits.c_str(), &end);
    const bool whole = std::all_of(digits.begin(), digits.end(), is_digit);
    if (digits.empty() || end != digits.c_str() + digits.size() || !std::isfinite(n.real) || whole)
      throw Refusal{fmt::format("the number '{}'", digits)};
    return n;
  }

  std::string_view word() {
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }
  bool peek_word(std::string_view w) {
    if (!peek(w)) return false;
    const size_t end = at_ + w.size();
    return end == text_.size() || !is_name(text_[end]);
  }
  bool take_word(std::string_view w) {
    if (!peek_word(w)) return false;
    at_ += w.size();
    return true;
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool peek(std::string_view s) {
    skip();
    return text_.substr(at_, s.size()) == s;
  }
  bool take(std::string_view s) {
    // "**" is no product.
    if (!peek(s) || (s == "*" && peek("**"))) return false;
    at_ += s.size();
    return true;
  }
  Refusal unexpected() const { return {fmt::format("unexpected text at column {}", at_ + 1)}; }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<SymNode> parse_sym(std::string_view text) {
  try {
    return Parser(text).parse();
  } catch (const Refusal& r) { return Result<SymNode>::fail(r.why); }
}

void for_each_symbol(const SymNode& n, const std::function<void(const std::string&)>& fn) {
  if (n.kind == SymNode::Kind::symbol) fn(n.name);
  for (const SymNode& a : n.args) for_each_symbol(a, fn);
}

}  // namespace aotc::import
