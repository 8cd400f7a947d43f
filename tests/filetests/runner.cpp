// Runs filetests: each FILE.graph (or .loop, .plan) is
//
//     # passes: fold_constants,dce
//     graph @before ...
//     # expect:
//     graph @after ...
//
// The passes and stages (see opt/opt.h) must turn the first text into exactly the second one, and that must parse to itself. Where the
// first is a graph, it and the graph or the loops that come out are also interpreted on pseudo-random inputs, at two sizes of every symbol,
// and must agree. --bless rewrites the expected text. Lines of the head:
//
//     # target: avx2,avx512                 (or sm_90a; avx2 where it is missing)
//     # threads: 2                          (of the machine that is built for)
//     # variant: batch in [2, 64] by 2      (of the stage plan, several lines)
//     # size-classes: yes                   (of the stage plan)
//     # precision: bf16                     (of every contraction, for the pass precision; or bf16,f32,asked: of each)
//     # kv-cache: int8                      (or fp8; for the pass store_cache)
//     # alternatives: strips_off            (that take the place of what is done by itself: search/alternatives.h)
//     # no-run                              (is not interpreted)
//     # error: operands of different types  (what the stages, or the reading of the text, must refuse it with; several lines: all of
//                                            these words; such a file expects no text)
//
// --same FILE_OR_FOLDER...: every text parses to itself (what `aotc build --dump-dir` wrote, for example).
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "graph/interp.h"
#include "graph/scalar.h"
#include "graph/text.h"
#include "loop/interp.h"
#include "opt/opt.h"
#include "passes/precision.h"

using namespace aotc;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kExpect = "# expect:\n";

struct Case {
  std::string passes, input, expected;
  std::vector<std::string> errors;  ///< words of the Diagnostic that must come
  opt::Options options;
  bool run = true;
};

