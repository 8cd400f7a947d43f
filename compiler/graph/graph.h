#pragma once
// The Graph IR: functional SSA over dense row-major logical tensors with symbolic dims.
//
// There is no mutation and no aliasing inside; both live at the edges (states, IoBinding). Nodes are kept in a valid
// topological order at all times. Text form: graph/text.h; rules of well-formedness: graph/verify.h; type rules: graph/infer.h;
// building: graph/builder.h.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/diagnostic.h"
#include "base/dtype.h"
#include "base/ids.h"
#include "graph/ops.h"
#include "sym/expr.h"

namespace aotc {

struct TensorType {
  DType dtype = DType::f32;
  std::vector<Expr> dims;  ///< rank 0: a scalar
  int rank() const { return static_cast<int>(dims.size()); }
  Expr elems() const { return product(dims); }
  Expr bytes() const { return elems() * dtype_bytes(dtype); }
  friend bool operator==(const TensorType& a, const TensorType& b) { return a.dtype == b.dtype && a.dims == b.dims; }
};

/// What the caller has where the graph has `value`: the same, or complex numbers for pairs of reals along a last dim of 2.
TensorType caller_type(const TensorType& value, bool complex);

/// In the order in which they are printed. The rows are in attrs.def.
enum class Attr : uint8_t {
#define AOTC_ATTR(name, type) name,
#include "graph/attrs.def"
#undef AOTC_ATTR
};
std::string_view attr_name(Attr a);
std::optional<Attr> parse_attr(std::string_view name);

using Ints = std::vector<int64_t>;
using Exprs = std::vector<Expr>;
using AttrValue = std::variant<bool, int64_t, double, std::string, Ints, Expr, Exprs>;

enum class ReduceKind : uint8_t { sum, prod, max, min, argmax, argmin, logsumexp };
std::string_view reduce_name(ReduceKind k);
std::optional<ReduceKind> parse_reduce(std::string_view name);

struct Node {
  Op op{};
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::map<Attr, AttrValue> attrs;
  std::string name;    ///< name of the archive's node it comes from (may repeat)
  std::string source;  ///< user's source line, "file.py:12 in forward: x = self.fc(x)", or empty
  bool dead = false;   ///< erased; skipped by everything (Graph::compact removes it)

