// aotc_operator_table FILE: writes the operators of the LibTorch that aotc takes (AOTC_LIBTORCH names one). Where that cannot be loaded on
// the machine of the build, the table is empty, and aotc asks LibTorch itself.
#include <cstdio>
#include <fstream>

#include "import/operator_table.h"
#include "import/torch_functions.h"
#include "import/torch_library.h"

namespace {

std::string table() {
  using namespace aotc::import;
  try {
    const TorchFunctions& torch = torch_functions();
    std::vector<NamedSchema> schemas;
    for (const std::string& target : torch.operators())
      if (std::optional<OpSchema> schema = torch.find_schema(target)) schemas.push_back({target, std::move(*schema)});
    return operator_table_text(torch.aotc_version, torch_here().torch.version, schemas);
  } catch (const aotc::Diagnostic& d) {
    std::fprintf(stderr, "aotc_operator_table: no operators are written: %s\n", d.what());
    return {};
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ofstream out(argv[1], std::ios::binary | std::ios::trunc);
  out << table();
  return out.flush() ? 0 : 1;
}
