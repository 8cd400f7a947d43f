#include "pipeline/assemble.h"

#include <algorithm>
#include <cstring>

#include "aotc/detail/blob_hash.h"
#include "emit/blob.h"
#include "emit/cpu/module.h"
#include "emit/cuda/module.h"
#include "emit/cuda_source.h"
#include "emit/embedded.h"
#include "emit/tables.h"
#include "emit/toolchain.h"

namespace aotc::pipeline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightsSymbol = "aotc_weights_blob";

std::vector<emit::cuda::SourceFile> cuda_headers() {
  std::vector<emit::cuda::SourceFile> out;
  for (const emit::EmbeddedFile& f : emit::embedded_files())
    if (f.name.rfind("cuda/", 0) == 0) out.push_back({std::string(f.name.substr(5)), std::string(f.text())});
  return out;
}

/// The weights in a file of their own: the blob and its trailer. Returns its hash.
uint64_t write_weights_file(const std::string& path, uint64_t bytes, const std::function<void(std::span<std::byte>)>& fill) {
  uint64_t hash = 0;
  emit::write_blob_file(path, bytes + sizeof(aotc_weights_trailer), [&](std::span<std::byte> out) {
    fill(out);
    aotc_weights_trailer trailer = {};
    std::memcpy(trailer.magic, AOTC_WEIGHTS_MAGIC, sizeof trailer.magic);
    trailer.hash = hash = aotc_blob_hash(out.data(), bytes);
    std::memcpy(out.data() + bytes, &trailer, sizeof trailer);
  });
  return hash;
}

/// Objects with the part's machine code; their symbols go into the tables. `name`: of its source.
std::vector<std::string> cubin_objects(const AssembleInput& in, const AssemblePart& part, const std::string& name,
                                       emit::TableInput& tables) {
  const std::string source = emit::emit_cuda(part.module, part.plans, part.machine);
  if (in.keep_text) emit::write_file((fs::path(in.work_dir) / name).string(), source);
  std::vector<std::string> objects;
  for (const emit::cuda::Cubin& c : emit::cuda::compile_module(source, cuda_headers(), part.target.sms)) {
    const std::string symbol = "aotc_cubin_" + c.sm;
    objects.push_back((fs::path(in.work_dir) / (symbol + ".o")).string());
    emit::write_blob_object(objects.back(), ".rodata.cubin", symbol, c.bytes.size(),
                            [&](std::span<std::byte> out) { std::copy(c.bytes.begin(), c.bytes.end(), out.begin()); });
    tables.cuda_images.push_back({c.sm, symbol, c.bytes.size()});
  }
  return objects;
}

/// The tables of a part but for its code. The weights are in the artifact or in a file beside it.
emit::TableInput tables_of(const AssembleInput& in, const AssemblePart& part, const emit::SealedWeights& beside_it) {
  emit::TableInput t{part.graph, part.module, part.plans, part.target, in.metadata_json, {}, "", "", 0};
  t.blob_bytes = in.blob.bytes();
  if (!in.weights_name.empty()) {
    t.weights_file = in.weights_name, t.weights_hash = beside_it.hash.value();
  } else if (t.blob_bytes) {
    t.weights_symbol = kWeightsSymbol;
  }
  return t;
}

}  // namespace

Assembled assemble(const AssembleInput& in, PhaseClock& clock,
                   const std::function<void(size_t done, size_t total, const std::string& what)>& progress) {
  const fs::path output(in.output);
  const auto fill = [&](std::span<std::byte> out) { in.blob.write(out.first(in.blob.bytes()), in.jobs); };
  emit::SealedWeights beside_it;
  if (!in.weights_name.empty()) {
    clock.phase("weights");
    const uint64_t hash = write_weights_file((output.parent_path() / in.weights_name).string(), in.blob.bytes(), fill);
    beside_it = {"", in.blob.bytes(), hash};
  }

  std::vector<emit::TranslationUnit> units;
  std::vector<std::string> objects;
  for (size_t p = 0; p < in.parts.size(); ++p) {
    const AssemblePart& part = in.parts[p];
    emit::TableInput tables = tables_of(in, part, beside_it);
    tables.graphs = part.graphs;
    tables.part = p, tables.n_parts = in.parts.size();
    if (part.target.is_gpu()) {
      clock.phase("compile CUDA kernels" + (in.parts.size() > 1 ? " for " + part.target.str() : std::string()));
      const std::string name = in.parts.size() > 1 ? "kernels." + part.target.str() + ".cu" : "kernels.cu";
      for (std::string& object : cubin_objects(in, part, name, tables)) objects.push_back(std::move(object));
    }
    for (emit::cpu::SourceUnit& u : emit::cpu::emit_module(part.module, part.target.isas))
      units.push_back({u.name, std::move(u.source), std::move(u.flags)});
    units.push_back(
        {p == 0 ? "tables.cpp" : fmt::format("tables{}.cpp", p), emit::emit_tables(tables), {"-std=c++20", "-O1", "-march=x86-64"}});
  }

  clock.phase("compile kernels");
  const emit::Compiler compiler = emit::find_compiler();
  emit::CompileResult compiled = emit::compile(compiler, units, {in.work_dir, emit::user_cache_dir(), in.jobs, progress});
  objects.insert(objects.end(), compiled.objects.begin(), compiled.objects.end());

  clock.phase("link");
  emit::Blob weights;
  if (in.weights_name.empty() && in.blob.bytes()) weights = {".aotc_weights", kWeightsSymbol, in.blob.bytes(), fill};
  compiled.command_lines.push_back(emit::link_artifact(compiler, objects, weights.bytes ? &weights : nullptr, in.work_dir, beside_it,
                                                       output.filename().string(), in.output));
  return {std::move(compiled.command_lines), compiler.version, units.size(), compiled.cached};
}

}  // namespace aotc::pipeline
