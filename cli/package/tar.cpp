#include "package/tar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/diagnostic.h"
#include "base/file.h"

namespace aotc::cli {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kSizeAt = 124, kSizeBytes = 12, kSumAt = 148;

size_t padding(size_t bytes) { return (kBlock - bytes % kBlock) % kBlock; }

std::string header(const std::string& name, uint64_t bytes) {
  std::string h(kBlock, '\0');
  const auto put = [&](size_t at, const std::string& text) { h.replace(at, text.size(), text); };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  if (bytes < (uint64_t{1} << 33)) {
    put(kSizeAt, fmt::format("{:011o}", bytes));
  } else {  // GNU's form of sizes that eleven octal digits do not hold
    h[kSizeAt] = '\x80';
    for (size_t i = 0; i < 8; ++i) h[kSizeAt + kSizeBytes - 1 - i] = static_cast<char>(bytes >> (8 * i));
  }
  put(136, "00000000000");
  put(kSumAt, "        ");
  h[156] = '0';
  put(257, std::string("ustar\00000", 8));
  unsigned sum = 0;
  for (const char c : h) sum += static_cast<unsigned char>(c);
  put(kSumAt, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return h;
}

uint64_t size_of(std::string_view header) {
  uint64_t bytes = 0;
  const std::string_view field = header.substr(kSizeAt, kSizeBytes);
  if (field[0] == '\x80') {
    for (const char c : field.substr(4)) bytes = bytes << 8 | static_cast<unsigned char>(c);
  } else {
    for (const char c : field.substr(0, kSizeBytes - 1)) bytes = bytes << 3 | (static_cast<unsigned char>(c) & 7);
  }
  return bytes;
}

}  // namespace

bool is_packed_name(std::string_view name) {
  if (name.empty() || name.size() > 99 || name[0] == '/' || name.back() == '/') return false;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") return false;
    at = end + 1;
  }
  for (const char c : name)
    if (static_cast<unsigned char>(c) < 32 || c == '\\' || c == '"' || c == 127) return false;
  return nlohmann::json::accept("\"" + std::string(name) + "\"");
}

void write_tar(const std::string& path, const std::vector<PackedFile>& files) {
  require_place_for_file(path);
  const std::string aside = fmt::format("{}.{}.tmp", path, getpid());
  std::ofstream out(aside, std::ios::binary | std::ios::trunc);
  const auto put = [&](std::string_view bytes) { out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())); };
  for (const PackedFile& f : files) {
    put(header(f.name, f.bytes.size()));
    put(f.bytes);
    put(std::string(padding(f.bytes.size()), '\0'));
  }
  put(std::string(2 * kBlock, '\0'));
  out.close();
  std::error_code ec;
  if (out) std::filesystem::rename(aside, path, ec);
  if (!out || ec) {
    std::filesystem::remove(aside, ec);
    throw Diagnostic(ExitCode::io, Loc{path, "", "", ""}, "cannot be written").note("is the folder there, writable and not full?");
  }
}

std::vector<PackedFile> read_tar(const std::string& path, std::string_view archive) {
  const auto damaged = [&](const std::string& what) {
    return Diagnostic(ExitCode::failed, Loc{path, "", "", ""}, "is no package of aotc, or is damaged: " + what);
  };
  std::vector<PackedFile> files;
  size_t at = 0;
  const auto zeros = [&](size_t n) {
    for (const char c : archive.substr(at, n))
      if (c != 0) return false;
    at += n;
    return true;
  };
  while (archive.size() - at >= kBlock && archive[at] != 0) {
    const std::string_view head = archive.substr(at, kBlock);
    PackedFile f{std::string(head.substr(0, std::min<size_t>(head.find('\0'), 100))), {}};
    const uint64_t bytes = size_of(head);
    if (!is_packed_name(f.name) || head != header(f.name, bytes))
      throw damaged(fmt::format("the header at byte {} is none that aotc writes", at));
    at += kBlock;
    if (archive.size() - at < bytes || archive.size() - at - bytes < padding(bytes))
      throw damaged(fmt::format("'{}' is cut off at byte {}", f.name, archive.size()));
    f.bytes = archive.substr(at, bytes);
    at += bytes;
    if (!zeros(padding(bytes))) throw damaged(fmt::format("what follows '{}' is not zero", f.name));
    files.push_back(std::move(f));
  }
  if (archive.size() - at != 2 * kBlock || !zeros(2 * kBlock)) throw damaged(fmt::format("it does not end as packages do, at byte {}", at));
  return files;
}

}  // namespace aotc::cli
