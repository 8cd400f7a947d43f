#include "base/target.h"

#include <algorithm>
#include <array>

#include "base/diagnostic.h"

namespace aotc {

namespace {

constexpr std::array<std::pair<Isa, std::string_view>, 4> kIsas = {{
    {Isa::avx2, "avx2"},
    {Isa::avx512, "avx512"},
    {Isa::avx512_bf16, "avx512_bf16"},
    {Isa::amx, "amx"},
}};

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

std::string_view isa_name(Isa isa) {
  for (const auto& [i, name] : kIsas)
    if (i == isa) return name;
  AOTC_CHECK(false, "unknown isa");
}

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
    throw Diagnostic(ExitCode::usage, Loc{}, what).note("known: native, avx2, avx512, avx512_bf16, amx, or several of them with commas");
  };
  for (std::string_view part : split_list(text)) {
    if (part == "native") {
      const auto isas = native_isas();
      if (isas.empty()) fail("--cpu native: this machine has no AVX2 with FMA and F16C, the least that aotc makes code for");
      if (!t.has(isas.back())) t.isas.push_back(isas.back());
      continue;
    }
    auto it = std::find_if(kIsas.begin(), kIsas.end(), [&](const auto& row) { return row.second == part; });
    if (it == kIsas.end()) fail(fmt::format("--cpu: unknown instruction set '{}'", part));
    if (!t.has(it->first)) t.isas.push_back(it->first);
  }
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
