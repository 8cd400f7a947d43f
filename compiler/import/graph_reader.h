#pragma once
// models/*.json → Program: nodes, types, symbols. Weights are read elsewhere (import/payload.h).
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "import/budget.h"
#include "import/json.h"
#include "import/operators.h"
#include "import/program.h"

namespace aotc::import {

/// The symbols of one archive, shared by its graphs, as is what these may make of it.
class Symbols {
 public:
  explicit Symbols(Budget& budget) : budget_(budget) {}
  void set_range(const std::string& name, int64_t min, int64_t max);
  Expr of(const std::string& name);  ///< added with an open range when it is new
  /// Integer of {"as_int": 3} or {"as_expr": {"expr_str": ...}}. Throws Diagnostic.
  Expr read(const JsonRef& sym_int);
  Expr parse(const std::string& text, const JsonRef& where);
  SymTable& table() { return table_; }
  Budget& budget() { return budget_; }

 private:
  SymTable table_;
  std::map<std::string, SymId> by_name_;
  std::map<std::string, Expr> parsed_;
  Budget& budget_;
};

DType read_dtype(const JsonRef& scalar_type);
TensorMeta read_tensor_meta(const JsonRef& meta, Symbols& symbols);

/// One graph being read into one Program; subgraphs that only wrap are read into the same Program.
class GraphReader {
 public:
  /// What integer a constant tensor of rank 0 is, by its name in the graph; nothing for all others.
  using Constants = std::function<std::optional<int64_t>(const std::string&)>;
  GraphReader(Program& program, Symbols& symbols, OpTable& ops, Constants constants = {})
      : p_(program), symbols_(symbols), ops_(ops), constants_(std::move(constants)) {}
  void read(const JsonRef& graph);
  /// A value that the graph's inputs, nodes or outputs name. Throws Diagnostic when it is not defined.
  Arg value(const JsonRef& argument);
  /// Name of the top graph's buffers and inputs that in-place operators wrote (through views, too), in no order.
  const std::set<std::string>& written() const { return written_; }

 private:
  /// Names of the graph that is being read: those of an inlined one get a prefix, its inputs stand for the caller's values.
  struct Scope {
    std::string prefix;
    std::map<std::string, Arg> bound;
    std::map<std::string, Expr> sym_ints;
    std::map<std::string, std::string> sym_texts;  ///< symbolic floats and bools
  };
  void read_values(const JsonRef& graph, Scope& s);
  void read_inputs(const JsonRef& graph, Scope& s);
  void read_node(const JsonRef& node, Scope& s);
  bool inline_node(const JsonRef& node, Scope& s, const std::string& target);
  /// The names of a graph that is read with these values for its inputs ...
  Scope called(const JsonRef& graph, const std::string& name, const std::vector<Arg>& operands, const Scope& caller);
  /// ... and its reading.
  void read_called(const JsonRef& graph, Scope& inner);
  /// Reads the graph as part of this one; what it returns, in the caller's names.
  std::vector<Arg> call(const JsonRef& graph, const std::string& name, const std::vector<Arg>& operands, const Scope& caller);

  // control_flow.cpp: operators that run subgraphs by data or in rounds, as nodes of this graph. False where they must stay as they are.
  bool inline_control_flow(const JsonRef& node, Scope& s, const PNode& head);
  struct ControlFlow;
  bool inline_cond(const ControlFlow& f, Scope& s);
  void only_where(size_t first, const Branch& branch, const PNode& head);
  bool inline_rounds(const ControlFlow& f, Scope& s);
  bool inline_while(const ControlFlow& f, Scope& s);  // while_loop.cpp
  /// Within what a number lies, or a tensor of rank 0 that the graph makes of one.
  std::optional<Interval> whole_number(const Arg& a) const;
  /// Of a loop over the rows of tensors.
  struct Rounds {
    Expr number;
    int64_t least = 0, most = 0;
  };
  std::optional<Rounds> rounds_over(const std::vector<Arg>& over);
  bool inline_map(const ControlFlow& f, Scope& s);
  void add_node(const PNode& head, const std::string& target, std::vector<NamedArg> args, const std::string& result);
  /// The name of a tensor that the archive does not have: node.suffix.
  std::string own(const std::string& node, const std::string& suffix, TensorMeta type);
  /// A number or bool as a tensor of rank 0, node.suffix.
  TensorRef as_tensor(const PNode& head, const std::string& node, const std::string& suffix, const Arg& number, DType dtype);
  std::vector<std::string> define_results(const ControlFlow& f, Scope& s);
  bool add_guard(const PNode& node);  // assertions.cpp
  /// Whether a node before the innermost branch that is read gives it.
  bool outside_branch(SymId s) const;
  std::vector<NamedArg> read_args(const JsonRef& inputs, size_t first, const OpSchema* schema, Scope& s, const Loc& loc);
  Arg read_arg(const JsonRef& argument, Scope& s);
  Arg read_result(const JsonRef& argument, Scope& s, const Loc& loc);
  void cast_operands(PNode& node);  // autocast.cpp
  Arg tensor(const std::string& name, const Scope& s, const JsonRef& where) const;
  /// The size of this name, if it is one: torch.export writes sizes among tensors in the operands of higher-order operators.
  std::optional<Expr> size_named(const std::string& name, const Scope& s) const;
  Arg symbolic(const JsonRef& sym_argument, Scope& s);
  TensorRef define(const std::string& name, Scope& s, const JsonRef& where);
  void track_aliases(const PNode& node, const OpSchema& schema);
  Loc loc(const JsonRef& where, const PNode* node = nullptr) const;

  Program& p_;
  Symbols& symbols_;
  OpTable& ops_;
  Constants constants_;
  Scope top_;
  std::set<std::string> defined_;
  std::map<std::string, int> copies_;        ///< of a subgraph, by its prefix
  std::map<std::string, std::string> base_;  ///< value → the value that it may be a view of
  std::set<std::string> written_;
  int depth_ = 0;
  std::optional<size_t> branch_;  ///< the first node of the innermost branch that is being read
  int64_t maps_ = 0;              ///< that are being read, one in another
  std::string_view autocast_;     ///< the operators whose operands the region that is being read casts
};

/// "u0", "zuf1": as export names numbers that it finds in data.
bool is_unbacked(const std::string& name);

/// Python arithmetic that nothing uses any more.
void drop_unused_scalar_nodes(Program& program);

}  // namespace aotc::import
