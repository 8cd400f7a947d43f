#include <cstring>
#include <optional>

#include "cli.h"
#include "emit/splice.h"
#include "emit/toolchain.h"
#include "import/mapped_file.h"

namespace aotc::cli {

Run add_finish_artifact(CLI::App& app) {
  struct Options {
    std::string linked, output, section, blob;
    uint64_t file_bytes = 0;
    std::optional<uint64_t> file_hash;
  };
  auto o = std::make_shared<Options>();
  app.add_option("linked", o->linked, "what the linker made")->required();
  app.add_option("-o,--output", o->output, "path of the artifact")->required();
  app.add_option("--section", o->section, "that holds the weights, or a page that stands in for them");
  app.add_option("--blob", o->blob, "the weights that take the place of the stand-in");
  app.add_option("--file-bytes", o->file_bytes, "of the weights in a file beside it");
  app.add_option("--file-hash", o->file_hash, "of the weights in a file beside it");
  return [o](const Common&) {
    emit::SealedWeights weights{o->section, o->file_bytes, o->file_hash};
    std::optional<emit::Blob> blob;
    if (!o->blob.empty()) {
      const auto file = import::MappedFile::open(o->blob);
      blob = emit::Blob{o->section, "", file->bytes().size(),
                        [file](std::span<std::byte> out) { std::memcpy(out.data(), file->bytes().data(), out.size()); }};
    }
    if (!emit::finish_artifact(o->linked, o->output, blob ? &*blob : nullptr, weights))
      throw Diagnostic(ExitCode::toolchain, Loc{o->linked, "", "", ""},
                       "was laid out by the linker in another way than the script beside it asks for");
    return 0;
  };
}

}  // namespace aotc::cli
