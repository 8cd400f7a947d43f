// Runs filetests: each FILE.graph is
//
//     # passes: fold_constants,dce
//     graph @before ...
//     # expect:
//     graph @after ...
//
// The passes must turn the first graph into exactly the second text. Both graphs are also interpreted in f64 on pseudo-random inputs, at
// two sizes of every symbol, and must agree ("# no-run" in the head leaves that out). --bless rewrites the expected text.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "graph/interp.h"
#include "graph/scalar.h"
#include "graph/text.h"
#include "passes/passes.h"

using namespace aotc;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kExpect = "# expect:\n";

struct Case {
  std::string passes, head, input, expected;
  bool run = true;
};

std::string read(const fs::path& path) {
  std::ifstream f(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}

Case parse_case(const std::string& text, const std::string& name) {
  Case c;
  constexpr std::string_view kPasses = "# passes:";
  Loc loc;
  loc.file = name;
  if (text.rfind(kPasses, 0) != 0) throw Diagnostic(loc, "the first line must be '# passes: a,b'");
  const size_t line = text.find('\n'), expect = text.find(kExpect);
  c.passes = text.substr(kPasses.size(), line - kPasses.size());
  c.input = text.substr(0, expect);
  c.run = c.input.find("# no-run") == std::string::npos;
  if (expect != std::string::npos) c.expected = text.substr(expect + kExpect.size());
  return c;
}

HostTensor random_tensor(DType t, std::vector<int64_t> dims, uint32_t& seed) {
  HostTensor h{t, std::move(dims), {}};
  h.bytes.resize(h.elems() * dtype_bytes(t));
  for (int64_t i = 0; i < h.elems(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    std::byte* p = h.bytes.data() + i * dtype_bytes(t);
    const double f = (seed >> 8) * 0x1p-24 * 2 - 1;
    const int64_t n = is_bool(t) ? seed >> 31 : seed >> 30;
    if (is_float(t)) {
      store_f64(t, &f, p, 1);
    } else {
      store_i64(t, &n, p, 1);
    }
  }
  return h;
}

std::vector<HostTensor> random_inputs(const Graph& g, int64_t add) {
  auto size = [&](SymId s) {
    const SymInfo& i = g.syms[s];
    const int64_t low = std::max<int64_t>(i.min, 1), up = (low + i.multiple_of - 1) / i.multiple_of * i.multiple_of + add * i.multiple_of;
    return std::min(up, i.max);
  };
  uint32_t seed = 7;
  std::vector<HostTensor> inputs;
  for (const InputInfo& i : g.inputs) {
    std::vector<int64_t> dims;
    for (const Expr& d : g.type(i.value).dims) dims.push_back(d.eval(size));
    inputs.push_back(random_tensor(g.type(i.value).dtype, std::move(dims), seed));
  }
  return inputs;
}

double at(const HostTensor& t, int64_t i) {
  const std::byte* p = t.bytes.data() + i * dtype_bytes(t.dtype);
  double f;
  int64_t n;
  if (is_float(t.dtype)) {
    load_f64(t.dtype, p, &f, 1);
    return f;
  }
  load_i64(t.dtype, p, &n, 1);
  return static_cast<double>(n);
}

/// Empty when both graphs compute the same.
std::string difference(const Graph& before, const Graph& after) {
  for (int64_t add : {1, 2}) {
    const std::vector<HostTensor> inputs = random_inputs(before, add);
    const std::vector<HostTensor> a = interpret(before, inputs, {true}), b = interpret(after, inputs, {true});
    if (a.size() != b.size()) return "the number of outputs changes";
    for (size_t o = 0; o < a.size(); ++o) {
      if (a[o].dims != b[o].dims || a[o].dtype != b[o].dtype) return fmt::format("output {} has another type", o);
      for (int64_t i = 0; i < a[o].elems(); ++i) {
        const double x = at(a[o], i), y = at(b[o], i);
        const bool same = x == y || (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= 1e-6 * std::max(1.0, std::fabs(x));
        if (!same) return fmt::format("output {} element {}: {} before, {} after", o, i, x, y);
      }
    }
  }
  return "";
}

void show_difference(const std::string& expected, const std::string& got) {
  auto line = [](const std::string& s, size_t& p) {
    const size_t end = std::min(s.find('\n', p), s.size());
    std::string l = s.substr(p, end - p);
    p = std::min(end + 1, s.size());
    return l;
  };
  for (size_t p = 0, q = 0; p < expected.size() || q < got.size();) {
    const std::string a = line(expected, p), b = line(got, q);
    if (a != b) std::printf("  - %s\n  + %s\n", a.c_str(), b.c_str());
  }
}

bool run_file(const fs::path& path, bool bless) {
  try {
    const std::string text = read(path);
    const Case c = parse_case(text, path.filename().string());
    passes::PassContext ctx;
    const Graph before = parse_graph(c.input, path.filename().string());
    Graph after = before;
    passes::run_named(after, c.passes, ctx);
    const std::string got = print(after);
    if (c.run) {
      const std::string why = difference(before, after);
      if (!why.empty()) {
        std::printf("FAILED %s: %s\n", path.c_str(), why.c_str());
        return false;
      }
    }
    if (print(parse_graph(got, "printed")) != got) {
      std::printf("FAILED %s: what was printed does not parse to itself\n%s", path.c_str(), got.c_str());
      return false;
    }
    if (got == c.expected) return true;
    if (bless) {
      std::ofstream(path, std::ios::binary) << c.input << kExpect << got;
      std::printf("blessed %s\n", path.c_str());
      return true;
    }
    std::printf("FAILED %s\n", path.c_str());
    show_difference(c.expected, got);
  } catch (const std::exception& e) { std::printf("FAILED %s: %s\n", path.c_str(), e.what()); }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  bool bless = false;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--bless") == 0) {
      bless = true;
    } else if (fs::is_directory(argv[i])) {
      for (const auto& e : fs::recursive_directory_iterator(argv[i]))
        if (e.path().extension() == ".graph") files.push_back(e.path());
    } else {
      files.push_back(argv[i]);
    }
  }
  std::sort(files.begin(), files.end());
  int failed = 0;
  for (const fs::path& f : files) failed += !run_file(f, bless);
  std::printf("%zu filetests, %d failed\n", files.size(), failed);
  return failed || files.empty();
}
