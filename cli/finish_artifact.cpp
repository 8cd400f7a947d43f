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
  add_option(app, "linked", o->linked, "what the linker made").required();
  add_option(app, "-o,--output", o->output, "path of the artifact").required();
  add_option(app, "--section", o->section, "that holds the weights, or a page that stands in for them");
  add_option(app, "--blob", o->blob, "the weights that take the place of the stand-in");
  add_option(app, "--file-bytes", o->file_bytes, "of the weights in a file beside it");
  add_option(app, "--file-hash", o->file_hash, "of the weights in a file beside it");
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
