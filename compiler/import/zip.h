#pragma once
// A strict reader of the zip files that PyTorch writes: stored entries only, so that every record is a range of the mapped file.
// Whatever two zip readers could read differently is refused.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "import/mapped_file.h"

namespace aotc::import {

struct ZipEntry {
  std::string name;
  uint64_t offset = 0;  ///< of the content in the zip
  uint64_t bytes = 0;
  uint32_t crc = 0;
};

class Zip {
 public:
  /// `what` names the zip in messages ("model.pt2", "model.pt2: data/weights/model.pt"). Throws Diagnostic for anything but a plain zip:
  /// bytes before or after it, local headers that differ from the central directory, overlapping or duplicate entries, sizes beyond the
  /// file, compressed or encrypted entries, names that are absolute or hold "..".
  Zip(Bytes file, std::string what);
  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;
  /// The content; its CRC is checked at each call unless `check_crc` is false.
  Bytes read(const ZipEntry& e, bool check_crc = true) const;
  const std::string& what() const { return what_; }

 private:
  Bytes file_;
  std::string what_;
  std::vector<ZipEntry> entries_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

uint32_t crc32(Bytes bytes);

}  // namespace aotc::import
