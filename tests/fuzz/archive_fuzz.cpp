// Hostile archives: whatever the file, everything up to the text that a compiler would be given ends well or throws a Diagnostic that is no
// internal error.
// With clang: -fsanitize=fuzzer gives main. Without: archive_fuzz SEED.pt2 COUNT [FIRST] changes the seed archive at random COUNT times:
// its zip bytes, the records inside a well-formed zip, and, with JSON and zip left well-formed, what the model says (dims, dtypes, symbols,
// numbers, arity, names). A failure prints the number with which it is repeated.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "artifact/tables.h"
#include "emit/cpu/module.h"
#include "emit/header.h"
#include "import/read_archive.h"
#include "import/zip.h"
#include "mutate_model.h"
#include "pipeline/pipeline.h"
#include "plan/build.h"
#include "sym/sym_error.h"

namespace {

enum class End : uint8_t { compiled, refused, failed };

/// All of a build but the compiler.
void compile(const std::string& path) {
  aotc::pipeline::FrontOptions options;
  options.model = path;
  options.target = aotc::Target{};
  const aotc::pipeline::Front f = aotc::pipeline::run_front(options, {});
  const aotc::plan::PlanSet plans = aotc::plan::build_plans(f.graph, f.module, {});
  aotc::emit::cpu::emit_module(f.module, options.target.isas);
  aotc::artifact::TableInput tables{{{"forward", f.graph, f.module, plans}}, options.target, "{}", plans.weights_bytes};
  aotc::artifact::emit_tables(tables);
  aotc::emit::emit_header({{"forward", f.graph}}, "model", "0");
}

End outcome(const std::string& archive) {
  const int fd = ::memfd_create("archive", 0);
  if (::write(fd, archive.data(), archive.size()) != static_cast<ssize_t>(archive.size())) std::abort();
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  End end = End::compiled;
  try {
    aotc::import::dump(aotc::import::read_archive(path));
    compile(path);
  } catch (const aotc::Diagnostic& d) {
    end = d.code() == aotc::ExitCode::internal ? End::failed : End::refused;
  } catch (const aotc::SymError&) {
    end = End::refused;  // exit 3, too
  } catch (const std::exception& e) {
    std::fprintf(stderr, "not a Diagnostic: %s\n", e.what());
    end = End::failed;
  }
  ::close(fd);
  return end;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (outcome({reinterpret_cast<const char*>(data), size}) == End::failed) std::abort();
  return 0;
}

#ifndef AOTC_LIBFUZZER
namespace {

struct Record {
  std::string name, content;
};

void put(std::string& s, uint64_t v, int n) {
  for (int i = 0; i < n; ++i) s += static_cast<char>(i < 8 ? v >> (8 * i) : 0);
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

std::string changed_archive(const std::string& seed, const std::vector<Record>& records, uint64_t number) {
  Random random(number);
  std::string archive = seed;
  if (number % 16 == 0) {
    mutate_bytes(archive, random);
    return archive;
  }
  std::vector<Record> changed = records;
  const auto is_model = [](const Record& r) {
    return r.name.find("models/") != std::string::npos || r.name.find("exported_program.json") != std::string::npos;
  };
  const auto model = std::find_if(changed.begin(), changed.end(), is_model);
  if (number % 4 != 1 && model != changed.end()) {
    model->content = aotc::fuzz::mutate_model(model->content, random);
  } else {
    Record& r = changed[random() % 2 ? random() % changed.size() : std::min<size_t>(number % changed.size(), changed.size() - 1)];
    if (r.name.find(".json") != std::string::npos && random() % 4)
      mutate_json(r.content, random);
    else
      mutate_bytes(r.content, random);
  }
  return make_zip(changed);
}

// AddressSanitizer's shadow is terabytes of addresses, and it takes several times as long.
#ifdef __SANITIZE_ADDRESS__
constexpr rlim_t kMostBytes = RLIM_INFINITY;
constexpr unsigned kMostSeconds = 300;
#else
constexpr rlim_t kMostBytes = rlim_t{8} << 30;
constexpr unsigned kMostSeconds = 60;
#endif

struct Counts {
  uint64_t next, compiled, refused, failed;
};

/// Runs from counts.next on in a process of its own, so that a crash is one failure among others.
void run_some(const std::string& seed, const std::vector<Record>& records, uint64_t end, Counts& counts) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{kMostBytes, kMostBytes};
    ::setrlimit(RLIMIT_AS, &limit);
    for (; counts.next < end; ++counts.next) {
      ::alarm(kMostSeconds);
      switch (outcome(changed_archive(seed, records, counts.next))) {
        case End::compiled: ++counts.compiled; break;
        case End::refused: ++counts.refused; break;
        case End::failed: ++counts.failed; std::fprintf(stderr, "failed: number %llu\n", static_cast<unsigned long long>(counts.next));
      }
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (counts.next >= end) return;
  std::fprintf(stderr, "number %llu ended the process (status %d)\n", static_cast<unsigned long long>(counts.next), status);
  ++counts.failed;
  ++counts.next;
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
  const uint64_t first = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0, end = first + std::strtoull(argv[2], nullptr, 10);
  void* shared = ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  Counts& counts = *new (shared) Counts{first, 0, 0, 0};
  while (counts.next < end) run_some(seed, records, end, counts);
  std::printf("%s: %llu archives, %llu compiled, %llu refused, %llu failed\n", argv[1], static_cast<unsigned long long>(end - first),
              static_cast<unsigned long long>(counts.compiled), static_cast<unsigned long long>(counts.refused),
              static_cast<unsigned long long>(counts.failed));
  return counts.failed == 0 ? 0 : 1;
}
#endif
