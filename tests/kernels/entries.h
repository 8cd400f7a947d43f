#pragma once
// The entries that the kernel library really has, of all instruction sets: a table made of its archive (list_entries.cmake).
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "aotc/detail/library_abi.h"
#include "base/dtype.h"

namespace kernel_test {

struct NamedEntry {
  const char* name;  ///< "aotc_gemm_f32_avx2"
  aotc_kernel_fn fn;
};
extern const NamedEntry kLibrary[];
extern const size_t kLibrarySize;

struct Entry {
  const char* isa;
  aotc::DType dtype;
  aotc_kernel_fn fn;
};
/// "f32": as entries are named.
std::optional<aotc::DType> symbol_type(std::string_view text);
/// Those of one algorithm, "gemm" or "conv_last_tiles": one an element type and instruction set. There is at least one.
std::vector<Entry> entries(std::string_view algorithm);
/// The one of an algorithm, element type and instruction set.
Entry entry(std::string_view algorithm, aotc::DType dtype, std::string_view isa);

}  // namespace kernel_test
