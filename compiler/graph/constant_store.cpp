#include "graph/constant_store.h"

#include <filesystem>
#include <fstream>

#include "aotc/detail/blob_hash.h"

namespace aotc {

namespace fs = std::filesystem;

static std::string key_of(const std::byte* data, size_t bytes) { return fmt::format("{:016x}", aotc_blob_hash(data, bytes)); }

std::string ConstantStore::put(const ConstData& c) {
  const auto [it, fresh] = known_.try_emplace({c.data, c.bytes});
  if (!fresh) return it->second.key;
  it->second = {key_of(c.data, c.bytes), c.keepalive};
  if (folder_.empty()) return it->second.key;
  const fs::path path = fs::path(folder_) / it->second.key;
  std::error_code ec;
  if (fs::file_size(path, ec) == c.bytes && !ec) return it->second.key;
  fs::create_directories(folder_, ec);
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(c.data), static_cast<std::streamsize>(c.bytes));
  out.close();
  if (!out) throw Diagnostic(ExitCode::io, Loc{path.string(), "", "", ""}, "cannot be written");
  return it->second.key;
}

bool ConstantStore::get(const std::string& key, ConstData& c) const {
  const fs::path path = fs::path(folder_) / key;
  std::error_code ec;
  const uintmax_t size = folder_.empty() ? 0 : fs::file_size(path, ec);
  if (folder_.empty() || ec) return false;
  const auto fault = [&](const std::string& why) { return Diagnostic(Loc{path.string(), "", "", ""}, why); };
  if (size != c.bytes) throw fault(fmt::format("holds {} bytes, the constant '{}' has {}", size, c.name, c.bytes));
  auto bytes = std::make_shared<std::vector<std::byte>>(c.bytes);
  std::ifstream in(path, std::ios::binary);
  if (!in.read(reinterpret_cast<char*>(bytes->data()), static_cast<std::streamsize>(c.bytes)) || key_of(bytes->data(), c.bytes) != key)
    throw fault("is not what its name says").note("dump again");
  c.data = bytes->data();
  c.keepalive = std::move(bytes);
  return true;
}

}  // namespace aotc
