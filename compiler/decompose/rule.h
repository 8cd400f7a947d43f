#pragma once
// What a decomposition rule sees. How to add an operator: write `static void my_op(Rule& r)` in the family's file, add its row to the
// family's table at the file's end.
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "import/program.h"

namespace aotc::decompose {

/// Thrown by Rule::refuse, caught by the driver, reported as Unsupported.
struct Refused {
  std::string why, hint;
};

class Rule {
 public:
  Rule(Builder& b, const import::Program& p, const import::PNode& n, std::map<std::string, ValueId>& env)
      : b(b), program(p), node(n), env_(env) {}
  Builder& b;
  const import::Program& program;
  const import::PNode& node;

  // Arguments by schema name. The plain forms refuse with a clear text when the argument has another type.
  const import::Arg& arg(std::string_view name) const;
  bool none(std::string_view name) const;  ///< absent or None
  ValueId tensor(std::string_view name);
  std::optional<ValueId> opt_tensor(std::string_view name);
  std::vector<ValueId> tensors(std::string_view name);
  std::vector<std::optional<ValueId>> opt_tensors(std::string_view name);
  Expr sym(std::string_view name);                ///< int or symint
  std::vector<Expr> syms(std::string_view name);  ///< a single int counts as a list of one
  int64_t integer(std::string_view name);         ///< must be constant, else refuses (naming the symbol)
  Ints integers(std::string_view name);
  double number(std::string_view name);  ///< float, int or bool scalar
  bool boolean(std::string_view name);
  std::string text(std::string_view name);
  std::optional<DType> opt_dtype(std::string_view name);
  /// The scalar (Number) argument: whether it is floating, integral or bool decides promotion.
  struct Number {
    enum Kind { boolean, integer, floating } kind;
    double f;
    Expr i;
  };
  Number scalar(std::string_view name);

  int dim(std::string_view name, int rank);  ///< wraps negative, checks range
  Ints dims(std::string_view name, int rank, bool empty_means_all);

  /// The archive's own type of result i: the oracle for dtype and for dims that a rule cannot infer.
  TensorType meta_result(size_t i = 0) const;
  /// Sets result i (checked against meta: dtype must agree, dims must not provably differ).
  void set(size_t i, ValueId v);
  void set_list(size_t i, std::vector<ValueId> vs);  ///< a Tensor[] result
  void set(ValueId v) { set(0, v); }

  [[noreturn]] void refuse(std::string why, std::string hint = {}) const;

 private:
  std::map<std::string, ValueId>& env_;
};

using RuleFn = void (*)(Rule&);
struct RuleRow {
  std::string_view overload;
  RuleFn fn;
};  ///< overload: "aten.add.Tensor"
using RuleTable = std::span<const RuleRow>;

/// All families (decompose/table.cpp).
RuleFn find_rule(std::string_view overload);
std::vector<RuleTable> all_rules();

}  // namespace aotc::decompose
