#pragma once
// The program's tensors during decomposition: values, and which of them share a storage. A write through an in-place operator makes a
// new value of the base tensor; views of it are made again, by their own rules, when they are next read.
#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "decompose/found_sizes.h"
#include "decompose/read_numbers.h"
#include "decompose/rule.h"
#include "import/aliases.h"

namespace aotc::own {
struct Kernels;
}

namespace aotc::decompose {

/// Why an operator that has no rule is refused; a better reason may take its place.
inline constexpr std::string_view kNoRule = "no rule";

class Env final : public TensorEnv {
 public:
  Env(Builder& b, const import::Program& p, const own::Kernels* own = nullptr) : b_(b), program_(p), own_(own) {}

  /// A tensor whose value is made on first use (weights, so that the graph holds none that is not read).
  void declare(const std::string& name, std::function<ValueId()> make);
  ValueId get(const std::string& name) override;
  void define(const std::string& name, ValueId v) override;
  void write(const std::string& name, ValueId v) override;
  ValueId number(const import::SymbolicArg& arg) override;
  std::optional<ValueId> integer(const Expr& e) override { return read_.integer(b_, e); }
  /// The number that a node reads out of a tensor.
  void read_number(const import::PNode& node);
  /// Where the archive states a value of a number that is read (torch._check(n == 3), torch._check(x.all().item())) the run checks it.
  void check_stated(const import::PNode& node, ValueId read);
  Owner owner(const std::string& name) override;
  const std::string& name_now(const std::string& name) const override;
  std::map<ValueId, Selected>& selections() override { return selections_; }
  void check(ValueId condition, std::string message) override;
  /// A condition where these branches of the program are taken, true elsewhere.
  ValueId where_taken(const std::vector<import::Branch>& branches, ValueId condition);
  Expr found(const std::optional<Expr>& archive, ValueId count, const Expr& bound) override;
  std::optional<Expr> largest(const Expr& archive) const override;
  /// Whether a number occurs in it that is read out of a tensor.
  bool reads_number(const Expr& e) const { return read_.occurs_in(e); }
  const FoundSizes& found_sizes() const { return found_; }
  struct Check {
    ValueId condition;
    std::string message;
  };
  const std::vector<Check>& checks() const { return checks_; }
  void add(Check c) { checks_.push_back(std::move(c)); }
  bool known(const std::string& name) const { return tensors_.count(name) != 0; }

  /// Runs the node's rule; throws Refused. Handles in-place forms ("aten.relu_.default") by the functional rule and a write.
  void run(const import::PNode& node);
  /// Whether an in-place operator wrote the tensor of this name (or one that shares its storage).
  bool written(const std::string& name) const;
  /// The tensor whose memory it is in.
  const std::string& base_of(const std::string& name) const;

 private:
  using Kind = import::Alias::Kind;  // none: a tensor with memory of its own
  struct Tensor {
    ValueId value = kNone<ValueId>;
    std::function<ValueId()> make;
    Kind kind = Kind::none;
    std::string parent;                   ///< kinds other than none
    const import::PNode* node = nullptr;  ///< kind view: the operator that made it
    size_t result = 0;                    ///< and which element of its results it is
    size_t version = 0;                   ///< of the base, when `value` was made
    bool other_name = false;              ///< kind same: what an in-place operator gave back, not a tensor that shares the memory
  };
  Tensor& find(const std::string& name);
  Expr define_found(SymId s, ValueId count, const Expr& bound);
  std::optional<Expr> largest(SymId s, std::set<SymId>& asked) const;
  /// What the program's range excludes is checked; a number that is counted lies within its bound.
  void check_range(SymId s, ValueId number, const std::optional<Expr>& bound);
  /// Whether some input's sizes tell the symbol.
  bool of_input(SymId s) const;
  /// What the rule makes, without defining it.
  std::map<std::string, ValueId> defined_by(RuleFn fn, Rule& rule);
  void note_aliases(const import::PNode& node);
  /// Whether the node that runs and those behind it read a tensor's memory through it alone, and through what is made of it.
  bool last_of_memory(const std::string& name);
  /// A rule whose results are the new contents of the targets.
  void run_in_place(const import::PNode& node, RuleFn fn, const std::vector<std::string>& targets);
  /// One of them.
  void replace(const import::PNode& node, const std::string& target, const std::string& result, ValueId after);
  /// The result of an operator that wrote `target`: that tensor by another name.
  void note_written(const std::string& result, const std::string& target, ValueId v);
  void run_view_in_place(const import::PNode& node, std::string_view functional);
  /// What the view's rule gives now. With `places`, for these places of the parent's elements in its stead.
  ValueId view_again(const std::string& name, const Tensor& t, ValueId places);
  bool conjugate_view(const Tensor& t);
  /// Whether the elements of `name` are the conjugates of what lies in memory.
  bool in_conjugate(const std::string& name);
  /// The places in `of`, which it is a view of (of a view, and so on), that the elements of `name` have.
  ValueId places_in(const std::string& name, const std::string& of);
  /// The tensor that `name` is a view of through the outermost of its views whose elements may share memory; empty where none does.
  std::string beneath_overlap(const std::string& name);

  Builder& b_;
  const import::Program& program_;
  const own::Kernels* own_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, size_t> versions_;  ///< by base name; absent: 0
  const import::PNode* running_ = nullptr;
  std::map<std::string, ValueId>* capture_ = nullptr;  ///< where define() puts results while a rule runs again
  const std::string* place_of_ = nullptr;              ///< the tensor whose places get() gives instead of its value
  ValueId places_ = kNone<ValueId>;
  ReadNumbers read_;
  FoundSizes found_;
  std::map<ValueId, Selected> selections_;
  std::vector<Check> checks_;
  std::list<import::PNode> own_nodes_;
  std::map<std::string, std::string> renamed_;  ///< what a name meant before an operator gave it another shape → the name
  std::map<std::string, std::string> now_;      ///< of these names, and of what they meant before: what name_now() gives
};

}  // namespace aotc::decompose
