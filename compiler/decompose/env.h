#pragma once
// The program's tensors during decomposition: values, and which of them share a storage. A write through an in-place operator makes a
// new value of the base tensor; views of it are made again, by their own rules, when they are next read.
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "decompose/rule.h"

namespace aotc::decompose {

/// Why an operator that has no rule is refused; a better reason may take its place.
inline constexpr std::string_view kNoRule = "no rule";

class Env final : public TensorEnv {
 public:
  Env(Builder& b, const import::Program& p) : b_(b), program_(p) {}

  /// A tensor whose value is made on first use (weights, so that the graph holds none that is not read).
  void declare(const std::string& name, std::function<ValueId()> make);
  ValueId get(const std::string& name) override;
  void define(const std::string& name, ValueId v) override;
  void write(const std::string& name, ValueId v) override;
  ValueId number(const import::SymbolicArg& arg) override;
  bool known(const std::string& name) const { return tensors_.count(name) != 0; }

  /// Runs the node's rule; throws Refused. Handles in-place forms ("aten.relu_.default") by the functional rule and a write.
  void run(const import::PNode& node);
  /// Whether an in-place operator wrote the tensor of this name (or one that shares its storage).
  bool written(const std::string& name) const;

 private:
  enum class Kind { base, same, view, unclear };
  struct Tensor {
    ValueId value = kNone<ValueId>;
    std::function<ValueId()> make;
    Kind kind = Kind::base;
    std::string parent;                   ///< kinds other than base
    const import::PNode* node = nullptr;  ///< kind view: the operator that made it
    size_t result = 0;                    ///< and which element of its results it is
    size_t version = 0;                   ///< of the base, when `value` was made
  };
  Tensor& find(const std::string& name);
  const std::string& base_of(const std::string& name) const;
  void note_aliases(const import::PNode& node);
  void run_in_place(const import::PNode& node, RuleFn fn);

  Builder& b_;
  const import::Program& program_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, size_t> versions_;             ///< by base name; absent: 0
  std::map<std::string, ValueId>* capture_ = nullptr;  ///< where define() puts results while a rule runs again
};

/// Names of a node's tensor results, in order.
std::vector<std::string> result_names(const import::PNode& node);
/// "aten.relu_.default" → "aten.relu.default"; empty where the operator is not in place.
std::string functional_name(const std::string& target);

}  // namespace aotc::decompose
