#include "emit/object_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "aotc/detail/blob_hash.h"

namespace aotc::emit {
namespace {

namespace fs = std::filesystem;

/// Behind the object's bytes.
struct Trailer {
  char magic[8];
  uint64_t key, bytes, hash;
};
constexpr char kMagic[8] = {'A', 'O', 'T', 'C', 'O', 'B', 'J', '1'};

std::optional<std::string> read(const std::string& path) {
  std::error_code ec;
  if (!fs::is_regular_file(path, ec)) return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in.good() && !in.eof()) return std::nullopt;
  return bytes;
}

}  // namespace

std::string ObjectCache::entry(uint64_t key) const { return (fs::path(folder_) / fmt::format("{:016x}.o", key)).string(); }

std::optional<std::string> ObjectCache::take(uint64_t key) const {
  if (folder_.empty()) return std::nullopt;
  std::optional<std::string> bytes = read(entry(key));
  Trailer t;
  if (!bytes || bytes->size() < sizeof t) return std::nullopt;
  const size_t size = bytes->size() - sizeof t;
  std::memcpy(&t, bytes->data() + size, sizeof t);
  if (std::memcmp(t.magic, kMagic, sizeof kMagic) != 0 || t.key != key || t.bytes != size || t.hash != aotc_blob_hash(bytes->data(), size))
    return std::nullopt;
  bytes->resize(size);
  return bytes;
}

bool ObjectCache::take(uint64_t key, const std::string& path) const {
  const std::optional<std::string> bytes = take(key);
  if (!bytes) return false;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes->data(), static_cast<std::streamsize>(bytes->size()));
  return static_cast<bool>(out.flush());
}

void ObjectCache::put_file(uint64_t key, const std::string& path) const {
  std::optional<std::string> bytes = folder_.empty() ? std::nullopt : read(path);
  if (bytes) put(key, std::move(*bytes));
}

void ObjectCache::put(uint64_t key, std::string bytes) const {
  if (folder_.empty()) return;
  Trailer t{{}, key, bytes.size(), aotc_blob_hash(bytes.data(), bytes.size())};
  std::memcpy(t.magic, kMagic, sizeof kMagic);
  bytes.append(reinterpret_cast<const char*>(&t), sizeof t);
  std::error_code ec;
  fs::create_directories(folder_, ec);
  std::string aside = (fs::path(folder_) / "new-XXXXXX").string();  // a name of its own: builds may run at the same time
  const int fd = mkostemp(aside.data(), O_CLOEXEC);
  if (fd < 0) return;
  bool whole = true;
  for (size_t done = 0; whole && done < bytes.size();) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    whole = n > 0;
    done += whole ? static_cast<size_t>(n) : 0;
  }
  whole = close(fd) == 0 && whole;
  if (whole) fs::rename(aside, entry(key), ec);
  if (!whole || ec) fs::remove(aside, ec);
}

}  // namespace aotc::emit
