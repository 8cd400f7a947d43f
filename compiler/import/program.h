#pragma once
// A parsed .pt2: the archive's graph as plain data, nothing decided yet. No LibTorch here; the reader (import/read_archive.h) and the
// reference runner (import/reference.h) are the files that see it.
//
// Every argument that the operator's schema defaults is filled in by the reader, so rules find all arguments by name.
#include <complex>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "graph/graph.h"
#include "import/sym_parse.h"
#include "sym/expr.h"

namespace aotc::import {

struct TensorMeta {
  DType dtype = DType::f32;
  std::vector<Expr> sizes, strides;
  Expr storage_offset;
  bool requires_grad = false;
};

struct TensorRef {
  std::string name;
};  ///< a key of Program::tensors
struct NoneArg {};
struct DeviceArg {
  std::string text;
};  ///< "cpu", "cuda:0": recorded, never decides anything
struct LayoutArg {
  std::string text;
};  ///< "strided"
struct MemoryFormatArg {
  std::string text;
};  ///< "contiguous", "preserve", "channels_last", "channels_last_3d"
struct SubgraphArg {
  std::string name;
  size_t index;
};  ///< index into Program::subgraphs
/// A float or bool computed from shapes (n / 7, n > 3): no Expr can hold it. Rules refuse it, quoting `text`.
struct SymbolicArg {
  std::string name;  ///< defined by the node of which it is a result ("operator.truediv")
  std::string text;  ///< the archive's expression
};
using TensorList = std::vector<TensorRef>;
using OptTensorList = std::vector<std::optional<TensorRef>>;
/// Ints and symbolic ints are both Expr (constant or not).
using Arg = std::variant<NoneArg, TensorRef, TensorList, OptTensorList, Expr, std::vector<Expr>, double, std::vector<double>, bool,
                         std::vector<bool>, std::string, std::vector<std::string>, DType, DeviceArg, LayoutArg, MemoryFormatArg,
                         std::complex<double>, SubgraphArg, SymbolicArg>;

struct NamedArg {
  std::string name;  ///< of the operator's schema; "0", "1" ... for positional arguments of an operator that LibTorch does not know
  Arg value;         ///< a Tensor argument may hold a number (Expr, double, bool): PyTorch's wrapped number
  bool defaulted = false;
};

/// A branch of torch.cond: taken where the condition, a bool of rank 0, is `taken`.
struct Branch {
  TensorRef condition;
  bool taken;
};

struct PNode {
  std::string name;    ///< first output's name, or "node_N"
  std::string target;  ///< "aten.linear.default" (the archive's "torch.ops." prefix removed); "operator.add" for python scalars
  std::vector<NamedArg> args;
  /// One entry a result, in schema order: a TensorRef, a TensorList, an Expr (symint result, already resolved), a SymbolicArg, or
  /// NoneArg (unused). An in-place operator's result is a new name for the tensor that it wrote.
  std::vector<Arg> results;
  std::string source;            ///< "file.py:12 in forward: self.fc(x)", innermost user frame of the stack trace
  std::string place;             ///< "/home/me/file.py:12", where that frame is
  std::string path;              ///< in the archive's JSON: "$.graph_module.graph.nodes[3]"
  std::string module_path;       ///< "encoder.layer.0.attention" from nn_module_stack, or empty
  std::vector<Branch> branches;  ///< in which it stands: what it checks must hold where all of them are taken
};
/// Whether an operator of Python numbers makes an integer of its own symbol out of one that no Expr holds: int(x.item()), or what
/// torch._check makes of a bool that is read out of a tensor.
bool makes_symbol(const PNode& node);

enum class InputKind : uint8_t { user, parameter, buffer, constant_tensor, user_scalar };
struct ProgramInput {
  InputKind kind;
  std::string name;    ///< graph argument name (key of tensors)
  std::string target;  ///< parameter/buffer/constant name in the state dict
  bool persistent = true;
  std::string tree_path;
  Arg constant;           ///< user_scalar: the value baked in by export (int, float, bool, str, None)
  bool is_state = false;  ///< parameter, buffer: the caller reads and writes it, whatever the program does (import/states.h)
};
/// loss and the gradients are results of training programs.
enum class OutputKind : uint8_t { user, buffer_mutation, user_input_mutation, user_constant, loss, parameter_gradient, input_gradient };
inline bool is_mutation(OutputKind k) { return k == OutputKind::buffer_mutation || k == OutputKind::user_input_mutation; }
struct ProgramOutput {
  OutputKind kind;
  /// TensorRef, or a constant / symint for user outputs that are not tensors. For a mutation by in-place operators (archives that were
  /// not functionalized) it names the buffer or input itself: its content when the graph ends.
  Arg value;
  std::string target;  ///< mutated buffer or input name; what a gradient is the gradient of
  std::string tree_path;
};

/// A condition on sizes that no ShapeGuard can say (square roots, products that round). It is decided where its sizes become numbers
/// (import/size_conditions.h).
struct OpenCondition {
  SymNode tree;
  std::map<std::string, Expr> sizes;  ///< of the tree's symbols
  std::string text;                   ///< with the inputs' names
  std::string why;                    ///< it is no ShapeGuard
  Loc loc;
};

/// Memory in which several tensors of the archive lie: they are views of it, as torch.export.load has them.
struct SharedStorage {
  ConstData data;                             ///< all of it, flat
  std::vector<std::string> targets;           ///< keys of Program::data; data_meta says where in it each lies
  std::map<std::string, std::string> states;  ///< of these, views of a state → that input's name (import/shared_storage.h)
};

/// A condition on numbers found in data that holds where all of these branches are taken.
struct BranchGuard {
  ShapeGuard guard;
  std::vector<Branch> branches;
};

struct Program {
  std::string file;       ///< path as given, for messages
  std::string source_id;  ///< of the graph and the weights as saved, 16 hex digits; the same wherever the archive lies
  std::string torch_version;
  int schema_major = 0, schema_minor = 0;
  SymTable syms;  ///< the archive's symbols with their ranges; as sizes they are not negative
  /// Of symbols that may be negative, being numbers found in data: the least that they can be; INT64_MIN: anything.
  std::map<SymId, int64_t> least;
  std::map<std::string, TensorMeta> tensors;
  std::map<std::string, Expr> sym_ints;
  /// In the order of execution. Python arithmetic on shapes whose results are Exprs is gone; wrappers without a meaning of their own
  /// (set_grad_enabled, checkpointing) are inlined.
  std::vector<PNode> nodes;
  std::vector<ProgramInput> inputs;
  /// User outputs (loss and gradients among them), then new contents of inputs, then of buffers in the order of `inputs`.
  std::vector<ProgramOutput> outputs;
  std::map<std::string, ConstData> data;        ///< weights, buffers, constants by target name; aliases share storage
  std::map<std::string, TensorMeta> data_meta;  ///< strides and offset as saved; ConstData is already dense
  std::vector<Program> subgraphs;
  std::vector<ShapeGuard> guards;  ///< what export assumed about shapes and their ranges do not say
  std::vector<BranchGuard> branch_guards;
  std::vector<OpenCondition> open_conditions;  ///< the part of it that must be decided before the program is compiled
  bool states_guards = false;                  ///< the archive lists what export assumed (guards_code), be it nothing
  /// Example inputs saved with the archive, in user-input order; empty when there are none.
  std::vector<ConstData> sample_inputs;
  std::vector<SharedStorage> storages;
};

/// The whole program as text, for people and tests. Without data.
std::string dump(const Program& program);
std::string arg_text(const Arg& arg, const SymTable& syms);

}  // namespace aotc::import
