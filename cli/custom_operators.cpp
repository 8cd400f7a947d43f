#include "custom_operators.h"

#include <filesystem>

#include "base/file.h"
#include "import/torch_functions.h"

namespace aotc::cli {

void add_custom_operators(CLI::App& app, CustomOperators& operators) {
  add_option(app, "--torch-library", operators.libraries,
             "shared library that defines custom operators of the program (TORCH_LIBRARY; as for torch.ops.load_library), for the "
             "reference (repeatable)")
      .repeated();
  add_option(
      app, "--torch-module", operators.modules,
      "Python module or .py file that defines custom operators of the program (torch.library.custom_op), for the reference; it runs in its "
      "own process, with the Python of VIRTUAL_ENV, of CONDA_PREFIX, of PATH if that has torch, or of LibTorch's environment (repeatable)")
      .repeated();
}

CustomProcesses define(const CustomOperators& operators) {
  CustomProcesses processes;
  if (operators.libraries.empty() && operators.modules.empty()) return processes;
  const import::TorchFunctions& torch = import::torch_functions();
  for (const std::string& library : operators.libraries) {
    require_file(library);
    if (const Fit loaded = torch.load_operators(std::filesystem::absolute(library).string()); !loaded)
      throw Diagnostic(ExitCode::toolchain, Loc{library, "", "", ""}, "cannot be loaded: " + loaded.why)
          .note("it must be built against the LibTorch that aotc uses (aotc --version says which)");
  }
  for (const std::string& module : operators.modules) {
    const auto process = processes.emplace_back(std::make_shared<import::CustomProcess>(module));
    const Result<std::vector<std::string>> schemas = process->schemas();
    if (!schemas)
      throw Diagnostic(ExitCode::toolchain, Loc{module, "", "", ""}, "cannot be imported: " + schemas.why())
          .note("VIRTUAL_ENV names the environment whose Python is asked");
    for (const std::string& schema : *schemas)
      if (const Fit defined = torch.call_operator(schema, process); !defined)
        throw Diagnostic(ExitCode::toolchain, Loc{module, "", "", ""}, fmt::format("{}: {}", schema, defined.why));
  }
  return processes;
}

}  // namespace aotc::cli
