#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace aotc {

/// Where this process has files mapped read-only and private (as import::MappedFile has archives). What was read there may be forgotten:
/// the next read takes it from the file again. Thread-safe once made.
class FilePages {
 public:
  /// As /proc/self/maps has it now; nothing where it cannot be read.
  static FilePages of_process();
  /// Gives back the memory of the whole pages within [data, data + bytes), where that lies in such a mapping; else does nothing.
  void forget(const void* data, size_t bytes) const;

 private:
  struct Range {
    uintptr_t begin, end;
  };
  std::vector<Range> ranges_;  ///< rising
};

}  // namespace aotc
