#pragma once
// A kernel form: one way to compute a kernel kind on a family of machines, in one file. The tables of list.h name them in order; the last
// row that takes a kernel kind always fits.
//
// A form answers, without state: does it fit; which choices exist and what they should cost; how it is called; which form its weights
// take; its code. Decisions are data (Choice, StepSpec) before any text is made.
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/machine.h"
#include "forms/choice.h"
#include "forms/weight_form.h"
#include "loop/loop.h"
#include "sym/expr.h"

namespace aotc::forms {

enum class StepKind : uint8_t { cpu, cuda, copy, zero };

/// How the bulk copies of a CUDA kernel see one of its arguments (cuTensorMapEncodeTiled). From the contiguous dimension outwards.
struct TensorMap {
  int arg = 0;  ///< of the step
  DType dtype = DType::f32;
  int swizzle_bytes = 0;     ///< 0, 32, 64 or 128
  Expr offset_bytes = 0;     ///< from the argument's start; a multiple of 16
  Exprs dims;                ///< elements
  Exprs stride_bytes;        ///< of dims[1..]: multiples of 16
  std::vector<int32_t> box;  ///< elements, 1 to 256 each
  /// Of copies of windows (cuTensorMapEncodeIm2col), of the dims between the channels and the images: where the first window of an image
  /// begins beside its first element, where the last one begins beside its last, and the steps between them. The box is then channels and
  /// windows. Empty: copies of boxes.
  std::vector<int32_t> lower, upper, steps;
  friend bool operator==(const TensorMap&, const TensorMap&) = default;
};

/// How a kernel is called: what the runtime needs, beside the buffers. All Exprs are over shape symbols.
struct StepSpec {
  StepKind kind = StepKind::cpu;
  std::string symbol;                    ///< cpu: the function without its instruction set; cuda: the __global__ function
  bool library = false;                  ///< cpu: a kernel of the library (one symbol an instruction set), else generated code
  std::vector<Expr> sizes;               ///< args->size[i], or the kernel's int64 arguments
  Expr work = 1, grain = 1;              ///< cpu: units, and how many of them one thread should get at least
  Expr scratch_bytes = 0;                ///< cpu: per thread; cuda: of the launch
  std::array<Expr, 3> grid = {1, 1, 1};  ///< cuda
  std::array<int, 3> block = {1, 1, 1};  ///< cuda
  Expr smem_bytes = 0;                   ///< cuda: dynamic shared memory
  int64_t max_smem_bytes = 0;            ///< cuda: the most that smem_bytes can be
  std::vector<TensorMap> maps;           ///< cuda: passed after the sizes
  bool overlaps = false;                 ///< cuda: may start before the step before it has ended, for which the kernel waits itself
};

/// A kernel with all that a decision may rest on.
struct Site {
  const loop::Kernel& kernel;
  const SymTable& syms;  ///< the symbols with the ranges and hints of the variant
  const Machine& machine;
  const Numerics& numerics;  ///< what results may lose
};

struct Candidate {
  Choice choice;
  Fit fit;
  double cost_ns = 0;      ///< estimated for all of the machine's cores; comparable only within one kernel
  double measured_ns = 0;  ///< 0: not measured
};

class Form {
 public:
  virtual ~Form() = default;
  virtual std::string_view name() const = 0;  ///< unique over all tables: "gemm", "cuda_mma"
  /// Why not, for explain. Must hold for the kernel's kind before anything else is asked.
  virtual Fit fits(const Site& s) const = 0;
  virtual std::span<const Field> fields() const { return {}; }
  /// What holds between the fields of a choice, each of which is in its range.
  virtual Fit legal(const Choice&) const { return Fit::yes(); }
  /// The choices that exist for this kernel, each with an estimate or a refusal; at least one fits where fits() says yes. In a fixed order.
  virtual std::vector<Candidate> candidates(const Site& s) const;
  virtual StepSpec step(const Site& s, const Choice& c) const = 0;
  /// Whether it computes products whose epilogues have two accumulators: with a twin, or with mates.
  virtual bool takes_twins() const { return false; }
  /// Whether it computes products of rows in runs (loop::Runs).
  virtual bool takes_runs() const { return false; }
  /// Whether it computes operand 0 (a) or 1 (b) of a contraction in a prologue: asked by the fusion, before there is a kernel.
  virtual Fit takes_prologue(DType, uint32_t /*operand*/, const Machine&) const { return {false, ""}; }
  /// The same of operand b where it is a weight of few bits alone (loop/quantised.h).
  virtual Fit takes_few_bits(DType, const Machine&) const { return {false, ""}; }
  /// The parameter that is stored in another form than the constant has, and that form.
  virtual std::optional<std::pair<loop::ParamId, WeightForm>> weight(const loop::Kernel&, const Choice&) const { return std::nullopt; }
  /// Whether the entry that it calls may compute some rows of pixels alone, as a stage of aotc_strips: channels-last convolutions and
  /// products. A pixel is the same sum then, too.
  virtual bool by_rows() const { return false; }
  /// cuda: whether its kernels, where they have one block, may be parts of a kernel (joined.h): what shared memory they name is little.
  virtual bool is_part() const { return false; }
  /// What the speed depends on, at the sizes worth tuning for: stable text, part of the tuning database's key. Empty: nothing to search.
  virtual std::string contract(const Site&) const { return {}; }
  /// cpu library kernels: a C definition of the config struct `name`, preceded by the declarations that it needs. Empty: none.
  virtual std::string config(const loop::Kernel&, const Choice&, Isa, const std::string& /*name*/) const { return {}; }
  /// cuda: the definition of the __global__ function `symbol` and what belongs to it.
  virtual std::string source(const Site&, const Choice&, const std::string& /*symbol*/) const { return {}; }
};

/// A form of one kernel kind: its subclasses see the kernel itself.
template <class Kernel>
class FormOf : public Form {
 public:
  Fit fits(const Site& s) const final {
    const auto* k = std::get_if<Kernel>(&s.kernel);
    if constexpr (std::is_same_v<Kernel, loop::MatmulKernel>) {
      if (k && loop::two_sums(*k) && !takes_twins()) return {false, "it finishes one sum at a time"};
      if (k && k->runs && !takes_runs()) return {false, "its rows have one matrix"};
    }
    return k ? fits(*k, s) : Fit{false, ""};
  }
  std::vector<Candidate> candidates(const Site& s) const final { return candidates(std::get<Kernel>(s.kernel), s); }
  StepSpec step(const Site& s, const Choice& c) const final { return step(std::get<Kernel>(s.kernel), s, c); }
  std::optional<std::pair<loop::ParamId, WeightForm>> weight(const loop::Kernel& k, const Choice& c) const final {
    return weight(std::get<Kernel>(k), c);
  }
  std::string contract(const Site& s) const final { return contract(std::get<Kernel>(s.kernel), s); }
  std::string config(const loop::Kernel& k, const Choice& c, Isa isa, const std::string& name) const final {
    return config(k, std::get<Kernel>(k), c, isa, name);
  }
  std::string source(const Site& s, const Choice& c, const std::string& symbol) const final {
    return source(std::get<Kernel>(s.kernel), s, c, symbol);
  }

 protected:
  virtual Fit fits(const Kernel&, const Site&) const { return Fit::yes(); }
  virtual std::vector<Candidate> candidates(const Kernel&, const Site& s) const { return Form::candidates(s); }
  virtual StepSpec step(const Kernel& k, const Site& s, const Choice& c) const = 0;
  virtual std::optional<std::pair<loop::ParamId, WeightForm>> weight(const Kernel&, const Choice&) const { return std::nullopt; }
  virtual std::string contract(const Kernel&, const Site&) const { return {}; }
  virtual std::string config(const loop::Kernel&, const Kernel&, const Choice&, Isa, const std::string&) const { return {}; }
  virtual std::string source(const Kernel&, const Site&, const Choice&, const std::string&) const { return {}; }
};

}  // namespace aotc::forms
