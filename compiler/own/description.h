#pragma once
// Kernels of the user's own for custom operators, as kernels.json describes them (schemas/kernels.schema.json): data, nothing compiled yet.
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/dtype.h"
#include "import/operators.h"
#include "own/formula.h"
#include "own/pointwise.h"

namespace aotc::own {

/// What a tensor argument must be for this kernel.
struct InputRule {
  std::vector<DType> dtypes;  ///< one of these
  std::optional<int64_t> rank;
};

struct ResultRule {
  std::optional<DType> dtype;
  std::string dtype_of;  ///< or that of an argument
  std::string shape_of;  ///< the sizes of an argument
  std::vector<Formula> shape;
  std::string path;  ///< in kernels.json
};

enum class CodeKind : uint8_t { source, object, library };
/// What a kernel for CPUs is compiled from, or where it stands compiled. Alike files are linked once.
struct CodeFile {
  CodeKind kind = CodeKind::source;
  std::string file;                ///< absolute path
  std::vector<std::string> flags;  ///< of a source
  std::string path;                ///< in kernels.json
  uint64_t hash = 0;               ///< of the file's bytes
  std::vector<std::string> functions;
};

struct CpuCode {
  size_t code = 0;  ///< of Kernels::codes
  std::string function;
  Formula work, grain, scratch;
};
struct CudaCode {
  size_t source = 0;             ///< of Kernels::cuda_sources
  std::vector<size_t> binaries;  ///< or of Kernels::cuda_binaries, one an architecture
  std::string function;
  std::array<Formula, 3> grid;
  std::array<int64_t, 3> block = {1, 1, 1};
  Formula shared, scratch;
};
struct CudaSource {
  std::string file, text;
  uint64_t hash = 0;
};

/// A cubin, or PTX, which the driver compiles where it runs.
struct CudaBinary {
  std::string file, code;  ///< PTX: with the zero that ends it
  bool ptx = false;
  std::string architecture;  ///< "90a"
  uint64_t hash = 0;
};

struct Kernel {
  std::string schema;  ///< as given
  std::string op;      ///< "mylib::lookup", "mylib::lookup.out"
  std::string target;  ///< as programs have it: "mylib.lookup.default"
  std::string path;    ///< in kernels.json: "$.kernels[0]"
  std::vector<Pointwise> pointwise;
  std::map<std::string, InputRule> inputs;
  std::vector<ResultRule> results;
  std::optional<CpuCode> cpu;
  std::optional<CudaCode> cuda;
};

struct Kernels {
  std::string file;          ///< for messages
  std::vector<Kernel> rows;  ///< of one operator: the first that takes its tensors
  std::vector<CodeFile> codes;
  std::vector<CudaSource> cuda_sources;
  std::vector<CudaBinary> cuda_binaries;

  bool has(std::string_view target) const;
  Loc at(const std::string& path) const { return {file, path, "", ""}; }
};

/// The global symbol by which an artifact's code calls a function of codes[code]. Of a source, which is compiled for each instruction set,
/// it ends in '_', and the instruction set's name follows.
std::string entry_symbol(const Kernels& all, size_t code, std::string_view function);
/// The name under which CUDA code includes cuda_sources[source].
std::string cuda_header(size_t source);
/// CUDA code with the sources in the place of their #include.
std::string with_cuda_sources(const Kernels& all, std::string code);

/// What a file's bytes are; or that they are neither.
Result<CudaBinary> read_machine_code(std::string file, std::string bytes);
bool has_function(const CudaBinary& binary, const std::string& function);
/// Whether every GPU that runs code for `sm` ("sm_90a", "compute_90") runs it.
bool runs_on(const CudaBinary& binary, const std::string& sm);
/// The code for `sm` of a kernel whose CUDA text is compiled_text (graph/custom_op.h); nothing: it has another. Throws Diagnostic where
/// there is none for it.
std::optional<std::string> compiled_code(const Kernels& all, const std::string& source, const std::string& sm);

/// Reads and checks the file, and reads the files that it names. Throws Diagnostic with the JSON path: bad_input for what the description
/// says, io for files.
Kernels read_kernels(const std::string& file);
/// Makes the operators known to LibTorch, where it does not know them, and holds the descriptions to their schemas. Throws Diagnostic.
void define_operators(const Kernels& kernels);
/// The second half of that, for an operator whose schema is known.
void check_schema(const Kernels& kernels, const Kernel& kernel, const import::OpSchema& schema);

}  // namespace aotc::own
