#pragma once
// The type rule of every core op, in one place: used by Builder, by the verifier and by the text parser.
#include "graph/graph.h"

namespace aotc {

/// Result types of `node` given its input types and attributes. `given`: what an op cannot infer (dims and dtype of full, dtype of cast
/// and matmul, dims of reshape/expand/slice/pad/window/strided/iota); for the others it may be null, and where it is not null it is
/// checked. Throws InternalError (AOTC_CHECK) when the node is not well typed; the text says which rule.
/// A fact about symbolic dims that the rule needs must be proved by the symbols' ranges or be one of the graph's guards.
std::vector<TensorType> infer_types(const Graph& g, const Node& node, const TensorType* given);
/// The same, but facts that are neither proved nor refuted are appended to `needed` instead of throwing.
std::vector<TensorType> infer_types(const Graph& g, const Node& node, const TensorType* given, std::vector<ShapeGuard>& needed);

/// True when the symbols' ranges and the graph's guards prove it.
bool holds(const Graph& g, ShapeGuard::Kind kind, const Expr& a, const Expr& b);
/// a == b dim by dim, as holds() proves it.
bool same_dims(const Graph& g, const Exprs& a, const Exprs& b);

/// Cells of Op::recurrence, by the names of attr cell.
enum class Cell : uint8_t { lstm, gru, tanh, relu };
std::optional<Cell> parse_cell(std::string_view name);
/// lstm 4, gru 3, tanh and relu 1; 0 for other names.
int64_t recurrence_gates(std::string_view cell);

/// Where the optional inputs of an attention stand; 0: it has none of these. `scaled`: its keys and values are int8.
struct AttentionInputs {
  size_t mask = 0, from = 0, end = 0, sinks = 0;
  size_t scales = 0;  ///< of the rows of keys; those of values follow
};
AttentionInputs attention_inputs(const Node& n, size_t arity, bool scaled);
AttentionInputs attention_inputs(const Graph& g, const Node& n);

/// What type an attribute's value has. `scalar`: double, int64 or bool, as the node's element type is floating, integer or bool.
enum class AttrType : uint8_t { boolean, integer, real, text, ints, expr, exprs, scalar };
AttrType attr_type(Attr a);
/// Fills in the optional attributes of the op that are missing (padding, dilation, groups, causal ...), so that every node of a Graph
/// has all attributes of its op, and makes a scalar `value` one of `dtype`'s kind.
void complete_attrs(Node& node, int input_rank, DType dtype);
/// The number in a scalar attribute (also where it is an integer or bool).
double scalar_f64(const Node& n, Attr a);
int64_t scalar_i64(const Node& n, Attr a);

}  // namespace aotc
