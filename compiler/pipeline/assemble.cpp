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

/// Objects with the cubins; their symbols go into the tables.
std::vector<std::string> cubin_objects(const AssembleInput& in, emit::TableInput& tables) {
  const std::string source = emit::emit_cuda(in.module, in.plans, in.machine);
  if (in.keep_text) emit::write_file((fs::path(in.work_dir) / "kernels.cu").string(), source);
  std::vector<std::string> objects;
  for (const emit::cuda::Cubin& c : emit::cuda::compile_module(source, cuda_headers(), in.target.sms)) {
    const std::string symbol = "aotc_cubin_" + c.sm;
    objects.push_back((fs::path(in.work_dir) / (symbol + ".o")).string());
    emit::write_blob_object(objects.back(), ".rodata.cubin", symbol, c.bytes.size(),
                            [&](std::span<std::byte> out) { std::copy(c.bytes.begin(), c.bytes.end(), out.begin()); });
    tables.cuda_images.push_back({c.sm, symbol, c.bytes.size()});
  }
  return objects;
}

}  // namespace

Assembled assemble(const AssembleInput& in, PhaseClock& clock,
                   const std::function<void(size_t done, size_t total, const std::string& what)>& progress) {
  const fs::path output(in.output);
  const uint64_t weights_bytes = in.plans.weights_bytes;
  auto fill = [&](std::span<std::byte> out) {
    plan::write_weights(in.plans.weights, in.graph.constants, out.first(weights_bytes), in.jobs);
  };
  emit::TableInput tables{in.graph, in.module, in.plans, in.target, in.metadata_json, {}, "", "", 0, in.graphs};
  emit::SealedWeights beside_it;
  if (!in.weights_name.empty()) {
    clock.phase("weights");
    tables.weights_hash = write_weights_file((output.parent_path() / in.weights_name).string(), weights_bytes, fill);
    tables.weights_file = in.weights_name;
    beside_it = {"", weights_bytes, tables.weights_hash};
  } else if (weights_bytes) {
    tables.weights_symbol = kWeightsSymbol;
  }

  std::vector<emit::TranslationUnit> units;
  std::vector<std::string> objects;
  if (in.target.is_gpu()) {
    clock.phase("compile CUDA kernels");
    objects = cubin_objects(in, tables);
  }
  for (emit::cpu::SourceUnit& u : emit::cpu::emit_module(in.module, in.target.isas))
    units.push_back({u.name, std::move(u.source), std::move(u.flags)});
  units.push_back({"tables.cpp", emit::emit_tables(tables), {"-std=c++20", "-O1", "-march=x86-64"}});

  clock.phase("compile kernels");
  const emit::Compiler compiler = emit::find_compiler();
  emit::CompileResult compiled = emit::compile(compiler, units, {in.work_dir, emit::user_cache_dir(), in.jobs, progress});
  objects.insert(objects.end(), compiled.objects.begin(), compiled.objects.end());

  clock.phase("link");
  emit::Blob weights;
  if (!tables.weights_symbol.empty()) weights = {".aotc_weights", kWeightsSymbol, weights_bytes, fill};
  compiled.command_lines.push_back(emit::link_artifact(compiler, objects, weights.bytes ? &weights : nullptr, in.work_dir, beside_it,
                                                       output.filename().string(), in.output));
  return {std::move(compiled.command_lines), compiler.version, units.size(), compiled.cached};
}

}  // namespace aotc::pipeline
