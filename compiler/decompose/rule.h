#pragma once
// What a decomposition rule sees. How to add an operator: write `static void my_op(Rule& r)` in the family's file, add its row to the
// family's table at the file's end.
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/words.h"
#include "graph/builder.h"
#include "import/program.h"

namespace aotc::decompose {

/// Thrown by Rule::refuse (and by helpers that have no Rule at hand), caught by the driver, reported as Unsupported.
struct Refused {
  std::string why, hint;
};

/// The tensors of the program by name, as rules see them. The driver's implementation keeps track of views and in-place writes
/// (decompose/env.h); rules themselves are functional.
class TensorEnv {
 public:
  virtual ~TensorEnv() = default;
  virtual ValueId get(const std::string& name) = 0;
  virtual void define(const std::string& name, ValueId v) = 0;
  /// A new content of a tensor, which everything that shares its storage sees.
  virtual void write(const std::string& name, ValueId v) = 0;
  /// The tensor whose memory a tensor lies in: itself, or what it is a view of in the end. Throws Refused where that is not known.
  struct Owner {
    ValueId value;
    const import::TensorMeta* layout;  ///< where its elements lie
  };
  virtual Owner owner(const std::string& name) = 0;
  /// Whose metadata say how a tensor lies in memory now: after an in-place change of shape those of its result, for another name of a
  /// tensor that one's.
  virtual const std::string& name_now(const std::string& name) const = 0;
  /// A number computed from sizes or read out of a tensor: a rank-0 float64 value. Throws Refused where it cannot be.
  virtual ValueId number(const import::SymbolicArg& arg) = 0;
  /// An integer in which numbers occur that were read out of tensors: a rank-0 int64 value. Nothing where it is made of sizes alone.
  virtual std::optional<ValueId> integer(const Expr& e) = 0;
  /// What masks were found to select, by their values (decompose/selection.h).
  struct Selected {
    ValueId order, count;
    Expr size;
  };
  virtual std::map<ValueId, Selected>& selections() = 0;
  /// The run fails with this message where a bool of rank 0 is false.
  virtual void check(ValueId condition, std::string message) = 0;
  /// The most that the program's conditions (torch._check) allow a size to be that is found in data; nothing where they do not say.
  virtual std::optional<Expr> largest(const Expr& archive) const = 0;
  /// A size of a result that the run finds: `count`, int64 of rank 0, at most `bound`. Gives the size to use.
  virtual Expr found(const std::optional<Expr>& archive, ValueId count, const Expr& bound) = 0;
};

class Rule {
 public:
  Rule(Builder& b, const import::Program& p, const import::PNode& n, TensorEnv& env) : b(b), program(p), node(n), env_(env) {}
  Builder& b;
  const import::Program& program;
  const import::PNode& node;
  /// Results are cast to the archive's dtype: in-place forms write into a tensor that has one.
  bool cast_results = false;
  /// The operands are places instead of elements: a rule that moves elements moves them in whatever type.
  bool places = false;
  /// A complex tensor is a real one with a last dim of 2 (decompose/complex.cpp). Where this is set, metadata and dims are told that way:
  /// rules that move elements, or are linear in them, then serve complex tensors too.
  bool pairs = false;
  /// Operands and results are one part, real or imaginary, of what the archive says; metadata is told that way.
  bool part = false;

  /// Whether the archive is of this torch or a later one: eager computes as its own does.
  bool since_torch(int major, int minor) const;

  // Arguments by schema name. The plain forms refuse with a clear text when the argument has another type.
  const import::Arg& arg(std::string_view name) const;
  bool has(std::string_view name) const;   ///< the schema has this argument
  bool none(std::string_view name) const;  ///< absent or None
  bool is_tensor(std::string_view name) const;
  ValueId tensor(std::string_view name);
  std::optional<ValueId> opt_tensor(std::string_view name);
  /// The elements of the memory in which a tensor lies, in its order, of rank 1.
  ValueId memory(std::string_view name);
  std::vector<ValueId> tensors(std::string_view name);
  std::vector<std::optional<ValueId>> opt_tensors(std::string_view name);
  Expr sym(std::string_view name);                             ///< int or symint
  std::optional<ValueId> read_integer(std::string_view name);  ///< an int, as TensorEnv::integer has it; nothing for None
  std::optional<ValueId> read_integer(const Expr& e);
  /// A size that the run finds: `count`, int64 of rank 0, at most `bound`; `archive`: what it is called there. Gives the size to use.
  Expr found(const std::optional<Expr>& archive, ValueId count, const Expr& bound) { return env_.found(archive, count, bound); }
  /// The same where nothing but the program says how many there can be: refuses where it does not.
  Expr found_within_largest(const Expr& archive, ValueId count);
  std::map<ValueId, TensorEnv::Selected>& selections() { return env_.selections(); }
  /// The run fails with this message where a bool of rank 0 is false.
  void check(ValueId condition, std::string message) { env_.check(condition, std::move(message)); }
  std::vector<Expr> syms(std::string_view name);                ///< a single int counts as a list of one
  int64_t integer(std::string_view name);                       ///< must be constant, else refuses (naming the symbol)
  int64_t integer_or(std::string_view name, int64_t fallback);  ///< fallback when absent or None
  Ints integers(std::string_view name);
  double number(std::string_view name);  ///< float, int or bool scalar
  double number_or(std::string_view name, double fallback);
  std::vector<double> numbers(std::string_view name);
  bool boolean(std::string_view name);
  bool boolean_or(std::string_view name, bool fallback);
  std::string text(std::string_view name);
  std::string text_or(std::string_view name, std::string fallback);
  std::optional<DType> opt_dtype(std::string_view name);
  /// The scalar (Number) argument: whether it is floating, integral or bool decides promotion.
  struct Number {
    enum Kind { boolean, integer, floating } kind = integer;
    double f = 0;
    Expr i;
    /// floating: a rank-0 float64 value; f is NaN then. integer: one read out of a tensor, a rank-0 int64 value.
    std::optional<ValueId> computed;
  };
  Number scalar(std::string_view name);

