// reference_check model.pt2 [--f64] [--threads N] [--dim NAME=N]... [--bind INPUT:DIM=N]... [--inputs FILE...] [--outputs PREFIX]: runs the
// program op by op with LibTorch, on raw input files or made inputs, and writes the outputs raw to PREFIX<i>.bin.
#include <fmt/ranges.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "import/bind_symbols.h"
#include "import/read_archive.h"
#include "import/reference.h"

using namespace aotc;

namespace {

std::vector<HostTensor> read_inputs(const import::Program& p, const std::map<SymId, int64_t>& sizes,
                                    const std::vector<std::string>& files) {
  std::vector<HostTensor> inputs;
  for (const import::ProgramInput& in : p.inputs) {
    if (in.kind != import::InputKind::user) continue;
    const import::TensorMeta& m = p.tensors.at(in.name);
    HostTensor t{m.dtype, {}, {}};
    for (const Expr& e : m.sizes) t.dims.push_back(e.eval([&](SymId s) { return sizes.at(s); }));
    std::ifstream f(files.at(inputs.size()), std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(f)), {});
    t.bytes.resize(bytes.size());
    std::memcpy(t.bytes.data(), bytes.data(), bytes.size());
    AOTC_CHECK(static_cast<int64_t>(bytes.size()) == t.elems() * dtype_bytes(t.dtype), "{} has {} bytes", files.at(inputs.size()),
               bytes.size());
    inputs.push_back(std::move(t));
  }
  return inputs;
}

int run(int argc, char** argv) {
  const import::Program p = import::read_archive(argv[1]);
  import::ReferenceOptions options;
  std::map<SymId, int64_t> sizes;
  std::vector<std::string> files;
  std::string prefix;
  uint64_t seed = 1;
  for (int i = 2; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--f64") {
      options.f64 = true;
    } else if (a == "--threads") {
      options.threads = std::stoi(argv[++i]);
    } else if (a == "--seed") {
      seed = std::stoull(argv[++i]);
    } else if (a == "--dim") {
      const std::string d = argv[++i];
      const auto s = p.syms.find(d.substr(0, d.find('=')));
      AOTC_CHECK(s, "no symbol {}", d);
      sizes[*s] = std::stoll(d.substr(d.find('=') + 1));
    } else if (a == "--bind") {  // --bind INPUT:DIMENSION=N
      const std::string b = argv[++i];
      const size_t colon = b.find(':'), equals = b.find('=');
      const Expr& e = p.tensors.at(b.substr(0, colon)).sizes.at(std::stoul(b.substr(colon + 1)));
      if (const auto bound = import::solve(e, std::stoll(b.substr(equals + 1)), sizes)) sizes.insert(*bound);
    } else if (a == "--inputs") {
      while (i + 1 < argc && argv[i + 1][0] != '-') files.push_back(argv[++i]);
    } else if (a == "--outputs") {
      prefix = argv[++i];
    }
  }
  const std::vector<HostTensor> inputs = files.empty() ? import::make_inputs(p, sizes, seed) : read_inputs(p, sizes, files);
  const std::vector<HostTensor> outputs = import::make_reference(p, options)->run(inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::printf("output %zu %s %s\n", i, std::string(dtype_name(outputs[i].dtype)).c_str(),
                fmt::format("[{}]", fmt::join(outputs[i].dims, ", ")).c_str());
    if (prefix.empty()) continue;
    std::ofstream f(prefix + std::to_string(i) + ".bin", std::ios::binary);
    f.write(reinterpret_cast<const char*>(outputs[i].bytes.data()), static_cast<std::streamsize>(outputs[i].bytes.size()));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    return run(argc, argv);
  } catch (const Diagnostic& d) {
    std::fprintf(stderr, "%s\n", d.what());
    return static_cast<int>(d.code());
  } catch (const InternalError& e) {
    std::fprintf(stderr, "internal error: %s\n", e.what());
    return static_cast<int>(ExitCode::internal);
  }
}
