// What a shared object needs, of this program itself, and of damaged copies of it.
#include "emit/system_needs.h"

#include <elf.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

using namespace aotc::emit;

namespace {

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Scratch {
  std::string path = (std::filesystem::temp_directory_path() / "aotc_system_needs_test").string();
  void write(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }
  ~Scratch() { std::filesystem::remove(path); }
};

}  // namespace

TEST_CASE("libraries and glibc of a program") {
  const auto needs = system_needs("/proc/self/exe");
  REQUIRE(needs);
  CHECK(std::count(needs->libraries.begin(), needs->libraries.end(), "libc.so.6") == 1);
  CHECK(needs->glibc.rfind("2.", 0) == 0);
  CHECK_FALSE(system_needs("/proc/self/maps"));
  CHECK_FALSE(system_needs("/nonexistent"));
}

TEST_CASE("versions are compared by number") {
  // This program uses memcpy (2.14) and older symbols, whatever else: as text "2.2.5" would win.
  CHECK(system_needs("/proc/self/exe")->glibc != "2.2.5");
}

TEST_CASE("damaged tables are refused, not followed") {
  const Scratch scratch;
  // The tables alone: headers, then what the dynamic section and the versions need.
  const std::string whole = read("/proc/self/exe");
  std::mt19937 random(7);
  Elf64_Ehdr h;
  std::memcpy(&h, whole.data(), sizeof h);
  std::vector<Elf64_Shdr> sections(h.e_shnum);
  std::memcpy(sections.data(), whole.data() + h.e_shoff, h.e_shnum * sizeof(Elf64_Shdr));
  std::string small(sizeof h, '\0');
  std::vector<Elf64_Shdr> kept;
  std::vector<size_t> places(sections.size(), 0);
  for (size_t i = 0; i < sections.size(); ++i) {
    if (sections[i].sh_type != SHT_DYNAMIC && sections[i].sh_type != SHT_GNU_verneed) continue;
    const Elf64_Shdr& strings = sections[sections[i].sh_link];
    for (Elf64_Shdr s : {sections[i], strings}) {
      const std::string bytes = whole.substr(s.sh_offset, s.sh_size);
      s.sh_offset = small.size();
      s.sh_link = static_cast<uint32_t>(kept.size() + 1);
      small += bytes;
      kept.push_back(s);
    }
  }
  h.e_shoff = small.size();
  h.e_shnum = static_cast<uint16_t>(kept.size());
  small.append(reinterpret_cast<const char*>(kept.data()), kept.size() * sizeof(Elf64_Shdr));
  std::memcpy(small.data(), &h, sizeof h);
  scratch.write(small);
  REQUIRE(system_needs(scratch.path));
  CHECK(system_needs(scratch.path)->glibc == system_needs("/proc/self/exe")->glibc);
  for (int i = 0; i < 300; ++i) {
    std::string bad = small;
    if (i % 3 == 0)
      bad.resize(random() % bad.size());
    else
      for (int n = 0; n < 4; ++n)
        bad[i % 3 == 1 ? h.e_shoff + random() % (bad.size() - h.e_shoff) : random() % bad.size()] = static_cast<char>(random());
    scratch.write(bad);
    (void)system_needs(scratch.path);
  }
}
