#include "entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/target.h"
#include "forms/cpu/forms.h"

namespace kernel_test {

using aotc::DType;

std::optional<DType> symbol_type(std::string_view text) {
#define AOTC_X(name, value, type, bytes) \
  if (aotc::forms::cpu::symbol_dtype(static_cast<DType>(value)) == text) return static_cast<DType>(value);
  AOTC_DTYPE_LIST(AOTC_X)
#undef AOTC_X
  return std::nullopt;
}

std::vector<Entry> entries(std::string_view algorithm) {
  const std::string begins = fmt::format("aotc_{}_", algorithm);
  std::vector<Entry> found;
  for (size_t i = 0; i < kLibrarySize; ++i) {
    const std::string_view name = kLibrary[i].name;
    if (name.substr(0, begins.size()) != begins) continue;
    const size_t end = name.find('_', begins.size());
    if (end == std::string_view::npos) continue;
    const std::optional<DType> dtype = symbol_type(name.substr(begins.size(), end - begins.size()));
    if (dtype) found.push_back({kLibrary[i].name + end + 1, *dtype, kLibrary[i].fn});
  }
  if (found.empty()) throw std::logic_error(fmt::format("the kernel library has no entry {}*", begins));
  std::stable_sort(found.begin(), found.end(), [](const Entry& a, const Entry& b) {
    const auto isa = [](const Entry& e) { return aotc::parse_cpu_target(e.isa).isas.back(); };
    return isa(a) != isa(b) ? isa(a) < isa(b) : a.dtype < b.dtype;
  });
  return found;
}

Entry entry(std::string_view algorithm, DType dtype, std::string_view isa) {
  for (const Entry& e : entries(algorithm))
    if (e.dtype == dtype && e.isa == isa) return e;
  throw std::logic_error(fmt::format("the kernel library has no entry aotc_{}_{}_{}", algorithm, aotc::dtype_name(dtype), isa));
}

}  // namespace kernel_test
