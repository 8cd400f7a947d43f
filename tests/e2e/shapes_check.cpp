// shapes_check FILE...: one line a file, "ok" or the reader's diagnostic; the exit status is 0 when all were read.
// shapes_check --against model.pt2 FILE: the program's symbols and the variants once the file is applied.
#include <cstdio>
#include <fstream>
#include <iterator>

#include "import/read_archive.h"
#include "import/shapes.h"

using namespace aotc;

namespace {

import::ShapesSpec read(const std::string& path){std::ifstream f(path, std::ios::binary);
const std::string text((std::istreambuf_iterator<char>(f)), {});
return import::parse_shapes(text, path);
}  // namespace

void apply(const std::string& model, const std::string& path) {
  import::Program p = import::read_archive(model);
  const auto variants = import::apply_shapes(p, read(path));
  for (const import::ProgramInput& in : p.inputs)
    if (in.kind == import::InputKind::user)
      std::printf("%s %s\n", in.name.c_str(), import::arg_text(p.tensors.at(in.name).sizes, p.syms).c_str());
  for (const import::VariantRange& v : variants) {
    std::string line = "variant";
    for (const auto& [s, r] : v.ranges)
      line += fmt::format(" {}=[{}, {}] by {}", p.syms[s].name, r.min, r.max.value_or(kInf) == kInf ? "inf" : std::to_string(*r.max),
                          r.multiple_of);
    std::puts(line.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  int bad = 0;
  const bool against = argc == 4 && std::string(argv[1]) == "--against";
  for (int i = against ? 3 : 1; i < argc; ++i) {
    try {
      if (against)
        apply(argv[2], argv[i]);
      else
        read(argv[i]);
      std::printf("%s: ok\n", argv[i]);
    } catch (const Diagnostic& d) {
      std::printf("%s\n", d.what());
      bad = static_cast<int>(d.code());
    }
  }
  return bad;
}
