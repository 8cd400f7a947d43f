// The archive reader against hostile bytes: whatever the file, read_archive returns or throws Diagnostic.
// With clang: -fsanitize=fuzzer gives main. Without: archive_fuzz SEED.pt2 COUNT [FIRST] changes the seed archive at random COUNT times,
// its zip bytes and, inside a well-formed zip, its records; a failure prints the number with which it is repeated.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "import/read_archive.h"
#include "import/zip.h"

namespace {

/// False when the reader failed in another way than by a Diagnostic.
bool survives(const std::string& archive) {
  const int fd = ::memfd_create("archive", 0);
  if (::write(fd, archive.data(), archive.size()) != static_cast<ssize_t>(archive.size())) std::abort();
  bool fine = true;
  try {
    const aotc::import::Program p = aotc::import::read_archive("/proc/self/fd/" + std::to_string(fd));
    fine = !aotc::import::dump(p).empty();
  } catch (const aotc::Diagnostic&) {
  } catch (const std::exception& e) {
    std::fprintf(stderr, "not a Diagnostic: %s\n", e.what());
    fine = false;
  }
  ::close(fd);
  return fine;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!survives({reinterpret_cast<const char*>(data), size})) std::abort();
  return 0;
}

#ifndef AOTC_LIBFUZZER
namespace {

struct Record {
  std::string name, content;
};

void put(std::string& s, uint64_t v, int n) {
  for (int i = 0; i < n; ++i) s += static_cast<char>(v >> (8 * i));
}

std::string make_zip(const std::vector<Record>& records) {
  std::string out, central;
  for (const Record& r : records) {
    std::string header;
    put(header, 20, 2);
    put(header, 0, 8);
    put(header, aotc::import::crc32({reinterpret_cast<const std::byte*>(r.content.data()), r.content.size()}), 4);
    put(header, r.content.size(), 4);
    put(header, r.content.size(), 4);
    put(header, r.name.size(), 2);
    put(header, 0, 2);
    put(central, 0x02014b50, 4);
    put(central, 20, 2);
    central += header;
    put(central, 0, 10);
    put(central, out.size(), 4);
    central += r.name;
    put(out, 0x04034b50, 4);
    out += header + r.name + r.content;
  }
  const uint64_t at = out.size();
  out += central;
  put(out, 0x06054b50, 4);
  put(out, 0, 4);
  put(out, records.size(), 2);
  put(out, records.size(), 2);
  put(out, central.size(), 4);
  put(out, at, 4);
  put(out, 0, 2);
  return out;
}

using Random = std::mt19937_64;

void mutate_bytes(std::string& s, Random& random) {
  if (s.empty()) return;
  for (uint64_t n = 1 + random() % 4; n > 0; --n) {
    const size_t at = random() % s.size();
    switch (random() % 5) {
      case 0: s[at] = static_cast<char>(random()); break;
      case 1: s[at] = static_cast<char>(s[at] ^ (1 << (random() % 8))); break;
      case 2: s.erase(at, 1 + random() % 16); break;
      case 3: s.insert(at, s.substr(random() % s.size(), random() % 64)); break;
      default: s.resize(at); break;
    }
    if (s.empty()) return;
  }
}

/// Changes that leave JSON well-formed: a number, a text, or a whole value swapped with another's.
void mutate_json(std::string& s, Random& random) {
  const auto token = [&](size_t from) -> std::pair<size_t, size_t> {
    const size_t a = s.find_first_of("\"0123456789", from);
    if (a == std::string::npos) return {0, 0};
    if (s[a] == '"') {
      const size_t b = s.find('"', a + 1);
      return b == std::string::npos ? std::pair<size_t, size_t>{0, 0} : std::pair{a, b + 1 - a};
    }
    const size_t b = s.find_first_not_of("0123456789.e", a);
    return {a, (b == std::string::npos ? s.size() : b) - a};
  };
  for (uint64_t n = 1 + random() % 3; n > 0; --n) {
    const auto [at, length] = token(random() % s.size());
    if (length == 0) continue;
    static const std::string kNumbers[] = {
        "0", "-1", "1", "9223372036854775807", "-9223372036854775808", "4611686018427387904", "1.5", "null", "[]", "{}", "\"\"", "true"};
    std::string other = kNumbers[random() % std::size(kNumbers)];
    if (random() % 2) {
      const auto [from, size] = token(random() % s.size());
      if (size > 0) other = s.substr(from, size);
    }
    s.replace(at, length, other);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::ifstream f(argv[1], std::ios::binary);
  const std::string seed((std::istreambuf_iterator<char>(f)), {});
  std::vector<Record> records;
  const aotc::import::Zip zip({reinterpret_cast<const std::byte*>(seed.data()), seed.size()}, argv[1]);
  for (const auto& e : zip.entries()) {
    const auto b = zip.read(e);
    records.push_back({e.name, {reinterpret_cast<const char*>(b.data()), b.size()}});
  }
  const uint64_t first = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0, count = std::strtoull(argv[2], nullptr, 10);
  for (uint64_t i = first; i < first + count; ++i) {
    Random random(i);
    std::string archive = seed;
    if (i % 8 == 0) {
      mutate_bytes(archive, random);
    } else {
      std::vector<Record> changed = records;
      Record& r = changed[random() % 2 ? random() % changed.size() : std::min<size_t>(i % changed.size(), changed.size() - 1)];
      if (r.name.find(".json") != std::string::npos && random() % 4)
        mutate_json(r.content, random);
      else
        mutate_bytes(r.content, random);
      archive = make_zip(changed);
    }
    if (!survives(archive)) {
      std::fprintf(stderr, "failed: %s %s 1 %llu\n", argv[0], argv[1], static_cast<unsigned long long>(i));
      return 1;
    }
  }
  std::printf("%llu archives read or refused\n", static_cast<unsigned long long>(count));
  return 0;
}
#endif
