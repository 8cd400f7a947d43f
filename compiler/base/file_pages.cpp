#include "base/file_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

namespace aotc {

FilePages FilePages::of_process() {
  FilePages pages;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0, inode = 0;
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %*s %*s %lu", &begin, &end, access, &inode) != 4) continue;
    if (std::string(access) == "r--p" && inode) pages.ranges_.push_back({begin, end});
  }
  return pages;
}

void FilePages::forget(const void* data, size_t bytes) const {
  const auto first = reinterpret_cast<uintptr_t>(data), last = first + bytes;
  const auto range = std::partition_point(ranges_.begin(), ranges_.end(), [&](const Range& r) { return r.end <= first; });
  if (range == ranges_.end() || first < range->begin || last > range->end) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t from = (first + page - 1) / page * page, to = last / page * page;
  if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
}

}  // namespace aotc
