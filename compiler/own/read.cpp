#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "aotc/detail/blob_hash.h"
#include "base/file.h"
#include "base/words.h"
#include "import/json.h"
#include "own/description.h"

namespace aotc::own {
namespace {

namespace fs = std::filesystem;
using import::Json;
using import::JsonRef;

constexpr size_t kMostRows = 256, kMostFileBytes = size_t{1} << 30, kMostSourceBytes = size_t{16} << 20;
constexpr int64_t kMostThreads = 1024;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_identifier(std::string_view s) {
  return !s.empty() && s.size() <= 128 && is_letter(s[0]) &&
         std::all_of(s.begin(), s.end(), [](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

/// A list of one to `most`, or the one that stands for it.
template <class F>
void each(const JsonRef& j, size_t most, F&& f) {
  if (!j.raw().is_array()) return f(j);
  if (j.size() == 0 || j.size() > most) throw j.fault(fmt::format("{} entries; expected 1 to {}", j.size(), most));
  for (size_t i = 0, n = j.size(); i < n; ++i) f(j.at(i));
}

class Reader {
 public:
  explicit Reader(const std::string& file) : folder_(fs::absolute(file).parent_path()) { k_.file = file; }

  Kernels read() {
    const Json json = import::parse_json(read_file(k_.file), k_.file);
    const JsonRef root(json, k_.file);
    root.check_keys({"kernels"});
    const JsonRef rows = root["kernels"];
    if (rows.size() == 0 || rows.size() > kMostRows) throw rows.fault(fmt::format("{} kernels; expected 1 to {}", rows.size(), kMostRows));
    for (size_t i = 0, n = rows.size(); i < n; ++i) k_.rows.push_back(row(rows.at(i)));
    return std::move(k_);
  }

 private:
  Kernel row(const JsonRef& j) {
    j.check_keys({"schema", "pointwise", "inputs", "results", "cpu", "cuda"});
    Kernel k;
    k.path = j.path();
    name(k, j["schema"]);
    if (const auto p = j.member("inputs")) inputs(k, *p);
    if (const auto p = j.member("results")) each(*p, 64, [&](const JsonRef& r) { k.results.push_back(result(r)); });
    if (const auto p = j.member("pointwise")) {
      each(*p, 64, [&](const JsonRef& e) { k.pointwise.push_back(parse_pointwise(e.text(), k_.file, e.path())); });
      for (const char* other : {"results", "cpu", "cuda"})
        if (const auto o = j.member(other))
          throw o->fault("stands beside \"pointwise\", from which shapes and code of all machines follow").note("leave one of the two out");
      return k;
    }
    if (k.results.empty()) throw j.fault("missing key \"results\": the shape and the type of each, or \"pointwise\": an expression");
    if (const auto p = j.member("cpu")) k.cpu = cpu(*p);
    if (const auto p = j.member("cuda")) k.cuda = cuda(*p);
    if (!k.cpu && !k.cuda) throw j.fault("has no code: expected \"pointwise\", \"cpu\" or \"cuda\"");
    return k;
  }

  /// "ns::name(.overload)?(..": LibTorch reads the rest.
  void name(Kernel& k, const JsonRef& j) {
    k.schema = j.text();
    constexpr size_t kMostChars = 4000;
    if (k.schema.size() > kMostChars) throw j.fault(fmt::format("a schema of {} characters; at most {}", k.schema.size(), kMostChars));
    const auto wrong = [&] {
      return j.fault("expected an operator's schema")
          .note(
              "as in \"mylib::lookup(Tensor codes, Tensor table) -> Tensor\"; Python tells it: "
              "print(torch.ops.mylib.lookup.default._schema)");
    };
    const size_t open = k.schema.find('(');
    if (open == std::string::npos || std::any_of(k.schema.begin(), k.schema.end(), [](char c) { return c < ' ' || c > '~'; }))
      throw wrong();
    k.op = k.schema.substr(0, open);
    const size_t colons = k.op.find("::"), dot = k.op.find('.');
    if (colons == std::string::npos) throw wrong();
    const std::string space = k.op.substr(0, colons), base = k.op.substr(colons + 2, dot == std::string::npos ? dot : dot - colons - 2);
    const std::string overload = dot == std::string::npos ? "default" : k.op.substr(dot + 1);
    if (!is_identifier(space) || !is_identifier(base) || !is_identifier(overload)) throw wrong();
    for (const char* torchs : {"aten", "prim", "prims", "higher_order", "operator"})
      if (space == torchs)
        throw j.fault(fmt::format("\"{}\" is a namespace of PyTorch's own operators", space)).note("expected a custom operator's");
    k.target = space + "." + base + "." + overload;
  }

  void inputs(Kernel& k, const JsonRef& j) {
    for (const auto& [arg, value] : j.object().items()) {
      const JsonRef in = j.member(arg, value);
      in.check_keys({"dtype", "rank"});
      InputRule& rule = k.inputs[arg];
      each(in["dtype"], 16, [&](const JsonRef& t) { rule.dtypes.push_back(dtype(t)); });
      if (const auto r = in.member("rank")) rule.rank = bounded(*r, 0, 64);
    }
  }

  static int64_t bounded(const JsonRef& j, int64_t least, int64_t most) {
    const int64_t v = j.integer();
    if (v < least || v > most) throw j.fault(fmt::format("{} is not within {} to {}", v, least, most));
    return v;
  }

  static DType dtype(const JsonRef& j) {
    const auto t = parse_dtype(j.text());
    if (!t || is_complex(*t))
      throw j.fault(fmt::format("\"{}\" is no element type that kernels take", j.text().substr(0, 40)))
          .note("expected bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, float8_e4m3fn or float8_e5m2");
    return *t;
  }

  ResultRule result(const JsonRef& j) {
    j.check_keys({"dtype", "dtype_of", "shape", "shape_of"});
    ResultRule r;
    r.path = j.path();
    const auto one_of = [&](const char* a, const char* b) {
      if (j.object().contains(a) == j.object().contains(b)) throw j.fault(fmt::format("expected one of \"{}\" and \"{}\"", a, b));
    };
    one_of("dtype", "dtype_of"), one_of("shape", "shape_of");
    if (const auto p = j.member("dtype")) r.dtype = dtype(*p);
    if (const auto p = j.member("dtype_of")) r.dtype_of = p->text();
    if (const auto p = j.member("shape_of")) r.shape_of = p->text();
    if (const auto p = j.member("shape")) {
      if (p->size() > 64) throw p->fault(fmt::format("{} dimensions; at most 64", p->size()));
      for (size_t i = 0, n = p->size(); i < n; ++i) r.shape.push_back(formula(p->at(i)));
    }
    return r;
  }

  Formula formula(const JsonRef& j) const {
    if (!j.raw().is_string()) {
      constexpr int64_t kMost = int64_t{1} << 40;
      return constant_formula(bounded(j, 0, kMost), j.path());
    }
    return parse_formula(j.text(), k_.file, j.path());
  }
  Formula formula_or(const JsonRef& j, std::string_view key, int64_t fallback) const {
    const auto p = j.member(key);
    return p ? formula(*p) : constant_formula(fallback, j.path());
  }

  std::string function(const JsonRef& j) const {
    const std::string s = j.text();
    if (!is_identifier(s)) throw j.fault(fmt::format("\"{}\" is no name of a C function", s.substr(0, 80)));
    if (s.rfind("aotc_", 0) == 0) throw j.fault(fmt::format("\"{}\": names that begin with aotc_ are aotc's own", s));
    return s;
  }

  /// Absolute; of a file beside kernels.json where the text is relative.
  std::string path(const JsonRef& j, size_t most) const {
    const std::string text = j.text();
    if (text.empty() || text.find('\0') != std::string::npos) throw j.fault("expected the path of a file");
    const std::string file = (folder_ / text).lexically_normal().string();
    std::error_code ec;
    if (!fs::is_regular_file(file, ec))
      throw Diagnostic(ExitCode::io, k_.at(j.path()), fmt::format("{}: no such file", file))
          .note("paths are relative to the folder of " + k_.file);
    if (const uintmax_t bytes = fs::file_size(file, ec); ec || bytes > most)
      throw j.fault(fmt::format("{} has {} bytes; at most {}", file, bytes, most));
    return file;
  }

  CpuCode cpu(const JsonRef& j) {
    j.check_keys({"source", "object", "library", "flags", "function", "work", "grain", "scratch_bytes"});
    CodeFile code;
    int given = 0;
    constexpr std::pair<const char*, CodeKind> kKinds[] = {
        {"source", CodeKind::source}, {"object", CodeKind::object}, {"library", CodeKind::library}};
    for (const auto& [key, kind] : kKinds)
      if (const auto p = j.member(key)) {
        ++given;
        code.kind = kind, code.path = p->path();
        code.file = path(*p, kind == CodeKind::source ? kMostSourceBytes : kMostFileBytes);
        check_content(code, *p);
      }
    if (given != 1) throw j.fault("expected one of \"source\", \"object\" and \"library\"");
    if (const auto f = j.member("flags")) {
      if (code.kind != CodeKind::source) throw f->fault("are for a source");
      each(*f, 32, [&](const JsonRef& flag) { code.flags.push_back(this->flag(flag)); });
    }
    CpuCode c;
    c.function = function(j["function"]);
    c.work = formula_or(j, "work", 1), c.grain = formula_or(j, "grain", 1), c.scratch = formula_or(j, "scratch_bytes", 0);
    c.code = place(std::move(code));
    std::vector<std::string>& functions = k_.codes[c.code].functions;
    if (std::find(functions.begin(), functions.end(), c.function) == functions.end()) functions.push_back(c.function);
    return c;
  }

  size_t place(CodeFile code) {
    for (size_t i = 0; i < k_.codes.size(); ++i)
      if (const CodeFile& c = k_.codes[i]; c.file == code.file && c.kind == code.kind && c.flags == code.flags) return i;
    k_.codes.push_back(std::move(code));
    return k_.codes.size() - 1;
  }

  /// What a build may be asked to pass to the compiler: nothing that names files to run or to write.
  static std::string flag(const JsonRef& j) {
    const std::string s = j.text();
    static constexpr std::string_view kStarts[] = {"-D", "-U", "-I", "-O", "-std="};
    static constexpr std::string_view kWhole = "-ffast-math -fno-fast-math -funroll-loops -fopenmp-simd -fno-strict-aliasing -fwrapv";
    const bool starts =
        std::any_of(std::begin(kStarts), std::end(kStarts), [&](std::string_view p) { return s.size() > p.size() && s.rfind(p, 0) == 0; });
    if (s.size() > 512 || (!starts && !has_word(kWhole, s)))
      throw j.fault(fmt::format("\"{}\" is no flag that is passed on", s.substr(0, 80)))
          .note("expected -Dname=value, -U, -I, -O, -std=, -ffast-math, -funroll-loops, -fopenmp-simd, -fno-strict-aliasing or -fwrapv");
    return s;
  }

  static void check_content(CodeFile& code, const JsonRef& j) {
    const std::string bytes = read_file(code.file);
    code.hash = aotc_blob_hash(bytes.data(), bytes.size());
    const std::string extension = fs::path(code.file).extension().string();
    if (code.kind == CodeKind::source) {
      if (extension != ".c" && extension != ".cpp" && extension != ".cc" && extension != ".cxx")
        throw j.fault(fmt::format("{} is no source that can be told by its name", code.file)).note("expected .c, .cpp, .cc or .cxx");
      return;
    }
    if (code.kind == CodeKind::library) {
      if (bytes.compare(0, 8, "!<arch>\n") != 0)
        throw j.fault(fmt::format("{} is no static library", code.file)).note("expected what ar makes (not a thin one)");
      return;
    }
    // ELF64, little-endian; e_type 1: relocatable, e_machine 62: x86-64.
    constexpr size_t kHeader = 64;
    const bool fits = bytes.size() >= kHeader &&
                      bytes.compare(0, 6,
                                    std::string("\x7f"
                                                "ELF\x02\x01",
                                                6)) == 0 &&
                      bytes[16] == 1 && bytes[17] == 0 && bytes[18] == 62 && bytes[19] == 0;
    if (!fits) throw j.fault(fmt::format("{} is no object file for x86-64", code.file)).note("expected what cc -c -fPIC makes");
  }

  size_t cuda_source(const JsonRef& j) {
    const std::string file = path(j, kMostSourceBytes);
    for (size_t i = 0; i < k_.cuda_sources.size(); ++i)
      if (k_.cuda_sources[i].file == file) return i;
    CudaSource s{file, read_file(file), 0};
    s.hash = aotc_blob_hash(s.text.data(), s.text.size());
    if (s.text.find('\0') != std::string::npos) throw j.fault(fmt::format("{} is no text", file));
    k_.cuda_sources.push_back(std::move(s));
    return k_.cuda_sources.size() - 1;
  }

  size_t cuda_binary(const JsonRef& j, const std::string& function) {
    const std::string file = path(j, kMostFileBytes);
    size_t at = 0;
    while (at < k_.cuda_binaries.size() && k_.cuda_binaries[at].file != file) ++at;
    if (at == k_.cuda_binaries.size()) {
      Result<CudaBinary> b = read_machine_code(file, read_file(file));
      if (!b) throw j.fault(b.why()).note("expected what nvcc -cubin or -ptx makes");
      b->hash = aotc_blob_hash(b->code.data(), b->code.size());
      k_.cuda_binaries.push_back(std::move(*b));
    }
    if (!has_function(k_.cuda_binaries[at], function))
      throw j.fault(fmt::format("{} has no kernel '{}'", file, function)).note("expected extern \"C\" __global__ (aotc/own_kernel.h)");
    return at;
  }

  CudaCode cuda(const JsonRef& j) {
    j.check_keys({"source", "cubin", "function", "grid", "block", "shared_bytes", "scratch_bytes"});
    CudaCode c;
    const auto source = j.member("source"), cubin = j.member("cubin");
    if (source.has_value() == cubin.has_value()) throw j.fault("expected one of \"source\" and \"cubin\"");
    if (source) c.source = cuda_source(*source);
    c.function = function(j["function"]);
    if (cubin) each(*cubin, 16, [&](const JsonRef& file) { c.binaries.push_back(cuda_binary(file, c.function)); });
    size_t n = 0;
    c.grid.fill(constant_formula(1, j.path()));
    each(j["grid"], 3, [&](const JsonRef& g) { c.grid[n++] = formula(g); });
    n = 0;
    each(j["block"], 3, [&](const JsonRef& b) { c.block[n++] = bounded(b, 1, kMostThreads); });
    if (c.block[0] * c.block[1] * c.block[2] > kMostThreads) throw j["block"].fault(fmt::format("more than {} threads", kMostThreads));
    c.shared = formula_or(j, "shared_bytes", 0), c.scratch = formula_or(j, "scratch_bytes", 0);
    return c;
  }

  fs::path folder_;
  Kernels k_;
};

}  // namespace

bool Kernels::has(std::string_view target) const {
  return std::any_of(rows.begin(), rows.end(), [&](const Kernel& k) { return k.target == target; });
}

std::string entry_symbol(const Kernels& all, size_t code, std::string_view function) {
  return fmt::format("aotc_own{}_{}{}", code, function, all.codes.at(code).kind == CodeKind::source ? "_" : "");
}
std::string cuda_header(size_t source) { return fmt::format("own_kernels_{}.cuh", source); }

std::string with_cuda_sources(const Kernels& all, std::string code) {
  for (size_t i = 0; i < all.cuda_sources.size(); ++i) {
    const std::string include = fmt::format("#include \"{}\"\n", cuda_header(i));
    const size_t at = code.find(include);
    if (at == std::string::npos) continue;
    const std::string name = fs::path(all.cuda_sources[i].file).filename().string();
    code.replace(at, include.size(), fmt::format("#line 1 \"{}\"\n{}\n", name, all.cuda_sources[i].text));
  }
  return code;
}

Kernels read_kernels(const std::string& file) { return Reader(file).read(); }

}  // namespace aotc::own