  int dim(std::string_view name, int rank);  ///< wraps negative, checks range
  /// None always means all; an empty list means all only where asked.
  Ints dims(std::string_view name, int rank, bool empty_means_all);
  /// A list of k ints where one value stands for all ([2] or 2 for a kernel of rank k); `empty` stands for an empty list.
  Ints spatial(std::string_view name, int k, int64_t fallback = 1);
  int64_t constant(const Expr& e, std::string_view what) const;  ///< refuses when e is symbolic

  /// The archive's own type of result i: the oracle for dtype and for dims that a rule cannot infer.
  TensorType meta_result(size_t i = 0) const;
  std::vector<TensorType> meta_list(size_t i = 0) const;  ///< of a Tensor[] result
  bool wants(size_t i) const;                             ///< the result exists and is used
  const import::TensorMeta* meta_arg(std::string_view name) const;
  /// The archive's sizes where they are what the operator makes of its arguments: equal by proof, or by a guard. Export writes down what
  /// held at the sizes of its example, which need not hold at all sizes of the range.
  Expr agree(const Expr& own, const Expr& archive, std::string_view what) const;
  std::vector<Expr> agree(const std::vector<Expr>& own, const std::vector<Expr>& archive, std::string_view what) const;
  /// agree() with a list of sizes given as an argument, in which -1 stands for any; the archive's where there is no such argument.
  std::vector<Expr> agree_argument(std::string_view name, const std::vector<Expr>& archive) const;
  /// A place along a dim of `size`, counted from its end where that is negative, as counted from its start.
  Expr from_start(const Expr& place, const Expr& size) const;
  /// The same of a cut between elements: what lies before the start is the start.
  Expr cut_from_start(const Expr& place, const Expr& size) const;
  /// Sets result i (checked against meta: dtype and rank must agree, dims as agree() has it).
  void set(size_t i, ValueId v);
  void set_list(size_t i, const std::vector<ValueId>& vs);  ///< a Tensor[] result
  void set(ValueId v) { set(0, v); }
  /// For operators that write an argument (import/hidden_writes.h).
  void write(std::string_view argument, ValueId v);
  /// Carries out a rule for real tensors on the real and on the imaginary parts of complex ones, where it is the same for both: a rule
  /// that moves elements, or is linear in them. Real operands and numbers that elements are taken from are without an imaginary part.
  /// `together` makes one result of both parts' (default: the complex number).
  void on_parts(void (*fn)(Rule&), ValueId (*together)(Builder&, ValueId, ValueId) = nullptr);
  /// Carries out a rule for real tensors on the magnitudes of complex ones.
  void on_magnitudes(void (*fn)(Rule&));

  [[noreturn]] void refuse(std::string why, std::string hint = {}) const;
  /// What the archive says of this node contradicts itself.
  [[nodiscard]] Diagnostic fault(std::string why) const;

 private:
  const import::Arg* find(std::string_view name) const;
  [[noreturn]] void wrong_type(std::string_view name, std::string_view expected) const;
  void define(const std::string& name, ValueId v);
  TensorEnv& env_;
};

using RuleFn = void (*)(Rule&);
struct RuleRow {
  std::string_view overloads;  ///< words: "aten.add.Tensor aten.add.Scalar"
  RuleFn fn;
};
using RuleTable = std::span<const RuleRow>;

/// The real type that holds a complex one; other types are themselves.
TensorType pair_type(TensorType t);

/// All families (decompose/table.cpp).
RuleFn find_rule(std::string_view overload);
/// The rule for an operator some tensor of which is complex; null: none (decompose/complex.cpp).
RuleFn find_complex_rule(std::string_view overload);
std::vector<RuleTable> all_rules();

}  // namespace aotc::decompose
