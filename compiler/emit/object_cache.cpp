#include "emit/object_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "aotc/detail/blob_hash.h"
#include "emit/cache_server.h"

namespace aotc::emit {
namespace {

namespace fs = std::filesystem;

/// Behind the object's bytes.
struct Trailer {
  char magic[8];
  Digest key;
  uint64_t bytes, hash;
};
constexpr char kMagic[8] = {'A', 'O', 'T', 'C', 'O', 'B', 'J', '2'};

std::optional<std::string> read(const std::string& path) {
  std::error_code ec;
  if (!fs::is_regular_file(path, ec)) return std::nullopt;
  const uintmax_t size = fs::file_size(path, ec);
  if (ec) return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  std::string bytes(size, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(size));
  if (in.bad() || !in.is_open()) return std::nullopt;
  bytes.resize(static_cast<size_t>(in.gcount()));  // another build may have put a shorter one there
  return bytes;
}

}  // namespace

CacheKey& CacheKey::add(std::string_view part) {
  const uint64_t bytes = part.size();
  char length[sizeof bytes];
  std::memcpy(length, &bytes, sizeof bytes);
  hash_.add({length, sizeof length});
  hash_.add(part);
  return *this;
}

Digest CacheKey::digest() const { return Sha256(hash_).finish(); }

ObjectCache::ObjectCache(const CacheOptions& o)
    : folder_(o.folder.empty() ? std::string() : (fs::path(o.folder) / "objects").string()),
      limit_bytes_(o.limit_bytes),
      read_only_(o.read_only),
      server_(o.server) {}

ObjectCache::~ObjectCache() {
  if (grew_ && limit_bytes_ > 0) trim();
}

/// To nine tenths of the limit, so that not every build trims. Files that a build which was killed left behind go after a day.
void ObjectCache::trim() const {
  struct Entry {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code ec;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator it(folder_, ec), end; !ec && it != end; it.increment(ec)) {
    std::error_code gone;  // another build may trim, too
    Entry e{it->last_write_time(gone), 0, it->path()};
    if (!gone) e.bytes = it->file_size(gone);
    if (gone) continue;
    if (e.path.filename().string().rfind("new-", 0) == 0) {
      if (now - e.used > std::chrono::hours(24)) fs::remove(e.path, gone);
      continue;
    }
    if (e.path.extension() != ".o") continue;
    total += e.bytes;
    entries.push_back(std::move(e));
  }
  if (total <= limit_bytes_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& e : entries) {
    if (total <= limit_bytes_ - limit_bytes_ / 10) return;
    std::error_code gone;
    fs::remove(e.path, gone);
    total -= e.bytes;
  }
}

std::string ObjectCache::entry(const Digest& key) const { return (fs::path(folder_) / (hex(key) + ".o")).string(); }

int ObjectCache::readers() const { return server_ ? CacheServer::kReaders : 1; }

std::optional<std::string> ObjectCache::from_folder(const Digest& key) const {
  if (folder_.empty()) return std::nullopt;
  std::optional<std::string> bytes = read(entry(key));
  Trailer t;
  if (!bytes || bytes->size() < sizeof t) return std::nullopt;
  const size_t size = bytes->size() - sizeof t;
  std::memcpy(&t, bytes->data() + size, sizeof t);
  if (std::memcmp(t.magic, kMagic, sizeof kMagic) != 0 || t.key != key || t.bytes != size || t.hash != aotc_blob_hash(bytes->data(), size))
    return std::nullopt;
  bytes->resize(size);
  std::error_code ec;
  if (!read_only_) fs::last_write_time(entry(key), fs::file_time_type::clock::now(), ec);
  return bytes;
}

std::optional<std::string> ObjectCache::take(const Digest& key) const {
  std::optional<std::string> bytes = from_folder(key);
  if (bytes || !server_) return bytes;
  bytes = server_->take(key);
  if (bytes) to_folder(key, *bytes);
  return bytes;
}

bool ObjectCache::take(const Digest& key, const std::string& path) const {
  const std::optional<std::string> bytes = take(key);
  if (!bytes) return false;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes->data(), static_cast<std::streamsize>(bytes->size()));
  return static_cast<bool>(out.flush());
}

void ObjectCache::put_file(const Digest& key, const std::string& path) const {
  const bool wanted = server_ || (!folder_.empty() && !read_only_);
  if (std::optional<std::string> bytes = wanted ? read(path) : std::nullopt) put(key, std::move(*bytes));
}

void ObjectCache::put(const Digest& key, std::string bytes) const {
  if (server_) server_->put(key, bytes);
  to_folder(key, std::move(bytes));
}

void ObjectCache::to_folder(const Digest& key, std::string bytes) const {
  if (folder_.empty() || read_only_) return;
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
  grew_ = true;
}

}  // namespace aotc::emit
