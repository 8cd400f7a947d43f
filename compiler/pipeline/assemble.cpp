#include "pipeline/assemble.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "aotc/detail/blob_hash.h"
#include "artifact/tables.h"
#include "emit/blob.h"
#include "emit/cpu/module.h"
#include "emit/cpu/unit.h"
#include "emit/toolchain.h"

namespace aotc::pipeline {
namespace {

namespace fs = std::filesystem;

/// Of the blob in the artifact. In a program there may be several.
std::string weights_symbol(const AssembleInput& in) { return in.prefix.empty() ? "aotc_weights_blob" : in.prefix + "_aotc_weights"; }

/// Objects with the machine code of a part, one an architecture; where each kernel's lies in them goes into the tables. Code that several
/// kernels have alike, in whatever method, stands there once.
std::vector<std::string> cubin_objects(const AssembleInput& in, const AssemblePart& part, artifact::TableInput& tables) {
  std::vector<std::string> objects;
  for (size_t i = 0; i < part.target.sms.size(); ++i) {
    constexpr uint64_t kAlign = 64;
    const std::string symbol = "aotc_cubins_" + part.target.sms[i];
    artifact::CudaImage image{part.target.sms[i], {}};
    std::map<std::string_view, uint64_t> placed;
    uint64_t bytes = 0;
    for (const AssembleMethod& m : part.methods)
      for (const std::string& code : m.cuda->cubins.of.at(i)) {
        const auto [it, fresh] = placed.emplace(code, bytes);
        if (fresh) bytes = (bytes + code.size() + kAlign - 1) / kAlign * kAlign;
        image.cubins.push_back({symbol, it->second});
      }
    objects.push_back((fs::path(in.work_dir) / (symbol + ".o")).string());
    emit::write_blob_object(objects.back(), ".rodata.cubin", symbol, bytes, [&](std::span<std::byte> out) {
      for (const auto& [code, at] : placed) std::memcpy(&out[at], code.data(), code.size());
    });
    tables.cuda_images.push_back(std::move(image));
  }
  return objects;
}

/// The tables of a part but for its code. The weights are in the artifact or in a file beside it.
artifact::TableInput tables_of(const AssembleInput& in, const AssemblePart& part, const emit::SealedWeights& weights) {
  artifact::TableInput t{{part.methods.begin(), part.methods.end()}, part.target, in.metadata_json, in.blob.bytes()};
  t.weights_layout = in.weights_layout;
  if (!in.weights_name.empty()) {
    t.weights_file = in.weights_name;
  } else if (t.blob_bytes) {
    t.weights_symbol = weights_symbol(in);
  }
  t.weights_hash = weights.hash.value_or(0);  // in a shared object its seal has it
  return t;
}

}  // namespace

uint64_t write_weights_file(const std::string& path, uint64_t bytes, uint64_t layout,
                            const std::function<void(std::span<std::byte>)>& fill) {
  uint64_t hash = 0;
  emit::write_blob_file(path, bytes + sizeof(aotc_weights_trailer), [&](std::span<std::byte> out) {
    fill(out.first(bytes));
    aotc_weights_trailer trailer = {};
    std::memcpy(trailer.magic, AOTC_WEIGHTS_MAGIC, sizeof trailer.magic);
    trailer.hash = hash = aotc_blob_hash(out.data(), bytes);
    trailer.layout = layout, trailer.bytes = bytes;
    std::memcpy(out.data() + bytes, &trailer, sizeof trailer);
  });
  return hash;
}

Assembled assemble(const AssembleInput& in, PhaseClock& clock,
                   const std::function<void(size_t done, size_t total, const std::string& what)>& progress) {
  const fs::path output(in.output);
  const auto fill = [&](std::span<std::byte> out) { in.blob.write(out.first(in.blob.bytes()), in.jobs); };
  emit::Blob weights;
  if (in.weights_name.empty() && in.blob.bytes()) weights = {".aotc_weights", weights_symbol(in), in.blob.bytes(), fill};
  emit::SealedWeights known;  // before the link
  std::string weights_object;
  if (!in.weights_name.empty() || (weights.bytes && !in.prefix.empty())) clock.phase("weights");
  if (!in.weights_name.empty()) {
    const uint64_t hash = write_weights_file((output.parent_path() / in.weights_name).string(), in.blob.bytes(), in.weights_layout, fill);
    known = {"", in.blob.bytes(), hash};
  } else if (weights.bytes && !in.prefix.empty()) {
    weights.section = ".lrodata.aotc_weights";
    known.hash = emit::write_weights_object(weights, in.work_dir, weights_object);
  }

  std::vector<emit::TranslationUnit> units;
  std::vector<std::string> objects;
  size_t cubins = 0, cubins_cached = 0;
  for (size_t p = 0; p < in.parts.size(); ++p) {
    const AssemblePart& part = in.parts[p];
    artifact::TableInput tables = tables_of(in, part, known);
    tables.graphs = part.graphs, tables.own_weights = part.own_weights;
    tables.part = p, tables.n_parts = in.parts.size();
    if (part.target.traits().device_code) {
      for (std::string& object : cubin_objects(in, part, tables)) objects.push_back(std::move(object));
      for (const AssembleMethod& m : part.methods) {
        cubins_cached += m.cuda->cubins.cached;
        cubins += part.target.sms.size() * m.plans.configs.size();
      }
    }
    for (size_t m = 0; m < part.methods.size(); ++m)
      for (emit::cpu::SourceUnit& u : emit::cpu::emit_module(part.methods[m].module, part.target.isas)) {
        if (part.target.numerics.reproducible) u.flags = emit::cpu::reproducible_flags(std::move(u.flags));
        units.push_back({m == 0 ? u.name : part.methods[m].name + "." + u.name, std::move(u.source), std::move(u.flags)});
      }
    units.push_back(
        {p == 0 ? "tables.cpp" : fmt::format("tables{}.cpp", p), artifact::emit_tables(tables), {"-std=c++20", "-O1", "-march=x86-64"}});
  }

  clock.phase("compile kernels");
  const emit::Compiler compiler = emit::find_compiler();
  emit::CompileResult compiled = emit::compile(compiler, units, {in.work_dir, in.cache, in.jobs, progress});
  objects.insert(objects.end(), compiled.objects.begin(), compiled.objects.end());
  objects.insert(objects.end(), in.own_objects.begin(), in.own_objects.end());

  clock.phase("link");
  Assembled made{std::move(compiled.command_lines), {}, {}, compiler.version, units.size() + cubins, compiled.cached + cubins_cached};
  if (in.prefix.empty())
    made.linked = emit::link_artifact(compiler, objects, weights.bytes ? &weights : nullptr, in.work_dir, known, output.filename().string(),
                                      in.output);
  else
    made.archived = emit::link_static_archive(compiler, objects, weights_object, in.prefix, in.work_dir, in.output);
  return made;
}

}  // namespace aotc::pipeline