  bool has(Attr a) const { return attrs.count(a) != 0; }
  /// Checked access: the attribute must be there with this type.
  template <class T>
  const T& get(Attr a) const {
    auto it = attrs.find(a);
    AOTC_CHECK(it != attrs.end(), "{} has no attribute {}", op_name(op), attr_name(a));
    const T* v = std::get_if<T>(&it->second);
    AOTC_CHECK(v, "attribute {} of {} has another type", attr_name(a), op_name(op));
    return *v;
  }
  template <class T>
  T get_or(Attr a, T fallback) const {
    return has(a) ? get<T>(a) : fallback;
  }
  ReduceKind reduce_kind() const;  ///< attr kind as an enum
};

enum class ValueKind : uint8_t { node, input, constant, state };

struct Value {
  TensorType type;
  ValueKind kind = ValueKind::node;
  NodeId node = kNone<NodeId>;  ///< kind node: the defining node and which of its results
  uint32_t result = 0;
  uint32_t input = 0;  ///< kind input: index into Graph::inputs
  ConstId constant = kNone<ConstId>;
  StateId state = kNone<StateId>;  ///< kind state: its content when the run starts
  std::string name;                ///< for printing; unique among values ("%12" when empty)
};

/// Bytes of a weight, buffer or literal: dense row-major, little-endian. Shared and immutable; may lie in a mapped file.
struct ConstData {
  std::string name;                       ///< the archive's name ("encoder.layer.0.weight"), or "folded.N"
  TensorType type;                        ///< dims are all constant
  std::shared_ptr<const void> keepalive;  ///< owner of data
  const std::byte* data = nullptr;
  size_t bytes = 0;
  /// Other values may take the place of these in an artifact that is built (aotc weights): a floating-point parameter or buffer of the
  /// archive, or what is computed from one. Nothing is decided by its values, and it is equal to another constant where both lie in one
  /// place (same_constant).
  bool exchangeable = false;
  /// Of an exchangeable constant of bytes: they are not negative and have so many bits; 0: any bytes.
  int bits = 0;
};
/// Whether two constants have equal bytes; exchangeable ones: whatever values take the place of theirs.
bool same_constant(const ConstData& a, const ConstData& b);

struct InputInfo {
  std::string name;  ///< as in the archive; the C identifier is made from it
  ValueId value = kNone<ValueId>;
  std::string tree_path;  ///< position in the model's call signature ("args[0]", "kwargs['mask'].0"); documentation only
  bool complex = false;   ///< the caller's tensor is complex: the value's last dim, of 2, has real and imaginary parts
};

/// Results come first; the others are read by the runtime, not given to the caller.
enum class OutputRole : uint8_t {
  result,
  size,   ///< int64 of rank 0: a size that the run found in data; `name` is its symbol's
  check,  ///< what a `check` gives; `name` is its message
};
struct OutputInfo {
  std::string name;
  ValueId value = kNone<ValueId>;
  std::string tree_path;
  int32_t alias_input = -1;  ///< >= 0: this result is the new content of that input (a user-input mutation)
  std::string gradient_of;   ///< the parameter or input that this is the loss's gradient of; documentation only
  /// The dims that the result has after a run, where some are found in data: made of inputs' sizes and of symbols that outputs of role size
  /// give. The value's own dims are the most that they can be, and each dim's elements come first in it. Empty: the value's dims.
  std::vector<Expr> found = {};
  OutputRole role = OutputRole::result;
  bool complex = false;  ///< as of InputInfo
};

/// A buffer that a run reads and updates and the context keeps (KV cache, running statistics).
struct StateInfo {
  std::string name;
  TensorType type;                   ///< dims constant
  ConstId initial = kNone<ConstId>;  ///< content at context_create and reset; kNone: zeros
  ValueId value = kNone<ValueId>;    ///< content when the run starts
  ValueId updated = kNone<ValueId>;  ///< content when the run ends; kNone: never written
};

/// A condition on shape symbols that must hold for the graph to be right: expr != 0 interpreted by kind.
struct ShapeGuard {
  enum class Kind : uint8_t { eq, le, divisible } kind;  ///< a == b; a <= b; a % b == 0
  Expr a, b;
  std::string why;
};

struct Graph {
  std::string name = "model";
  SymTable syms;
  IdVec<NodeId, Node> nodes;
  IdVec<ValueId, Value> values;
  IdVec<ConstId, ConstData> constants;
  IdVec<StateId, StateInfo> states;
  std::vector<NodeId> order;  ///< live nodes, topological
  std::vector<InputInfo> inputs;
  std::vector<OutputInfo> outputs;
  std::vector<ShapeGuard> guards;

  const TensorType& type(ValueId v) const { return values[v].type; }
  /// The type of the caller's tensor.
  TensorType type(const InputInfo& i) const { return caller_type(type(i.value), i.complex); }
  TensorType type(const OutputInfo& o) const { return caller_type(type(o.value), o.complex); }
  /// OutputInfo::found of the caller's tensor.
  std::vector<Expr> found(const OutputInfo& o) const { return {o.found.begin(), o.found.end() - (o.complex && !o.found.empty())}; }
  /// How many outputs the caller gets.
  size_t results() const;
  const Node* def(ValueId v) const {  ///< the defining node, or null for inputs, constants and states
    const Value& x = values[v];
    return x.kind == ValueKind::node ? &nodes[x.node] : nullptr;
  }
  ValueId add_input(std::string input_name, TensorType t);
  ValueId add_constant(ConstData data);
  ValueId add_state(std::string state_name, TensorType t, ConstId initial);
  /// Appends a node at the end of `order`; result types are given by the caller (Builder infers them).
  NodeId add_node(Node node, std::vector<TensorType> result_types);
  /// Replaces every use of `from` (nodes, outputs, states) by `to`; types must be equal.
  void replace_all_uses(ValueId from, ValueId to);
  /// Users per value, index by ValueId; outputs and state updates count as kNone<NodeId> entries.
  std::vector<std::vector<NodeId>> users() const;
  /// Drops dead nodes from `order`, restores topological order after rewrites that appended nodes late.
  void compact();
};

}  // namespace aotc
