#pragma once
// Files that are part of aotc itself: the runtime archive, the kernel library, the headers that generated code includes.
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace aotc::emit {

struct EmbeddedFile {
  std::string_view name;  ///< "lib/libaotc_runtime.a", "include/vec/vec.h", "cuda/gemm.cuh"
  std::span<const std::byte> bytes;
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};
const std::vector<EmbeddedFile>& embedded_files();
/// AOTC_CHECKs that there is one.
const EmbeddedFile& embedded(std::string_view name);

}  // namespace aotc::emit
