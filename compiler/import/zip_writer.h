#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "import/mapped_file.h"

namespace aotc::import {

/// Writes a zip of stored entries, with the fields of zip64 where sizes ask for them: into a file beside `path`, which finish renames.
/// Throws Diagnostic (io); what is not finished is removed.
class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path);
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;
  void add(const std::string& name, Bytes content);
  void add(const std::string& name, std::string_view text);
  void finish();

 private:
  struct Entry {
    std::string name;
    uint64_t bytes, offset;
    uint32_t crc;
  };
  void put(const void* data, size_t bytes);
  [[noreturn]] void fail(const char* what) const;
  std::string path_, aside_;
  std::FILE* file_ = nullptr;
  uint64_t at_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace aotc::import
