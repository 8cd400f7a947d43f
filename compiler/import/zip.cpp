#include "import/zip.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/diagnostic.h"

namespace aotc::import {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr uint64_t kMaxEntries = 1 << 20;

/// Little-endian fields of one record; every access is checked.
class Cursor {
 public:
  Cursor(Bytes bytes, const std::string& what, const char* record) : bytes_(bytes), what_(what), record_(record) {}
  template <class T>
  T get() {
    T v = 0;
    for (size_t i = 0; i < sizeof(T); ++i) v |= static_cast<T>(static_cast<T>(std::to_integer<uint8_t>(take(1)[0])) << (8 * i));
    return v;
  }
  uint16_t u16() { return get<uint16_t>(); }
  uint32_t u32() { return get<uint32_t>(); }
  uint64_t u64() { return get<uint64_t>(); }
  Bytes take(size_t n) {
    if (n > bytes_.size() - at_) throw Diagnostic(Loc{.file = what_}, fmt::format("damaged zip: {} is cut off", record_));
    at_ += n;
    return bytes_.subspan(at_ - n, n);
  }
  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

 private:
  Bytes bytes_;
  const std::string& what_;
  const char* record_;
  size_t at_ = 0;
};

std::string text(Bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

/// Empty when the name is fit for use, else why not.
std::string name_fault(std::string_view n) {
  if (n.empty()) return "an entry without a name";
  if (n.size() > 4096) return "an entry with a name of more than 4096 bytes";
  if (n[0] == '/') return fmt::format("absolute name '{}'", n);
  if (std::any_of(n.begin(), n.end(), [](char c) { return static_cast<unsigned char>(c) < 32 || c == '\\' || c == ':'; }))
    return "an entry name with control characters, '\\' or ':'";
  for (size_t i = 0; i <= n.size();) {
    const size_t j = std::min(n.find('/', i), n.size());
    const std::string_view part = n.substr(i, j - i);
    if (part == ".." || part == ".") return fmt::format("name '{}' holds '{}'", n, part);
    if (part.empty() && j != n.size()) return fmt::format("name '{}' holds an empty part", n);
    i = j + 1;
  }
  return {};
}

/// Fields of a zip64 extra field, taken in order for those 32-bit fields that are all ones.
struct Extra {
  Bytes zip64;
  bool has64 = false;
};
Extra find_extra(Bytes extra, const std::string& what) {
  Extra out;
  Cursor c(extra, what, "an extra field");
  while (c.left() >= 4) {
    const uint16_t id = c.u16();
    const uint16_t size = c.u16();
    const Bytes body = c.take(size);
    if (id != 1) continue;
    if (out.has64) throw Diagnostic(Loc{.file = what}, "damaged zip: two zip64 fields in one header");
    out = {body, true};
  }
  return out;
}

struct Header {
  uint16_t flags, method;
  uint32_t crc;
  uint64_t packed, bytes, local_offset;
  std::string name;
};

/// The central directory: everything before it belongs to entries.
struct Directory {
  uint64_t count, bytes, begin;
};

/// A range of the file that belongs to an entry, its local header included.
struct Span {
  uint64_t begin, end;
  size_t entry;
};

/// The records of a zip, each read once and checked.
class Reader {
 public:
  Reader(Bytes file, const std::string& what) : file_(file), what_(what) {}

  Diagnostic fail(std::string why) const { return Diagnostic(Loc{.file = what_}, std::move(why)); }
  Diagnostic fail_at(const Header& h, std::string why) const { return Diagnostic(Loc{.file = what_, .path = h.name}, std::move(why)); }
  Cursor at(uint64_t offset, const char* record) const {
    if (offset > file_.size()) throw fail(fmt::format("damaged zip: {} lies beyond the file's end", record));
    return Cursor(file_.subspan(offset), what_, record);
  }

  Directory find_directory() const {
    constexpr size_t kEndBytes = 22;
    if (file_.size() < kEndBytes || at(file_.size() - kEndBytes, "the end record").u32() != kEnd) {
      if (file_.size() >= 4 && at(0, "the file").u32() == kLocal)
        throw fail("damaged zip: no end record at the end of the file").note("the file is cut off, or something was appended to it");
      throw fail("not a zip file").note("a .pt2 is what torch.export.save writes");
    }
    const uint64_t end_at = file_.size() - kEndBytes;
    Cursor end = at(end_at + 4, "the end record");
    const uint16_t disk = end.u16(), central_disk = end.u16(), here = end.u16(), total = end.u16();
    const uint32_t bytes = end.u32(), begin = end.u32();
    if (end.u16() != 0) throw fail("a zip with a comment is refused");
    if (disk != 0 || central_disk != 0 || here != total) throw fail("a zip of several parts is refused");

    Directory d{total, bytes, begin};
    uint64_t tail_at = end_at;
    if (end_at >= 20 && at(end_at - 20, "the zip64 locator").u32() == kLocator64) {
      const Directory wide = find_directory64(end_at, &tail_at);
      if ((total != 0xffff && total != wide.count) || (bytes != ~0u && bytes != wide.bytes) || (begin != ~0u && begin != wide.begin))
        throw fail("damaged zip: the zip64 end record disagrees with the end record");
      d = wide;
    }
    if (d.count > kMaxEntries) throw fail(fmt::format("zip with {} entries; at most {} are read", d.count, kMaxEntries));
    if (d.begin > tail_at || d.bytes != tail_at - d.begin)
      throw fail("damaged zip: the central directory does not end where the end record begins");
    return d;
  }

  Cursor records(const Directory& d) const { return Cursor(file_.subspan(d.begin, d.bytes), what_, "the central directory"); }

  /// The next record of the central directory, number i.
  Header central(Cursor& dir, uint64_t i) const {
    if (dir.u32() != kCentral) throw fail(fmt::format("damaged zip: bad central directory entry {}", i));
    dir.take(4);
    Header h{};
    h.flags = dir.u16();
    h.method = dir.u16();
    dir.take(4);
    h.crc = dir.u32();
    const uint32_t packed32 = dir.u32(), bytes32 = dir.u32();
    const uint16_t name_n = dir.u16(), extra_n = dir.u16(), comment_n = dir.u16(), entry_disk = dir.u16();
    dir.take(6);
    const uint32_t local32 = dir.u32();
    h.name = text(dir.take(name_n));
    const Extra extra = find_extra(dir.take(extra_n), what_);
    dir.take(comment_n);
    if (std::string why = name_fault(h.name); !why.empty()) throw fail("zip refused: " + why);
    Cursor x(extra.zip64, what_, "a zip64 field");
    h.bytes = bytes32 == ~0u && extra.has64 ? x.u64() : bytes32;
    h.packed = packed32 == ~0u && extra.has64 ? x.u64() : packed32;
    h.local_offset = local32 == ~0u && extra.has64 ? x.u64() : local32;
    if (entry_disk != 0) throw fail_at(h, "a zip of several parts is refused");
    if (h.flags & 0x2041) throw fail_at(h, "encrypted zip entries are refused");
    if (h.method != 0)
      throw fail_at(h, "compressed zip entries are not supported")
          .note("torch.export.save stores entries uncompressed; torch.jit.save, whose archives are not read, does not");
    if (h.packed != h.bytes) throw fail_at(h, "damaged zip: a stored entry whose sizes differ");
    return h;
  }

  /// The entry of a header. Its local header must say the same; sizes and CRC may follow the content instead (flag 8).
  ZipEntry entry(const Header& h, const Directory& d) const {
    Cursor l = at(h.local_offset, "a local header");
    if (h.local_offset >= d.begin || l.u32() != kLocal) throw fail_at(h, "damaged zip: no local header where the central directory says");
    l.take(2);
    const uint16_t flags = l.u16(), method = l.u16();
    l.take(4);
    const uint32_t crc = l.u32(), packed32 = l.u32(), bytes32 = l.u32();
    const uint16_t name_n = l.u16(), extra_n = l.u16();
    const std::string name = text(l.take(name_n));
    const Extra extra = find_extra(l.take(extra_n), what_);
    Cursor x(extra.zip64, what_, "a zip64 field");
    const uint64_t bytes = bytes32 == ~0u && extra.has64 ? x.u64() : bytes32;
    const uint64_t packed = packed32 == ~0u && extra.has64 ? x.u64() : packed32;
    if (name != h.name || flags != h.flags || method != h.method)
      throw fail_at(h, "damaged zip: local header and central directory disagree");
    const bool late = (flags & 8) != 0;
    auto agrees = [late](uint64_t local, uint64_t central) { return local == central || (late && local == 0); };
    if (!agrees(crc, h.crc) || !agrees(bytes, h.bytes) || !agrees(packed, h.packed))
      throw fail_at(h, "damaged zip: local header and central directory disagree about size or CRC");
    ZipEntry e{h.name, h.local_offset + l.at(), h.bytes, h.crc};
    if (e.offset > d.begin || e.bytes > d.begin - e.offset) throw fail_at(h, "damaged zip: the entry reaches beyond the file's entries");
    return e;
  }

  /// Entries cover the file from its first byte; between two there may only be a data descriptor (16 or 24 bytes).
  void check_covered(std::vector<Span> spans, const std::vector<ZipEntry>& entries, const Directory& d) const {
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    uint64_t covered = 0;
    for (size_t i = 0; i <= spans.size(); ++i) {
      const uint64_t begin = i < spans.size() ? spans[i].begin : d.begin;
      if (begin < covered)
        throw Diagnostic(Loc{.file = what_, .path = i < spans.size() ? entries[spans[i].entry].name : ""}, "zip entries overlap");
      if (begin - covered > (i == 0 ? 0 : 24))
        throw fail(i == 0 ? "bytes before the first zip entry are refused" : "bytes between zip entries are refused");
      if (i < spans.size()) covered = spans[i].end;
    }
  }

 private:
  /// What the locator before the end record at `end_at` points at; it begins at *tail_at.
  Directory find_directory64(uint64_t end_at, uint64_t* tail_at) const {
    Cursor locator = at(end_at - 16, "the zip64 locator");
    const uint32_t disk = locator.u32();
    *tail_at = locator.u64();
    if (disk != 0 || locator.u32() != 1) throw fail("a zip of several parts is refused");
    if (*tail_at > end_at - 20 || end_at - 20 - *tail_at != 56)
      throw fail("damaged zip: the zip64 end record is not where the locator says");
    Cursor e = at(*tail_at, "the zip64 end record");
    if (e.u32() != kEnd64 || e.u64() != 44) throw fail("damaged zip: bad zip64 end record");
    e.take(4);
    const uint32_t d0 = e.u32(), d1 = e.u32();
    const uint64_t here = e.u64(), total = e.u64(), bytes = e.u64(), begin = e.u64();
    if (d0 != 0 || d1 != 0 || here != total) throw fail("a zip of several parts is refused");
    return {total, bytes, begin};
  }

  Bytes file_;
  const std::string& what_;
};

}  // namespace

uint32_t crc32(Bytes bytes) {
  static constexpr auto kTables = [] {
    std::array<std::array<uint32_t, 256>, 8> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = (c & 1) ? 0xedb88320u ^ (c >> 1) : c >> 1;
      t[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; ++i)
      for (size_t k = 1; k < 8; ++k) t[k][i] = t[0][t[k - 1][i] & 255] ^ (t[k - 1][i] >> 8);
    return t;
  }();
  uint32_t c = ~0u;
  const auto* p = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t n = bytes.size();
  for (; n >= 8; n -= 8, p += 8) {
    uint32_t lo, hi;
    std::memcpy(&lo, p, 4);
    std::memcpy(&hi, p + 4, 4);
    lo ^= c;
    c = kTables[7][lo & 255] ^ kTables[6][(lo >> 8) & 255] ^ kTables[5][(lo >> 16) & 255] ^ kTables[4][lo >> 24] ^ kTables[3][hi & 255] ^
        kTables[2][(hi >> 8) & 255] ^ kTables[1][(hi >> 16) & 255] ^ kTables[0][hi >> 24];
  }
  for (; n; --n, ++p) c = kTables[0][(c ^ *p) & 255] ^ (c >> 8);
  return ~c;
}

Zip::Zip(Bytes file, std::string what) : file_(file), what_(std::move(what)) {
  const Reader reader(file_, what_);
  const Directory d = reader.find_directory();
  Cursor records = reader.records(d);
  std::vector<Span> spans;
  for (uint64_t i = 0; i < d.count; ++i) {
    const Header h = reader.central(records, i);
    ZipEntry e = reader.entry(h, d);
    if (!by_name_.emplace(e.name, entries_.size()).second) throw reader.fail_at(h, "two zip entries of the same name");
    spans.push_back({h.local_offset, e.offset + e.bytes, entries_.size()});
    entries_.push_back(std::move(e));
  }
  if (records.left() != 0) throw reader.fail("damaged zip: the central directory holds more than its entries");
  reader.check_covered(std::move(spans), entries_, d);
}

const ZipEntry* Zip::find(std::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &entries_[it->second];
}

Bytes Zip::read(const ZipEntry& e, bool check_crc) const {
  const Bytes b = file_.subspan(e.offset, e.bytes);
  if (check_crc && crc32(b) != e.crc) throw Diagnostic(Loc{.file = what_, .path = e.name}, "damaged zip: CRC mismatch");
  return b;
}

}  // namespace aotc::import
