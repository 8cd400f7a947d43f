#pragma once
// Text form of a Graph; parse(print(g)) prints the same text again.
//
//   graph @model
//   sym batch [1, 64] multiple_of 2 tune [1, 8]           (no upper bound: [1, inf])
//   input %x : float32[batch, 1024] "args[0]"             (name "..." follows where the input's name is not %x's)
//   const %w : float32[4096, 1024] "fc.weight" data 0f..  (data are not in the text but, in a dump, beside it: graph/constant_store.h)
//   const %c : int64[3] "lit" = [1, 2, 3]                 (small constants, up to 16 elements, carry their data)
//   state %kv : float32[8, 64] "cache" updated %12
//   guard eq batch*2, s1 "why"
//   %3 = matmul(%x, %wt) : float32[batch, 4096] @linear_1 "model.py:12 in forward: self.fc(x)"
//   %4, %5 = sort(%3) {dim=1, descending=true} : float32[..], int64[..]
//   output %5 "y"  alias_input 0                          (tree "..." before alias_input, gradient_of "w" behind it, where they are known)
//
// Values without a name are numbered in the order of the text. # starts a comment.
#include <string>
#include <string_view>

#include "graph/constant_store.h"
#include "graph/graph.h"

namespace aotc {

class TextReader;

struct PrintOptions {
  bool source = false;                 ///< user's source lines as trailing strings
  ConstantStore* constants = nullptr;  ///< where the data go that are not in the text; null: nowhere
  bool exchangeable = true;            ///< false: without the data of exchangeable constants
};
std::string print(const Graph& g, const PrintOptions& = {});
std::string print(const TensorType& t, const SymTable& syms);  ///< "float32[batch, 4096]"
std::string attr_text(const AttrValue& v, const SymTable& syms);
/// Pseudo-random content that depends on the name alone; dims must be numbers.
ConstData made_up_constant(std::string name, TensorType type);
AttrValue read_attr(TextReader& in, Attr a, const SymTable& syms);  ///< what attr_text gave
/// What becomes of constants whose data are neither in the text nor beside it.
enum class MissingData : uint8_t {
  made_up,  ///< pseudo-random numbers, by name: what tests interpret
  opaque    ///< none (has_data() is false)
};
struct ParseOptions {
  MissingData missing = MissingData::made_up;
  const ConstantStore* constants = nullptr;
};
/// Throws Diagnostic (file, "line:column", what was expected). The result is verified.
Graph parse_graph(std::string_view text, std::string_view file_name, const ParseOptions& options = {});

}  // namespace aotc