std::string read(const fs::path& path) {
  std::ifstream f(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}

Case parse_case(const std::string& text, const std::string& name) {
  Case c;
  const size_t expect = text.find(kExpect);
  c.input = text.substr(0, expect);
  if (expect != std::string::npos) c.expected = text.substr(expect + kExpect.size());
  c.options.context.target = parse_cpu_target("avx2");
  int threads = 2;  // the same decisions on every machine
  for (size_t begin = 0; begin < c.input.size() && c.input[begin] == '#';) {
    const size_t end = std::min(c.input.find('\n', begin), c.input.size());
    const std::string line = c.input.substr(begin, end - begin);
    auto value = [&](std::string_view key) { return line.rfind(key, 0) == 0 ? line.substr(key.size()) : std::string(); };
    if (const std::string v = value("# passes: "); !v.empty()) c.passes = v;
    if (const std::string v = value("# variant: "); !v.empty()) c.options.variants.push_back(v);
    if (value("# size-classes: ") == "yes") c.options.size_classes = true;
    if (const std::string v = value("# target: "); !v.empty())
      c.options.context.target = v.rfind("sm_", 0) == 0 ? parse_cuda_target(v) : parse_cpu_target(v);
    if (const std::string v = value("# threads: "); !v.empty()) threads = std::stoi(v);
    if (const std::string v = value("# precision: "); !v.empty()) c.options.context.precision = passes::parse_precisions(v);
    if (const std::string v = value("# kv-cache: "); !v.empty()) c.options.context.cache = passes::parse_cache_storage(v);
    if (const std::string v = value("# alternatives: "); !v.empty()) {
      const Result<search::Alternatives> alternatives = search::Alternatives::parse(v);
      if (!alternatives) throw Diagnostic(Loc{name, "", "", ""}, alternatives.why());
      c.options.alternatives = *alternatives;
    }
    if (line == "# no-run") c.run = false;
    if (const std::string v = value("# error: "); !v.empty()) c.errors.push_back(v);
    begin = end + 1;
  }
  c.options.context.target.threads = threads;
  if (c.passes.empty()) throw Diagnostic(Loc{name, "", "", ""}, "the head lacks '# passes: a,b'");
  if (!c.errors.empty() && expect != std::string::npos)
    throw Diagnostic(Loc{name, "", "", ""}, "both '# error:' and '# expect:': what is refused leaves no text");
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

/// Empty when both compute the same: graphs in f64, loops in the types that they have (16-bit values keep more bits where they are fused).
std::string difference(const Graph& before, const opt::Ir& after) {
  const bool halves = std::any_of(before.values.begin(), before.values.end(), [](const Value& v) { return is_half(v.type.dtype); });
  const double tolerance = !after.module ? 1e-6 : halves ? 1e-2 : 1e-4;
  for (int64_t add : {1, 2}) {
    const std::vector<HostTensor> inputs = random_inputs(before, add);
    const std::vector<HostTensor> a = interpret(before, inputs, {!after.module}),
                                  b = after.module ? loop::interpret(*after.module, *after.graph, inputs)
                                                   : interpret(*after.graph, inputs, {true});
    if (a.size() != b.size()) return "the number of outputs changes";
    for (size_t o = 0; o < a.size(); ++o) {
      if (a[o].dims != b[o].dims || a[o].dtype != b[o].dtype) return fmt::format("output {} has another type", o);
      for (int64_t i = 0; i < a[o].elems(); ++i) {
        const double x = at(a[o], i), y = at(b[o], i);
        const bool same = x == y || (std::isnan(x) && std::isnan(y)) || std::fabs(x - y) <= tolerance * std::max(1.0, std::fabs(x));
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

/// Empty when the text is what its parse prints, the data of constants in `folder` at hand.
std::string not_itself(const std::string& text, const std::string& name, const std::string& folder = "") {
  const ConstantStore in(folder);
  ConstantStore keys("");
  const bool stored = !folder.empty();
  const std::string again =
      opt::print(opt::parse(text, name, {.constants = stored ? &in : nullptr}), {.constants = stored ? &keys : nullptr});
  if (again == text) return "";
  std::printf("FAILED %s: what was printed does not parse to itself\n", name.c_str());
  show_difference(text, again);
  return "differs";
}

/// Whether the text is refused, with the words of the file.
bool refused(const Case& c, const fs::path& path) {
  try {
    opt::Ir ir = opt::parse(c.input, path.filename().string());
    opt::run(ir, c.passes, c.options);
  } catch (const Diagnostic& d) {
    bool all = true;
    for (const std::string& words : c.errors) {
      if (std::string_view(d.what()).find(words) != std::string_view::npos) continue;
      std::printf("FAILED %s: '%s' is not in what it was refused with: %s\n", path.c_str(), words.c_str(), d.what());
      all = false;
    }
    return all;
  }
  std::printf("FAILED %s: it was taken; to be refused with '%s'\n", path.c_str(), c.errors[0].c_str());
  return false;
}

bool run_file(const fs::path& path, bool bless) {
  try {
    const std::string text = read(path), name = path.filename().string();
    const Case c = parse_case(text, name);
    if (!c.errors.empty()) return refused(c, path);
    opt::Ir ir = opt::parse(c.input, name);
    const std::optional<Graph> before = ir.graph;
    opt::run(ir, c.passes, c.options);
    const std::string got = opt::print(ir);
    if (c.run && before) {
      const std::string why = difference(*before, ir);
      if (!why.empty()) {
        std::printf("FAILED %s: %s\n", path.c_str(), why.c_str());
        return false;
      }
    }
    if (!not_itself(got, path.string()).empty()) return false;
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

bool same_file(const fs::path& path) {
  try {
    const std::string text = read(path);
    const fs::path folder = path.parent_path() / ConstantStore::kFolder;
    return text == "(unchanged)\n" || not_itself(text, path.string(), fs::is_directory(folder) ? folder.string() : "").empty();
  } catch (const std::exception& e) { std::printf("FAILED %s: %s\n", path.c_str(), e.what()); }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  bool bless = false, same = false;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--bless") == 0) {
      bless = true;
    } else if (std::strcmp(argv[i], "--same") == 0) {
      same = true;
    } else if (fs::is_directory(argv[i])) {
      for (const auto& e : fs::recursive_directory_iterator(argv[i])) {
        const std::string kind = e.path().extension().string();
        if (same ? e.is_regular_file() : kind == ".graph" || kind == ".loop" || kind == ".plan") files.push_back(e.path());
      }
    } else {
      files.push_back(argv[i]);
    }
  }
  std::sort(files.begin(), files.end());
  int failed = 0;
  for (const fs::path& f : files) failed += !(same ? same_file(f) : run_file(f, bless));
  std::printf("%zu %s, %d failed\n", files.size(), same ? "texts" : "filetests", failed);
  return failed || files.empty();
}
