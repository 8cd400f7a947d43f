#include "emit/system_needs.h"

#include <elf.h>

#include <cstring>
#include <fstream>

namespace aotc::emit {
namespace {

constexpr uint64_t kMostBytes = 64 << 20;  ///< of one table; a damaged size is not believed

/// A file of which only the tables are read: the weights in it may be large.
class Reader {
 public:
  explicit Reader(const std::string& path) : in_(path, std::ios::binary | std::ios::ate) {
    if (in_) size_ = static_cast<uint64_t>(in_.tellg());
  }
  std::optional<std::string> bytes(uint64_t at, uint64_t n) {
    if (n > kMostBytes || at > size_ || n > size_ - at) return std::nullopt;
    std::string s(n, '\0');
    in_.seekg(static_cast<std::streamoff>(at));
    if (n && !in_.read(s.data(), static_cast<std::streamsize>(n))) return std::nullopt;
    return s;
  }
  template <class T>
  std::optional<std::vector<T>> array(uint64_t at, uint64_t bytes_in_all) {
    const auto s = bytes(at, bytes_in_all);
    if (!s) return std::nullopt;
    std::vector<T> v(s->size() / sizeof(T));
    if (!v.empty()) std::memcpy(v.data(), s->data(), v.size() * sizeof(T));
    return v;
  }

 private:
  std::ifstream in_;
  uint64_t size_ = 0;
};

template <class T>
std::optional<T> at(const std::string& bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T v;
  std::memcpy(&v, bytes.data() + offset, sizeof v);
  return v;
}

std::string name_at(const std::string& strings, uint64_t offset) { return offset < strings.size() ? strings.c_str() + offset : ""; }

/// "2.3.4" before "2.14": number by number.
bool older(const std::string& a, const std::string& b) { return strverscmp(a.c_str(), b.c_str()) < 0; }

void read_versions(const std::string& table, const std::string& strings, SystemNeeds& out) {
  constexpr std::string_view kPrefix = "GLIBC_";
  size_t left = table.size() / sizeof(Elf64_Vernaux);  // more entries would overlap: a damaged table ends
  uint64_t next = 0;
  for (auto need = at<Elf64_Verneed>(table, next); need && left > 0; need = at<Elf64_Verneed>(table, next)) {
    uint64_t entry = next + need->vn_aux;
    for (auto aux = at<Elf64_Vernaux>(table, entry); aux && left > 0; aux = at<Elf64_Vernaux>(table, entry), --left) {
      const std::string version = name_at(strings, aux->vna_name);
      if (version.rfind(kPrefix, 0) == 0 && older(out.glibc, version.substr(kPrefix.size()))) out.glibc = version.substr(kPrefix.size());
      if (!aux->vna_next) break;
      entry += aux->vna_next;
    }
    if (!need->vn_next) break;
    next += need->vn_next;
    left -= left > 0;
  }
}

}  // namespace

std::optional<SystemNeeds> system_needs(const std::string& path) {
  Reader file(path);
  const auto headers = file.array<Elf64_Ehdr>(0, sizeof(Elf64_Ehdr));
  if (!headers) return std::nullopt;
  const Elf64_Ehdr& h = headers->front();
  if (std::memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_shentsize != sizeof(Elf64_Shdr))
    return std::nullopt;
  const auto sections = file.array<Elf64_Shdr>(h.e_shoff, uint64_t{h.e_shnum} * sizeof(Elf64_Shdr));
  if (!sections) return std::nullopt;
  SystemNeeds out;
  bool dynamic = false;
  for (const Elf64_Shdr& s : *sections) {
    if ((s.sh_type != SHT_DYNAMIC && s.sh_type != SHT_GNU_verneed) || s.sh_link >= sections->size()) continue;
    const Elf64_Shdr& link = (*sections)[s.sh_link];
    const auto strings = file.bytes(link.sh_offset, link.sh_size);
    if (!strings) return std::nullopt;
    if (s.sh_type == SHT_DYNAMIC) {
      const auto entries = file.array<Elf64_Dyn>(s.sh_offset, s.sh_size);
      if (!entries) return std::nullopt;
      dynamic = true;
      for (const Elf64_Dyn& d : *entries)
        if (d.d_tag == DT_NEEDED) out.libraries.push_back(name_at(*strings, d.d_un.d_val));
    } else {
      const auto table = file.bytes(s.sh_offset, s.sh_size);
      if (!table) return std::nullopt;
      read_versions(*table, *strings, out);
    }
  }
  if (!dynamic) return std::nullopt;
  return out;
}

}  // namespace aotc::emit
