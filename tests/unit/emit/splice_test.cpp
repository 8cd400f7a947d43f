#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "emit/splice.h"

using namespace aotc::emit;
namespace fs = std::filesystem;

namespace {
std::string read(const fs::path& p) {
  std::ifstream in(p, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
Elf64_Phdr last_loaded(const std::string& elf) {
  Elf64_Ehdr header;
  std::memcpy(&header, elf.data(), sizeof header);
  Elf64_Phdr last{}, p;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    std::memcpy(&p, elf.data() + header.e_phoff + i * sizeof p, sizeof p);
    if (p.p_type == PT_LOAD) last = p;
  }
  return last;
}
}  // namespace

TEST_CASE("a blob takes the place of its stand-in in a shared object") {
  const fs::path dir = fs::temp_directory_path() / ("aotc_splice_" + std::to_string(getpid()));
  fs::create_directories(dir);
  std::ofstream(dir / "a.c") << "extern const unsigned char blob[] __attribute__((visibility(\"hidden\")));\n"
                                "static int zeros[50000]; int data[2] = {1, 2};\n"
                                "const unsigned char* table[] = {blob, blob + 64};\n"
                                "const unsigned char* get(int i) { zeros[i]++; return table[i] + zeros[i + 1]; }\n";
  for (const uint64_t bytes : {uint64_t{100}, uint64_t{4096}, uint64_t{1000001}, uint64_t{5000001}}) {
    Blob blob{".aotc_weights", "blob", bytes, [](std::span<std::byte> out) {
                for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i % 251);
              }};
    write_stand_in((dir / "blob.o").string(), blob);
    std::ofstream(dir / "blob.ld") << last_section_script(blob.section);
    const std::string d = dir.string();
    const std::string link = "cc -shared -fPIC -O1 -Wl,--gc-sections -Wl,-z,relro -Wl,-z,now -Wl,--build-id=sha1 " + d + "/a.c " + d +
                             "/blob.o -Wl,-T," + d + "/blob.ld -o " + d + "/linked.so";
    REQUIRE(std::system(link.c_str()) == 0);
    REQUIRE(splice(d + "/linked.so", d + "/out.so", blob));
    REQUIRE(splice(d + "/linked.so", d + "/again.so", blob));
    CHECK(read(dir / "out.so") == read(dir / "again.so"));
    REQUIRE(std::system(("readelf -aW " + d + "/out.so > " + d + "/elf.txt 2>&1").c_str()) == 0);
    CHECK(read(dir / "elf.txt").find("Warning") == std::string::npos);

    // Large blobs lie alike in large pages of the file and of memory; small ones take no room for that.
    const Elf64_Phdr last = last_loaded(read(dir / "out.so"));
    CHECK(last.p_align == (bytes < (2 << 20) ? 4096 : 2 << 20));
    CHECK((last.p_vaddr - last.p_offset) % last.p_align == 0);
    CHECK((last.p_filesz == bytes && last.p_memsz == bytes));

    void* so = dlopen((d + "/out.so").c_str(), RTLD_NOW);
    REQUIRE(so);
    const auto get = reinterpret_cast<const unsigned char* (*)(int)>(dlsym(so, "get"));
    const unsigned char *a = get(0), *b = get(1);
    CHECK(b == a + 64);
    CHECK(reinterpret_cast<uintptr_t>(a) % 4096 == 0);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < bytes; ++i) wrong += a[i] != i % 251;
    CHECK(wrong == 0);
    dlclose(so);
    fs::remove(dir / "out.so");
  }
  // A file that was not linked with the script is left alone.
  REQUIRE(
      std::system(("cc -shared -fPIC " + (dir / "a.c").string() + " " + (dir / "blob.o").string() + " -o " + (dir / "plain.so").string())
                      .c_str()) == 0);
  CHECK(!splice((dir / "plain.so").string(), (dir / "none.so").string(), {".aotc_weights", "blob", 10, {}}));
  CHECK(!fs::exists(dir / "none.so"));
  fs::remove_all(dir);
}
