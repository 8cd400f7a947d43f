#include "base/uarch.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "aotc/detail/blob_hash.h"
#include "base/diagnostic.h"
#include "base/file.h"
#include "base/parts.h"
#include "base/words.h"

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
  std::string_view name, meaning;
  double Uarch::*both = nullptr;
  double CpuCosts::*cpu = nullptr;
  double GpuCosts::*gpu = nullptr;
  int64_t Uarch::*both_count = nullptr;
  int64_t CpuCosts::*cpu_count = nullptr;
  int64_t GpuCosts::*gpu_count = nullptr;
  bool is_of(bool gpu_kind) const { return both || both_count || (gpu_kind ? gpu || gpu_count : cpu || cpu_count); }
  bool is_count() const { return both_count || cpu_count || gpu_count; }
  double of(const Uarch& u) const {
    if (both) return u.*both;
    if (cpu) return u.cpu.*cpu;
    if (gpu) return u.gpu.*gpu;
    return static_cast<double>(both_count ? u.*both_count : cpu_count ? u.cpu.*cpu_count : u.gpu.*gpu_count);
  }
  void set(Uarch& u, double value) const {
    if (both) u.*both = value;
    if (cpu) u.cpu.*cpu = value;
    if (gpu) u.gpu.*gpu = value;
    if (both_count) u.*both_count = std::llround(value);
    if (cpu_count) u.cpu.*cpu_count = std::llround(value);
    if (gpu_count) u.gpu.*gpu_count = std::llround(value);
  }
};
constexpr NumberRow kRows[] = {
#define AOTC_NUMBER(field, what) {.name = #field, .meaning = what, .both = &Uarch::field},
#define AOTC_COUNT(field, what) {.name = #field, .meaning = what, .both_count = &Uarch::field},
#include "base/uarch_both.def"
#undef AOTC_NUMBER
#undef AOTC_COUNT
#define AOTC_NUMBER(field, what) {.name = #field, .meaning = what, .cpu = &CpuCosts::field},
#define AOTC_COUNT(field, what) {.name = #field, .meaning = what, .cpu_count = &CpuCosts::field},
#include "base/uarch_cpu.def"
#undef AOTC_NUMBER
#undef AOTC_COUNT
#define AOTC_NUMBER(field, what) {.name = #field, .meaning = what, .gpu = &GpuCosts::field},
#define AOTC_COUNT(field, what) {.name = #field, .meaning = what, .gpu_count = &GpuCosts::field},
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

/// Numbers are divided by and multiplied with each other: none is nothing but for these, and none beyond any machine's.
constexpr std::string_view kMayBeNothing = "halves_vectors window_ns";
constexpr double kLeast = 1e-6, kMost = 1e7;
constexpr double kMostCount = double(int64_t{1} << 40);
bool in_bounds(const NumberRow& r, double value) {
  if (value == 0) return has_word(kMayBeNothing, r.name);
  return value >= kLeast && value <= (r.is_count() ? kMostCount : kMost);
}

/// Whether the text is a number, which is a whole one where the row is a count; then it has its place.
bool put(Uarch& u, const NumberRow& r, std::string_view text) {
  if (r.both) return read_number(text, u.*r.both);
  if (r.cpu) return read_number(text, u.cpu.*r.cpu);
  if (r.gpu) return read_number(text, u.gpu.*r.gpu);
  if (r.both_count) return read_number(text, u.*r.both_count);
  return r.cpu_count ? read_number(text, u.cpu.*r.cpu_count) : read_number(text, u.gpu.*r.gpu_count);
}

/// As a data file has it: parsing gives the same number.
std::string text_of(const NumberRow& r, double value) {
  return r.is_count() ? fmt::format("{}", std::llround(value)) : fmt::format("{}", value);
}

const NumberRow& row_of(bool gpu, std::string_view name) {
  for (const NumberRow& r : kRows)
    if (r.name == name && r.is_of(gpu)) return r;
  AOTC_CHECK(false, "{} is no number of a {}", name, gpu ? "gpu" : "cpu");
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
      if (!put(u, *row, words[1]) || !in_bounds(*row, row->of(u)))
        fail(fmt::format(
            "'{}' is no number of {} ({})", words[1], words[0],
            row->is_count() ? fmt::format("a whole one from 1 to {:.0f}", kMostCount) : fmt::format("from {:g} to {:.0f}", kLeast, kMost)));
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
  if (target.uarch && target.uarch->is_gpu == target.is_gpu()) return *target.uarch;
  if (!target.is_gpu()) return uarch_of(target.isas.empty() ? Isa::avx2 : target.isas.back());
  const std::string& sm = target.sms.front();
  return uarch_of_sm(std::atoi(sm.c_str() + sm.find('_') + 1));
}

std::string print(const Uarch& u) {
  const Uarch& first = u.is_gpu ? uarch_of_sm(90) : uarch_of(Isa::avx2);
  std::string text = fmt::format("like {}\n", first.name);
  for (const NumberRow& r : kRows)
    if (r.is_of(u.is_gpu) && r.of(u) != r.of(first)) text += fmt::format("{} {}\n", r.name, text_of(r, r.of(u)));
  return text;
}

std::shared_ptr<const Uarch> named_uarch(std::string_view text, const std::string& name) {
  auto u = std::make_shared<Uarch>(parse_uarch(text, name));
  u->name = name;
  std::string all = u->is_gpu ? "gpu" : "cpu";
  for (const NumberRow& r : kRows)
    if (r.is_of(u->is_gpu)) all += fmt::format("\n{} {}", r.name, text_of(r, r.of(*u)));
  u->id = fmt::format("{:016x}", aotc_blob_hash(all.data(), all.size()));
  return u;
}

std::shared_ptr<const Uarch> load_uarch(const std::string& file) {
  const std::string text = read_file(file);
  parse_uarch(text, file);  // what is wrong with it is said of its path
  return named_uarch(text, std::filesystem::path(file).stem().string());
}

void take_uarch(Target& target, std::shared_ptr<const Uarch> uarch, const std::string& file) {
  const Loc loc{.file = file};
  if (!uarch->is_gpu && target.isas.empty())
    throw Diagnostic(ExitCode::usage, loc, fmt::format("describes a CPU; a GPU's was expected, for {}", target.str()))
        .note("its first row says the kind: 'kind gpu', or 'like' one of a GPU");
  const auto architectures = std::count_if(target.sms.begin(), target.sms.end(), [](const std::string& sm) { return !is_ptx(sm); });
  if (uarch->is_gpu && architectures == 0)
    throw Diagnostic(ExitCode::usage, loc, fmt::format("describes a GPU; a CPU's was expected, for {}", target.str()))
        .note("its first row says the kind: 'kind cpu', or 'like' one of a CPU");
  if (uarch->is_gpu && architectures > 1)
    throw Diagnostic(ExitCode::usage, loc,
                     fmt::format("describes one GPU, and there are {} architectures: {}", architectures, target.str()))
        .note("build an artifact for each, or leave --uarch out");
  if (uarch->is_gpu) {
    const int64_t known = uarch_of_sm(std::atoi(target.sms.front().c_str() + 3)).gpu.shared_bytes;
    if (uarch->gpu.shared_bytes > known)
      throw Diagnostic(loc, fmt::format("says shared_bytes {}; a block of {} has {}", uarch->gpu.shared_bytes, target.sms.front(), known));
  }
  target.uarch = std::move(uarch);
}

std::vector<UarchNumber> uarch_numbers(bool gpu) {
  std::vector<UarchNumber> all;
  for (const NumberRow& r : kRows)
    if (r.is_of(gpu)) all.push_back({r.name, r.meaning.empty() && !all.empty() ? all.back().what : r.meaning, r.is_count()});
  return all;
}

double number_of(const Uarch& u, std::string_view name) { return row_of(u.is_gpu, name).of(u); }
void set_number(Uarch& u, std::string_view name, double value) { row_of(u.is_gpu, name).set(u, value); }

std::vector<std::string_view> uarch_names() {
  std::vector<std::string_view> names;
  for (const UarchFile& f : kFiles) names.push_back(f.name);
  return names;
}

}  // namespace aotc
