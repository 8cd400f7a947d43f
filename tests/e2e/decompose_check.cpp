// decompose_check model.pt2                      the core graph as text
// decompose_check manifest.json report.jsonl     many small programs: each stage of the compiler against what PyTorch gave: decomposed
//                                                graph, graph after the passes, loop module, each run by its interpreter
//
// The manifest (written by opinfo_sweep.py) is a list of {"name", "pt2", "inputs": [{"file", "dtype", "dims"}], "outputs": [..]}; files
// are raw, relative to the manifest. The report has one line a case: status "ok", "unsupported" (a rule is missing or refused), "import"
// (the archive was refused), or the stage whose result is wrong or that failed ("decompose", "passes", "loop"), and why.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/diagnostic.h"
#include "decompose/decompose.h"
#include "graph/interp.h"
#include "graph/text.h"
#include "import/expand.h"
#include "import/read_archive.h"
#include "loop/interp.h"
#include "loop/lower.h"
#include "passes/passes.h"

namespace aotc {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

HostTensor load(const Json& j, const fs::path& dir) {
  HostTensor t;
  t.dtype = parse_dtype(j.at("dtype").get<std::string>()).value();
  t.dims = j.at("dims").get<std::vector<int64_t>>();
  std::ifstream in(dir / j.at("file").get<std::string>(), std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  t.bytes.resize(bytes.size());
  std::memcpy(t.bytes.data(), bytes.data(), bytes.size());
  return t;
}

double element(const HostTensor& t, int64_t i) {
  const std::byte* at = t.bytes.data() + i * dtype_bytes(t.dtype);
  const auto read = [at]<class E>(E v) {
    std::memcpy(&v, at, sizeof v);
    return static_cast<double>(v);
  };
  const auto bits16 = [at] {
    uint16_t v;
    std::memcpy(&v, at, sizeof v);
    return v;
  };
  switch (t.dtype) {
    case DType::boolean:
    case DType::u8: return read(uint8_t{});
    case DType::i8: return read(int8_t{});
    case DType::i16: return read(int16_t{});
    case DType::i32: return read(int32_t{});
    case DType::i64: return read(int64_t{});
    case DType::f32: return read(float{});
    case DType::f64: return read(double{});
    case DType::bf16: {
      const uint32_t wide = static_cast<uint32_t>(bits16()) << 16;
      float f;
      std::memcpy(&f, &wide, sizeof f);
      return f;
    }
    case DType::f16: {
      const uint16_t h = bits16();
      const int exponent = h >> 10 & 31, fraction = h & 1023;
      const double m = exponent == 31 ? (fraction ? NAN : INFINITY)
                       : exponent     ? std::ldexp(1024.0 + fraction, exponent - 25)
                                      : std::ldexp(fraction, -24);
      return h >> 15 ? -m : m;
    }
    default: return NAN;
  }
}

double tolerance(DType t) { return t == DType::bf16 ? 4e-2 : t == DType::f16 ? 4e-3 : t == DType::f32 ? 2e-4 : 1e-9; }

/// Empty when they agree: relative L2 error, and NaN and infinity at the same places.
std::string difference(const HostTensor& got, const HostTensor& want) {
  if (got.dtype != want.dtype) return fmt::format("dtype {} instead of {}", dtype_name(got.dtype), dtype_name(want.dtype));
  if (got.dims != want.dims) return fmt::format("dims [{}] instead of [{}]", fmt::join(got.dims, ","), fmt::join(want.dims, ","));
  double error = 0, norm = 0;
  for (int64_t i = 0; i < want.elems(); ++i) {
    const double g = element(got, i), w = element(want, i);
    if (std::isnan(w) && std::isnan(g)) continue;
    if (std::isinf(w) && g == w) continue;
    if (!std::isfinite(g) || !std::isfinite(w)) return fmt::format("element {}: {} instead of {}", i, g, w);
    error += (g - w) * (g - w);
    norm += w * w;
  }
  const double rel = std::sqrt(error / std::max(norm, 1e-12));
  const bool exact = !is_float(want.dtype);
  if (exact ? error != 0 : rel > tolerance(want.dtype)) return fmt::format("relative error {:.3g}", rel);
  return {};
}

Graph lower(import::Program& p) {
  import::Expander expander(decompose::has_rule);
  return decompose::decompose(p, [&](import::Program& program, const std::string& node) { return expander.expand(program, node); });
}

Json check(const Json& c, const fs::path& dir) {
  Json line = {{"name", c.at("name")}};
  const auto answer = [&](const char* status, std::string why) {
    line["status"] = status;
    line["why"] = std::move(why);
    return line;
  };
  const auto start = std::chrono::steady_clock::now();
  const char* stage = "import";
  try {
    import::Program p = import::read_archive((dir / c.at("pt2").get<std::string>()).string());
    stage = "decompose";
    Graph g;
    try {
      g = lower(p);
    } catch (const Diagnostic& d) {
      if (d.code() != ExitCode::unsupported) throw;
      return answer("unsupported", fmt::format("{}", fmt::join(d.notes(), "; ")));
    }
    std::vector<HostTensor> in, want;
    for (const Json& j : c.at("inputs")) in.push_back(load(j, dir));
    for (const Json& j : c.at("outputs")) want.push_back(load(j, dir));
    const auto compare = [&](const std::vector<HostTensor>& whole) -> std::string {
      const std::vector<HostTensor> out = found_results(g, in, whole);
      if (out.size() < want.size()) return fmt::format("wrong: {} outputs instead of {}", out.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        const std::string why = difference(out[i], want[i]);
        if (!why.empty()) return fmt::format("wrong: output {}: {}", i, why);
      }
      return {};
    };
    if (const std::string why = compare(interpret(g, in)); !why.empty()) return answer(stage, why);
    stage = "passes";
    passes::PassContext context{.target = parse_cpu_target("avx2")};
    passes::run_passes(g, context);
    if (const std::string why = compare(interpret(g, in)); !why.empty()) return answer(stage, why);
    stage = "loop";
    const loop::Module m = loop::lower(g);
    if (const std::string why = compare(loop::interpret(m, g, in)); !why.empty()) return answer(stage, why);
    line["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return answer("ok", "");
  } catch (const std::exception& e) { return answer(stage, e.what()); }
}

int run(int argc, char** argv) {
  if (argc == 2) {
    import::Program p = import::read_archive(argv[1]);
    std::fputs(print(lower(p)).c_str(), stdout);
    return 0;
  }
  if (argc != 3) return 2;
  const fs::path dir = fs::path(argv[1]).parent_path();
  std::ifstream manifest(argv[1]);
  std::ofstream report(argv[2]);
  std::map<std::string, int> counts;
  for (const Json& c : Json::parse(manifest)) {
    const Json line = check(c, dir);
    ++counts[line.at("status").get<std::string>()];
    report << line.dump() << std::endl;
  }
  for (const auto& [status, n] : counts) fmt::print("{} {}\n", status, n);
  return 0;
}

}  // namespace
}  // namespace aotc

int main(int argc, char** argv) {
  try {
    return aotc::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
