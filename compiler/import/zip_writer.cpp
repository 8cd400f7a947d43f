#include "import/zip_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/diagnostic.h"
#include "base/file.h"
#include "import/zip.h"

namespace aotc::import {
namespace {

constexpr uint64_t kMost32 = 0xffffffffu;

/// Little-endian fields.
class Fields {
 public:
  Fields& u16(uint64_t v) { return number(v, 2); }
  Fields& u32(uint64_t v) { return number(v, 4); }
  Fields& u64(uint64_t v) { return number(v, 8); }
  Fields& text(std::string_view s) {
    bytes += s;
    return *this;
  }
  std::string bytes;

 private:
  Fields& number(uint64_t v, int n) {
    for (int i = 0; i < n; ++i) bytes.push_back(static_cast<char>(v >> (8 * i) & 255));
    return *this;
  }
};

constexpr uint64_t kVersion = 45, kDate = 0x21;  // zip64; the first of January 1980

uint64_t limited(uint64_t v) { return std::min(v, kMost32); }

/// What a local header and the directory's have of an entry in common: the lengths of its name and of its zip64 field come last.
std::string of_entry(uint32_t crc, uint64_t bytes, size_t name, size_t large) {
  return Fields().u16(kVersion).u16(0).u16(0).u16(0).u16(kDate).u32(crc).u32(limited(bytes)).u32(limited(bytes)).u16(name).u16(large).bytes;
}

/// The zip64 field of what does not fit into 32 bits.
std::string extra(std::initializer_list<uint64_t> values) {
  Fields large;
  for (const uint64_t v : values)
    if (v >= kMost32) large.u64(v);
  if (large.bytes.empty()) return {};
  return Fields().u16(1).u16(large.bytes.size()).text(large.bytes).bytes;
}

}  // namespace

ZipWriter::ZipWriter(const std::string& path) : path_(path), aside_(fmt::format("{}.{}.tmp", path, getpid())) {
  require_place_for_file(path);
  file_ = std::fopen(aside_.c_str(), "wbe");
  if (!file_) fail("cannot be written");
}

ZipWriter::~ZipWriter() {
  if (!file_) return;
  std::fclose(file_);
  std::remove(aside_.c_str());
}

void ZipWriter::fail(const char* what) const {
  throw Diagnostic(ExitCode::io, Loc{.file = path_}, fmt::format("{}: {}", what, std::strerror(errno)));
}

void ZipWriter::put(const void* data, size_t bytes) {
  if (bytes > 0 && std::fwrite(data, 1, bytes, file_) != bytes) fail("cannot be written");
  at_ += bytes;
}

void ZipWriter::add(const std::string& name, std::string_view text) {
  add(name, Bytes(reinterpret_cast<const std::byte*>(text.data()), text.size()));
}

void ZipWriter::add(const std::string& name, Bytes content) {
  const Entry e{name, content.size(), at_, crc32(content)};
  // Of a local header both sizes stand in the zip64 field, or none.
  const std::string large = e.bytes >= kMost32 ? extra({e.bytes, e.bytes}) : "";
  const std::string head = Fields().u32(0x04034b50).text(of_entry(e.crc, e.bytes, name.size(), large.size())).text(name).text(large).bytes;
  put(head.data(), head.size());
  put(content.data(), content.size());
  entries_.push_back(e);
}

void ZipWriter::finish() {
  const uint64_t directory = at_;
  for (const Entry& e : entries_) {
    const std::string large = extra({e.bytes, e.bytes, e.offset});
    const std::string common = of_entry(e.crc, e.bytes, e.name.size(), large.size());
    Fields head;  // who made it; the entry; no comment, disk or attributes
    head.u32(0x02014b50).u16(kVersion).text(common).u16(0).u16(0).u16(0).u32(0).u32(limited(e.offset)).text(e.name).text(large);
    put(head.bytes.data(), head.bytes.size());
  }
  const uint64_t bytes = at_ - directory, n = entries_.size(), end = at_;
  Fields tail;
  if (directory >= kMost32 || bytes >= kMost32 || n >= 0xffff) {
    tail.u32(0x06064b50).u64(44).u16(kVersion).u16(kVersion).u32(0).u32(0).u64(n).u64(n).u64(bytes).u64(directory);
    tail.u32(0x07064b50).u32(0).u64(end).u32(1);
  }
  const uint64_t n16 = std::min<uint64_t>(n, 0xffff);
  tail.u32(0x06054b50).u16(0).u16(0).u16(n16).u16(n16).u32(limited(bytes)).u32(limited(directory)).u16(0);
  put(tail.bytes.data(), tail.bytes.size());
  const bool whole = std::fflush(file_) == 0;
  std::fclose(file_);
  file_ = nullptr;
  if (!whole || std::rename(aside_.c_str(), path_.c_str()) != 0) {
    std::remove(aside_.c_str());
    fail("cannot be written");
  }
}

}  // namespace aotc::import
