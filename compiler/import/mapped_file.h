#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace aotc::import {

using Bytes = std::span<const std::byte>;

/// A file mapped read-only; the mapping lives as long as the object. Throws Diagnostic (io).
class MappedFile {
 public:
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  Bytes bytes() const { return bytes_; }

 private:
  explicit MappedFile(Bytes bytes) : bytes_(bytes) {}
  Bytes bytes_;
};

}  // namespace aotc::import
