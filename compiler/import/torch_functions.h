#pragma once
// What aotc asks of LibTorch. libaotc_torch.so, the only part of aotc that is linked with LibTorch, hands it over as one table, and is
// loaded when the first is asked for: what runs, inspects or measures artifacts needs no LibTorch. No LibTorch in this header.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "import/composite.h"
#include "import/operators.h"
#include "import/reference.h"
#include "import/result_types.h"

namespace aotc::import {

class CustomProcess;

struct TorchFunctions {
  const char* aotc_version;  ///< of the build that libaotc_torch.so is of
  bool (*works)();           ///< with the LibTorch that is loaded, where that is of another version; may crash where it does not
  std::optional<OpSchema> (*find_schema)(const std::string& target);
  std::vector<std::string> (*operators)();  ///< targets of all that are known
  std::unique_ptr<CompositeTracer> (*make_tracer)(HasRule has_rule);
  std::unique_ptr<Reference> (*make_reference)(const Program& program, const ReferenceOptions& options);
  Result<std::vector<TensorMeta>> (*result_types)(const Program& program, const PNode& node);
  /// Makes an operator known by its schema, without code; of one that is known, holds the two schemas to be alike.
  Fit (*define_operator)(const std::string& schema);
  /// The same, with calls of the process as its code, as long as that is kept.
  Fit (*call_operator)(const std::string& schema, const std::shared_ptr<CustomProcess>& process);
  /// Loads a library of the user's, which makes its operators known.
  Fit (*load_operators)(const std::string& library);
};

/// Of libaotc_torch.so's one exported symbol.
using GetTorchFunctions = const TorchFunctions*();
inline constexpr const char* kGetTorchFunctions = "aotc_torch_functions";

/// Defined in libaotc_torch.so.
namespace torch_side {
bool works();
std::optional<OpSchema> find_schema(const std::string& target);
std::vector<std::string> operators();
std::unique_ptr<CompositeTracer> make_tracer(HasRule has_rule);
std::unique_ptr<Reference> make_reference(const Program& program, const ReferenceOptions& options);
Result<std::vector<TensorMeta>> result_types(const Program& program, const PNode& node);
Fit define_operator(const std::string& schema);
Fit call_operator(const std::string& schema, const std::shared_ptr<CustomProcess>& process);
Fit load_operators(const std::string& library);
}  // namespace torch_side

/// Loads LibTorch and libaotc_torch.so at the first call. Throws a Diagnostic that says where LibTorch was looked for.
const TorchFunctions& torch_functions();
/// As its find_schema; where LibTorch is not loaded, of the operators that stand in a file beside libaotc_torch.so without loading it.
/// Throws where there is no LibTorch all the same.
std::optional<OpSchema> find_schema(const std::string& target);

}  // namespace aotc::import
