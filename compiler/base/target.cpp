#include "base/target.h"

#include <algorithm>

#include "aotc/detail/cpu_features.h"
#include "base/diagnostic.h"

namespace aotc {

namespace {

#define AOTC_X(name, value, text, features) {static_cast<Isa>(value), text, FeatureSet::of_cpu(features)},
constexpr IsaLevel kIsas[] = {AOTC_ISA_LIST(AOTC_X)};
#undef AOTC_X
#define AOTC_X(name, value, text, features) (features),
constexpr uint32_t kNeeds[] = {AOTC_ISA_LIST(AOTC_X)};  // by value
#undef AOTC_X
static_assert(static_cast<int>(Isa::avx512) == AOTC_ISA_AVX512 && static_cast<int>(Isa::avx512_bf16) == AOTC_ISA_AVX512_BF16 &&
              static_cast<int>(Isa::amx) == AOTC_ISA_AMX);

const IsaLevel& row(Isa isa) {
  for (const IsaLevel& r : kIsas)
    if (r.isa == isa) return r;
  AOTC_CHECK(false, "unknown isa");
}

std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t comma = text.find(',', begin);
    parts.push_back(text.substr(begin, comma - begin));
    if (comma == std::string_view::npos) return parts;
    begin = comma + 1;
  }
}

}  // namespace

std::string_view isa_name(Isa isa) { return row(isa).name; }
uint32_t isa_features(Isa isa) { return kNeeds[static_cast<size_t>(isa)]; }
FeatureSet features_of(Isa isa) { return row(isa).features; }
std::span<const IsaLevel> all_levels() { return kIsas; }

std::vector<Isa> isas_within(FeatureSet features, std::span<const IsaLevel> levels) {
  std::vector<Isa> all;
  for (const IsaLevel& l : levels)
    if (features.includes(l.features)) all.push_back(l.isa);
  return all;
}

Isa isa_with(FeatureSet features, Isa otherwise, std::span<const IsaLevel> levels) {
  for (const IsaLevel& l : levels)
    if (l.features.includes(features)) return l.isa;
  return otherwise;
}

std::vector<std::string_view> feature_names(uint32_t features) {
  std::vector<std::string_view> names;
#define AOTC_X(name, bit, text) \
  if (features & AOTC_CPU_##name) names.push_back(text);
  AOTC_CPU_FEATURE_LIST(AOTC_X)
#undef AOTC_X
  return names;
}

std::vector<Isa> isas_of(uint32_t features) { return isas_within(FeatureSet::of_cpu(features)); }

std::string Target::str() const {
  std::string s;
  auto add = [&s](std::string_view part) {
    if (!s.empty()) s += ',';
    s += part;
  };
  for (Isa i : isas) add(isa_name(i));
  for (const std::string& sm : sms) add(sm);
  return s;
}

Target parse_cpu_target(std::string_view text) {
  Target t;
  auto fail = [&](const std::string& what) {
    throw Diagnostic(ExitCode::usage, Loc{}, what)
        .note("known: native, portable (avx2,avx512), avx2, avx512, avx512_bf16, amx, or several of them with commas");
  };
  for (std::string_view part : split_list(text)) {
    if (part == "native") {
      const auto isas = native_isas();
      if (isas.empty()) fail("--cpu native: this machine has no AVX2 with FMA and F16C, the least that aotc makes code for");
      if (!t.has(isas.back())) t.isas.push_back(isas.back());
      t.native = true;
      continue;
    }
    if (part == "portable") {
      for (Isa isa : {Isa::avx2, Isa::avx512})
        if (!t.has(isa)) t.isas.push_back(isa);
      continue;
    }
    auto it = std::find_if(std::begin(kIsas), std::end(kIsas), [&](const IsaLevel& r) { return r.name == part; });
    if (it == std::end(kIsas)) fail(fmt::format("--cpu: unknown instruction set '{}'", part));
    if (!t.has(it->isa)) t.isas.push_back(it->isa);
  }
  if (t.has(Isa::amx) && !t.has(Isa::avx512_bf16)) t.isas.push_back(Isa::avx512_bf16);
  std::sort(t.isas.begin(), t.isas.end());
  return t;
}

Target parse_cuda_target(std::string_view text) {
  Target t;
  for (std::string_view part : split_list(text)) {
    const std::string_view digits = part.substr(0, 3) == "sm_" ? part.substr(3) : std::string_view{};
    const bool suffix = !digits.empty() && (digits.back() == 'a' || digits.back() == 'f');
    const std::string_view number = digits.substr(0, digits.size() - (suffix ? 1 : 0));
    const bool ok =
        number.size() >= 2 && number.size() <= 3 && std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!ok) {
      throw Diagnostic(ExitCode::usage, Loc{}, fmt::format("--cuda: '{}' is not a GPU architecture", part))
          .note("expected sm_ and the compute capability, for example sm_80, sm_90 or sm_90a; several with commas");
    }
    if (std::find(t.sms.begin(), t.sms.end(), part) == t.sms.end()) t.sms.emplace_back(part);
  }
  return t;
}

}  // namespace aotc
