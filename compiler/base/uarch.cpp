#include "base/uarch.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "base/diagnostic.h"

namespace aotc {
namespace {

struct UarchFile {
  std::string_view name, text;
};
/// The files of base/uarch.
constexpr UarchFile kFiles[] = {
#include "uarch_files.inc"
};

/// A row of the tables: where its number goes.
struct NumberRow {
  std::string_view name;
  double Uarch::*both = nullptr;
  double CpuCosts::*cpu = nullptr;
  double GpuCosts::*gpu = nullptr;
  int64_t Uarch::*both_count = nullptr;
  int64_t CpuCosts::*cpu_count = nullptr;
  int64_t GpuCosts::*gpu_count = nullptr;
  bool is_of(bool gpu_kind) const { return both || both_count || (gpu_kind ? gpu || gpu_count : cpu || cpu_count); }
};
constexpr NumberRow kRows[] = {
#define AOTC_NUMBER(field, what) {.name = #field, .both = &Uarch::field},
#define AOTC_COUNT(field, what) {.name = #field, .both_count = &Uarch::field},
#include "base/uarch_both.def"
#undef AOTC_NUMBER
#undef AOTC_COUNT
#define AOTC_NUMBER(field, what) {.name = #field, .cpu = &CpuCosts::field},
#define AOTC_COUNT(field, what) {.name = #field, .cpu_count = &CpuCosts::field},
#include "base/uarch_cpu.def"
#undef AOTC_NUMBER
#undef AOTC_COUNT
#define AOTC_NUMBER(field, what) {.name = #field, .gpu = &GpuCosts::field},
#define AOTC_COUNT(field, what) {.name = #field, .gpu_count = &GpuCosts::field},
#include "base/uarch_gpu.def"
#undef AOTC_NUMBER
#undef AOTC_COUNT
};

bool read_number(std::string_view text, int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out >= 0;
}

/// Decimal, as strtod reads it in the C locale, which is that of aotc. Not from_chars: C++ libraries before GCC 11's have none of double.
bool read_number(std::string_view text, double& out) {
  const std::string copy(text);
  if (copy.empty() || copy.find_first_not_of("0123456789.eE+-") != std::string::npos || copy[0] == '+' || copy[0] == '-') return false;
  char* end = nullptr;
  out = std::strtod(copy.c_str(), &end);
  return end == copy.c_str() + copy.size() && std::isfinite(out);
}

/// Whether the text is a number of the row, which is a whole one where that is a count; then it has its place.
bool put(Uarch& u, const NumberRow& r, std::string_view text) {
  if (r.both) return read_number(text, u.*r.both);
  if (r.cpu) return read_number(text, u.cpu.*r.cpu);
  if (r.gpu) return read_number(text, u.gpu.*r.gpu);
  if (r.both_count) return read_number(text, u.*r.both_count);
  return r.cpu_count ? read_number(text, u.cpu.*r.cpu_count) : read_number(text, u.gpu.*r.gpu_count);
}

std::vector<std::string_view> words_of(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  for (;;) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return words;
    const size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

class Reader {
 public:
  /// depth: of files that say `like`.
  Reader(std::string_view text, const std::string& file, int depth) : text_(text), file_(file), depth_(depth) {}

  Uarch run() {
    Uarch u;
    bool kind = false, like = false;
    std::set<std::string_view> given;
    for (int line = 1; !text_.empty(); ++line) {
      const size_t end = std::min(text_.find('\n'), text_.size());
      const std::vector<std::string_view> words = words_of(text_.substr(0, end));
      text_.remove_prefix(std::min(end + 1, text_.size()));
      line_ = line;
      if (words.empty()) continue;
      if (words.size() != 2) fail(fmt::format("a row is a name and a value, not {} words", words.size()));
      if (!kind) {
        if (words[0] == "kind" && (words[1] == "cpu" || words[1] == "gpu"))
          u.is_gpu = words[1] == "gpu";
        else if (words[0] == "like")
          u = base(words[1]), like = true;
        else
          fail("the first row is 'kind cpu', 'kind gpu' or 'like NAME'");
        kind = true;
        continue;
      }
      const auto row =
          std::find_if(std::begin(kRows), std::end(kRows), [&](const NumberRow& r) { return r.name == words[0] && r.is_of(u.is_gpu); });
      if (row == std::end(kRows)) fail(fmt::format("'{}' is no number of a {}", words[0], u.is_gpu ? "gpu" : "cpu"));
      if (!given.insert(words[0]).second) fail(fmt::format("'{}' is given twice", words[0]));
      if (!put(u, *row, words[1]))
        fail(fmt::format("'{}' is no number of {} (0 or more, whole ones where bytes or elements are counted)", words[1], words[0]));
    }
    line_ = 0;
    if (!kind) fail("it is empty");
    for (const NumberRow& r : kRows)
      if (!like && r.is_of(u.is_gpu) && !given.count(r.name)) fail(fmt::format("'{}' is missing", r.name));
    return u;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Diagnostic(ExitCode::bad_input, Loc{.file = file_}, line_ > 0 ? fmt::format("line {}: {}", line_, what) : what)
        .note("a file of a microarchitecture has rows as those of compiler/base/uarch");
  }
  Uarch base(std::string_view name) const {
    for (const UarchFile& f : kFiles)
      if (f.name == name && depth_ < 4) return Reader(f.text, std::string(f.name) + ".uarch", depth_ + 1).run();
    fail(fmt::format("'{}' is no microarchitecture; known: {}", name, fmt::join(uarch_names(), ", ")));
  }

  std::string_view text_;
  const std::string& file_;
  const int depth_;
  int line_ = 0;
};

const Uarch& named(std::string_view name) {
  static const std::map<std::string_view, Uarch> all = [] {
    std::map<std::string_view, Uarch> out;
    for (const UarchFile& f : kFiles) (out[f.name] = parse_uarch(f.text, std::string(f.name) + ".uarch")).name = f.name;
    return out;
  }();
  return all.at(name);
}

/// What has an instruction set first had it, or is most seen with it.
struct IsaUarch {
  Isa isa;
  std::string_view name;
};
constexpr IsaUarch kOfIsa[] = {{Isa::avx2, "x86_64"}, {Isa::avx512, "skylake"}, {Isa::avx512_bf16, "zen4"}, {Isa::amx, "sapphire_rapids"}};
constexpr int kSms[] = {75, 80, 86, 87, 89, 90, 100, 120};

}  // namespace

Uarch parse_uarch(std::string_view text, const std::string& file) { return Reader(text, file, 0).run(); }

const Uarch& uarch_of(Isa isa) {
  for (const IsaUarch& r : kOfIsa)
    if (r.isa == isa) return named(r.name);
  AOTC_CHECK(false, "no machine has {}", isa_name(isa));
}

const Uarch& uarch_of_sm(int sm) {
  int best = kSms[0];
  for (const int known : kSms)
    if (known <= sm) best = known;
  return named(fmt::format("sm_{}", best));
}

const Uarch& uarch_of(const Target& target) {
  if (!target.is_gpu()) return uarch_of(target.isas.empty() ? Isa::avx2 : target.isas.back());
  const std::string& sm = target.sms.front();
  return uarch_of_sm(std::atoi(sm.c_str() + sm.find('_') + 1));
}

std::vector<std::string_view> uarch_names() {
  std::vector<std::string_view> names;
  for (const UarchFile& f : kFiles) names.push_back(f.name);
  return names;
}

}  // namespace aotc
