#pragma once
// The Loop IR: fused kernels as explicit data. The same module goes to the CPU emitter (C++) and to the CUDA emitter.
//
// A Module is a list of calls of kernels over buffers. A buffer is a materialised tensor; all else became scalar code inside a kernel.
// Index expressions are linear element offsets (Expr) over loop symbols, shape symbols and loaded-index symbols.
#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/ids.h"
#include "graph/graph.h"
#include "sym/expr.h"

namespace aotc::loop {

enum class BufferId : uint32_t {};  ///< a buffer of the module
enum class KernelId : uint32_t {};  ///< a kernel of the module
enum class ParamId : uint32_t {};   ///< a buffer parameter of one kernel
enum class InstId : uint32_t {};    ///< an instruction of one LoopKernel

// ------------------------------------------------------------------------------------------------ fused loops
enum class ParamRole : uint8_t {
  input,    ///< read only
  output,   ///< written, each element at most once; the calls of a module that write a buffer (parts of a cat) together write all of it
  inout,    ///< read and written at the same index only (in-place reuse is always allowed for it)
  local,    ///< row scratch: one value per inner point, private to one outer point; not a module buffer. Index is over inner symbols
  acc,      ///< epilogues only: the contraction's accumulators; index is over the epilogue's own loop symbols
  operand,  ///< prologues only: the operand that is computed, written once everywhere; index is over the prologue's own loop symbols
};
struct Param {
  std::string name;
  ParamRole role = ParamRole::input;
  DType dtype = DType::f32;
  Exprs dims;  ///< dense row-major
};
/// Whether a buffer is passed for the param.
constexpr bool takes_argument(ParamRole r) { return r == ParamRole::input || r == ParamRole::output || r == ParamRole::inout; }

struct LoopVar {
  SymId sym;    ///< SymKind::loop, of the kernel's SymTable
  Expr extent;  ///< over shape symbols only
};

enum class InstKind : uint8_t {
  op,        ///< pointwise core op (Op) on args; result dtype `dtype`
  constant,  ///< imm_f / imm_i by dtype
  index,     ///< the int64 value of `index`
  load,      ///< param[index]; where mask is given and false: the constant imm (no access happens)
  store,     ///< param[index] = args[0]; where mask is given and false: nothing
  reduce,    ///< over all inner points of its block: reduce_kind of args[0]; value usable in later blocks. argmax/argmin: int64 row-major
             ///< inner index
  scan,      ///< running reduction of args[0] along the last inner var (earlier inner vars restart it); usable in the same block.
             ///< argmax/argmin: int64 position of the running extreme (last on ties, as cummax)
  check,     ///< args[0] is bool: when false the run reports AOTC_STATUS_INDEX_OUT_OF_RANGE with `text` (indirect index out of range)
};
struct Inst {
  InstKind kind = InstKind::op;
  Op op = Op::add;
  DType dtype = DType::f32;  ///< of the result (store, check: of the stored value)
  std::vector<InstId> args;
  ParamId param = kNone<ParamId>;
  Expr index;
  InstId mask = kNone<InstId>;  ///< bool
  double imm_f = 0;
  int64_t imm_i = 0;
  ReduceKind reduce_kind = ReduceKind::sum;
  SymId bind = kNone<SymId>;  ///< when set, this int64 instruction's value is that symbol (SymKind::value) in later index expressions of
                              ///< the block (and of later blocks when it is in an outer one); no other instruction's is (loop/finish.cpp)
  std::string text;
};

/// Straight-line code executed once per outer point (over_inner false) or once per inner point (true). Instructions may use results of
/// earlier instructions of the same block, of earlier outer blocks, and reduce results of earlier inner blocks.
struct Block {
  bool over_inner = false;
  std::vector<InstId> insts;
};

/// Which loop the lanes of a vector (CPU) or the threads of a warp (GPU) run along.
enum class LaneAxis : uint8_t { inner, outer, none };

struct LoopKernel {
  std::string name;              ///< unique in the module, a C identifier; says what it does: "add_relu", "softmax_layernorm"
  SymTable syms;                 ///< the graph's, extended by loop and value symbols
  IdVec<ParamId, Param> params;  ///< in call order, those that take no argument last
  IdVec<InstId, Inst> insts;
  std::vector<LoopVar> outer;  ///< parallel
  std::vector<LoopVar> inner;  ///< one row; empty: blocks over_inner do not occur
  std::vector<Block> blocks;
  LaneAxis lanes = LaneAxis::inner;
  std::vector<NodeId> nodes;  ///< graph nodes computed here (for explain)
  Expr outer_points() const;
  Expr inner_points() const;
};

// ------------------------------------------------------------------------------------------------ contractions
/// In which contraction kernels sum products of such operands; integers wrap.
constexpr DType accumulator_type(DType operands) {
  if (operands == DType::f64 || operands == DType::i64) return operands;
  return is_float(operands) ? DType::f32 : DType::i32;
}

/// A strided view of a buffer: element (b.., i, j) at base + sum(batch_strides*b) + i*row_stride + j*col_stride, in elements. Or, with a
/// prologue, what that computes: then nothing else is set.
struct Operand {
  ParamId param = kNone<ParamId>;
  Expr base;
  Exprs batch_strides;
  Expr row_stride, col_stride;
  /// The mirror image of an epilogue: outer = batch vars then the operand's row var, inner = its column var; one `operand` parameter, of
  /// the operands' dtype, written once, at row*columns+column. Params other than that are params of the contraction, same order. The
  /// kernel calls it on the pieces of the operand that it is about to pack, possibly several times for one element. Of a it may
  /// hold reductions: then it computes whole rows (forms/row_prologues.cpp).
  std::optional<LoopKernel> prologue;
};

/// A slice [n_begin, n_end) of the output columns with its own epilogue: several products that share `a` (q, k, v) are one kernel.
struct Segment {
  Expr n_begin, n_end;
  /// outer = batch vars then the row var (m), inner = the column var (n, counted from n_begin); exactly one acc parameter
  /// (two with a twin or with mates), of the accumulation dtype, indexed row*(n_end-n_begin)+column. Params other than acc are params of
  /// the contraction, same order.
  LoopKernel epilogue;
  /// Not 0: columns j and j + mates, for j / mates even, are mates, and the epilogue has a second accumulator, last: that of its column's
  /// mate. The columns are a multiple of 2 * mates; never beside a twin.
  int64_t mates = 0;
};

/// What the prologue of operand b makes when it is a weight of few bits: b[k, n] = values[n, k] * scales[k / group, n] + offsets[..],
/// computed in float32, then rounded to the operands' type.
struct QuantisedWeight {
  ParamId values = kNone<ParamId>;  ///< i8, u8, f8e4m3fn or bf16, dense [n, k]
  /// Both bf16, both f16 or both f32, dense [ceil(k / group), n], or [n, ceil(k / group)] where by_column; kNone: ones, zeros.
  ParamId scales = kNone<ParamId>, offsets = kNone<ParamId>;
  int64_t group = 0;
  int bits = 8;            ///< 8: signed bytes, f8e4m3fn; 4: numbers from 0 to 15; 16: bf16, without scales
  bool by_column = false;  ///< of one group that serves all of k both orders are one; products of 16 bits say true then
};

/// Rows of a in runs: row i is multiplied by the matrix of b of the first run whose end is beyond i, or of the last. Matrix j begins
/// j * stride elements behind the first. There are no batch dims, twins or mates then, and no operand is computed.
struct Runs {
  ParamId ends = kNone<ParamId>;  ///< int64, dense [count]
  Expr count, stride;
};

struct MatmulKernel {
  std::string name;
  SymTable syms;
  IdVec<ParamId, Param> params;
  Exprs batch;  ///< at most 2 (more are flattened or materialised by the lowering)
  Expr m, n, k;
  DType in = DType::f32;    ///< of both operands; or of a, u8, beside an i8 b (multiplies_bytes)
  DType acc = DType::f32;   ///< accumulator_type(in)
  Operand a, b;             ///< a: rows m, columns k. b: rows k, columns n
  bool b_constant = false;  ///< b is a weight: packed at build time; then b.param's buffer holds the packed form, see plan/weights.h
  std::optional<QuantisedWeight> b_quantised;  ///< beside b's prologue, of which it says what it is (loop/quantised.h)
  /// A second right operand, strided as b is, of a second product of a: the epilogue has an accumulator of each, the twin's last. Beside a
  /// b of few bits it is one in the same format, and twin_quantised says so.
  std::optional<Operand> twin;
  std::optional<QuantisedWeight> twin_quantised;
  std::optional<Runs> runs;
  bool ordered = false;           ///< sums go in an order that does not depend on m: rows are the same bits whatever their number
  bool b_panels_read = false;     ///< loads of b.param's buffer, here and elsewhere, are of the packed form (plan/share_weights.h)
  std::vector<Segment> segments;  ///< at least one; cover [0, n)
  std::vector<NodeId> nodes;
};

/// Whether unsigned bytes are multiplied by signed ones.
inline bool multiplies_bytes(const MatmulKernel& k) {
  return k.in == DType::u8 && !k.b.prologue && k.params.contains(k.b.param) && k.params[k.b.param].dtype == DType::i8;
}

/// Whether an epilogue has two accumulators.
inline bool two_sums(const MatmulKernel& k) {
  return k.twin || std::any_of(k.segments.begin(), k.segments.end(), [](const Segment& s) { return s.mates != 0; });
}

struct ConvKernel {
  std::string name;
  SymTable syms;
  IdVec<ParamId, Param> params;
  ParamId x, w;  ///< x: dense [N, C, S..]; w: [Co, C/groups, K..], or [C, Co/groups, K..] when transposed
  bool transposed = false;
  bool w_constant = false;     ///< packed at build time
  bool ordered = false;        ///< sums go in an order that does not depend on n: images are the same bits whatever their number
  bool channels_last = false;  ///< x lies as [N, S.., C], and the epilogue runs over outer = [n, pixel], inner = [co]; never transposed
  Exprs x_dims, out_dims;      ///< [N, C, S..] and [N, Co, O..], however x lies
  Ints kernel, stride, padding, padding_hi, dilation;
  int64_t groups = 1;
  int64_t around = 0;                       ///< of integers: what lies around the images
  DType in = DType::f32, acc = DType::f32;  ///< in: of x, and of w but for i8 beside u8 (multiplies_bytes)
  /// outer = [n, co], inner = [pixel] (row-major over the output's spatial dims); one acc parameter indexed (n*Co+co)*P+pixel. With
  /// channels_last outer = [n, pixel], inner = [co], indexed (n*P+pixel)*Co+co.
  LoopKernel epilogue;
  std::vector<NodeId> nodes;
};

inline bool multiplies_bytes(const ConvKernel& k) {
  return k.in == DType::u8 && k.params.contains(k.w) && k.params[k.w].dtype == DType::i8;
}

struct AttentionKernel {
  std::string name;
  SymTable syms;
  IdVec<ParamId, Param> params;
  Expr batch, heads, kv_heads, q_len, kv_len, head_dim, v_dim;
  struct View {
    ParamId param = kNone<ParamId>;
    Expr base, b, h, s, e;
  };                         ///< strides in elements for batch, head, position, channel
  View q, k, v, out;         ///< out may be written in any layout: [B,L,H,E] saves the transpose that follows
  std::optional<View> mask;  ///< b h s(=query) e(=key) strides; bool or float
  /// int64 by row of a bool mask (e is not used): the keys that it shows lie in [from, end); -1 - end where it hides some of those, too.
  struct Shown {
    View from, end;
  };
  std::optional<Shown> shown;
  /// float32 by row of keys and of values (e is not used), where these are int8: what a row is multiplied by.
  struct RowScales {
    View k, v;
  };
  std::optional<RowScales> row_scales;
  std::optional<View> sinks;            ///< b h s(=query) strides: one more score of a row, which multiplies no value; of the sums' type
  static constexpr int kShownPart = 4;  ///< by guess a row's range has one in so many of the keys: a cache is seldom full
  DType dtype = DType::f32;             ///< of queries and results, and of keys and values unless these are stored in bytes
  double scale = 1;
  bool causal = false, nan_rows = false;
  bool mask_fills = false;  ///< elements of a float mask of kHiddenScore and less take the score's place
  std::vector<NodeId> nodes;
  /// Of keys and values: dtype, or i8 (with row_scales), or f8e4m3fn. A kernel that is asked about by its type alone has no params: dtype.
  DType stored() const { return params.contains(k.param) ? params[k.param].dtype : dtype; }
  bool of_bytes() const { return stored() != dtype; }
};

/// A whole-tensor algorithm of the kernel library (kernels/cpu/library): sort, topk, scatter, index_put.
struct LibraryKernel {
  std::string name;       ///< instance name
  std::string algorithm;  ///< "sort", "topk", "scatter", "index_put", "recurrence", "copy"
  SymTable syms;
  IdVec<ParamId, Param> params;  ///< dense
  std::map<Attr, AttrValue> attrs;
  std::vector<Expr> sizes;        ///< as the algorithm's header documents
  std::optional<ParamId> weight;  ///< a constant that a form may store in another order, see plan/weights.h: of recurrences, of the state
  std::vector<NodeId> nodes;
};

using Kernel = std::variant<LoopKernel, MatmulKernel, ConvKernel, AttentionKernel, LibraryKernel>;
const std::string& kernel_name(const Kernel& k);
const IdVec<ParamId, Param>& kernel_params(const Kernel& k);
const std::vector<NodeId>& kernel_nodes(const Kernel& k);

// ------------------------------------------------------------------------------------------------ module
enum class BufferKind : uint8_t { input, output, constant, state, state_out, temp };
struct Buffer {
  std::string name;
  BufferKind kind = BufferKind::temp;
  TensorType type;           ///< dense row-major
  uint32_t index = 0;        ///< input/output: position in the signature; constant: ConstId; state: StateId
  int32_t alias_input = -1;  ///< output: the input whose memory a caller may give for it, too
  bool panels = false;       ///< a constant in one form for all: that of the products with b_panels_read whose operand b it is
};

struct Call {
  KernelId kernel;
  std::vector<BufferId> args;  ///< one per module-visible param, in order
  std::string label;           ///< graph node names, for explain and profiles
  std::vector<NodeId> nodes;   ///< what this call computes (a kernel's own `nodes` are those of its first call)
};

/// Why a value got a buffer of its own (explain): "model output", "3 users in other kernels", "operand of matmul", ...; or why it is
/// computed in a contraction's prologue.
struct FusionNote {
  ValueId value;
  std::string why;
  bool prologue = false;
};

/// In which forms a constant is stored, and why (explain).
struct WeightNote {
  BufferId buffer;
  std::string why;
};

struct Module {
  SymTable syms;
  IdVec<BufferId, Buffer> buffers;
  IdVec<KernelId, Kernel> kernels;             ///< structurally equal kernels are one
  std::vector<Call> calls;                     ///< in execution order
  std::vector<std::vector<Call>> other_calls;  ///< each instead of `calls` for some sizes (plan::SizeClass); in execution order
  std::vector<FusionNote> notes;
  std::vector<WeightNote> weight_notes;
};

}  // namespace aotc::loop
