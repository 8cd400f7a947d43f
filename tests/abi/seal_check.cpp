// Damage to an artifact is found: 4 KB turned over anywhere, single bits, cuts; by the check of the file, by aotc_library_open and by
// model_create. What is no damage is not: a stripped copy, a copy elsewhere.
//
//   seal_check model.so...      exits 1 when something fails
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "aotc/loader.h"

namespace {

namespace fs = std::filesystem;

int failures = 0;

void expect(bool ok, const std::string& what) {
  if (ok) return;
  ++failures;
  std::printf("FAIL %s\n", what.c_str());
}

aotc_status check(const fs::path& path, int32_t what, std::string* text = nullptr) {
  char error[512] = "";
  const aotc_status status = aotc_file_check(path.c_str(), what, nullptr, error, sizeof error);
  if (text) *text = error;
  return status;
}

/// A file, writable in memory.
struct Mapped {
  explicit Mapped(const fs::path& path) : bytes(fs::file_size(path)) {
    const int fd = open(path.c_str(), O_RDWR);
    data = static_cast<unsigned char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    if (data == MAP_FAILED) std::exit(2);
  }
  ~Mapped() { munmap(data, bytes); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  void turn(uint64_t from, uint64_t n, unsigned char mask = 0xff) {
    for (uint64_t i = from; i < std::min(from + n, bytes); ++i) data[i] ^= mask;
  }
  uint64_t bytes;
  unsigned char* data;
};

/// Turned over for a scope.
struct Turned {
  Turned(Mapped& file, uint64_t from, uint64_t n, unsigned char mask = 0xff) : file_(file), from_(from), n_(n), mask_(mask) {
    file_.turn(from_, n_, mask_);
  }
  ~Turned() { file_.turn(from_, n_, mask_); }
  Turned(const Turned&) = delete;
  Turned& operator=(const Turned&) = delete;

 private:
  Mapped& file_;
  uint64_t from_, n_;
  unsigned char mask_;
};

void damages(const fs::path& path, const aotc_seal& seal) {
  Mapped file(path);
  std::mt19937_64 random(7);
  std::vector<uint64_t> at;
  const uint64_t pages = (file.bytes + 4095) / 4096;
  for (uint64_t p = 0; p < pages; ++p)
    if (pages < 300 || p < 100 || p + 100 >= pages) at.push_back(p * 4096);
  for (int i = 0; i < 100; ++i) at.push_back(random() % file.bytes);
  for (const uint64_t from : at) {
    const Turned damage(file, from, 4096);
    expect(check(path, AOTC_CHECK_ALL) != AOTC_STATUS_OK, "4 KB from " + std::to_string(from) + " are not missed");
    const bool in_weights = seal.weights_offset && from >= seal.weights_offset && from + 4096 <= seal.weights_offset + seal.weights_bytes;
    aotc_library lib;
    if (in_weights) continue;
    const aotc_status status = aotc_library_open(path.c_str(), AOTC_DEVICE_DEFAULT, &lib);
    // symbol names and section headers do no harm
    expect(status != AOTC_STATUS_OK || check(path, AOTC_CHECK_CODE) == AOTC_STATUS_OK,
           "4 KB from " + std::to_string(from) + " are found at load");
    aotc_library_close(&lib);
  }
  for (int i = 0; i < 500; ++i) {
    const uint64_t from = i < 300 ? random() % std::min<uint64_t>(file.bytes, 1 << 20) : random() % file.bytes;
    const Turned damage(file, from, 1, static_cast<unsigned char>(1u << random() % 8));
    expect(check(path, AOTC_CHECK_ALL) != AOTC_STATUS_OK, "a bit of byte " + std::to_string(from) + " is not missed");
  }
  expect(check(path, AOTC_CHECK_ALL) == AOTC_STATUS_OK, "it is whole again");
}

void cuts(const fs::path& path) {
  const fs::path copy = path.string() + ".cut";
  std::mt19937_64 random(8);
  const uint64_t bytes = fs::file_size(path);
  std::vector<uint64_t> lengths = {0, 1, 4, 63, 64, 100, 4095, 4096, bytes - 1};
  for (int i = 0; i < 60; ++i) lengths.push_back(random() % bytes);
  fs::copy_file(path, copy, fs::copy_options::overwrite_existing);
  std::sort(lengths.rbegin(), lengths.rend());
  for (const uint64_t n : lengths) {
    fs::resize_file(copy, n);
    std::string text;
    expect(check(copy, AOTC_CHECK_SIZES, &text) == AOTC_STATUS_DAMAGED, "a cut to " + std::to_string(n) + " bytes: " + text);
    aotc_library lib;
    expect(aotc_library_open(copy.c_str(), AOTC_DEVICE_DEFAULT, &lib) == AOTC_STATUS_DAMAGED,
           "a cut to " + std::to_string(n) + " is not opened");
  }
  fs::remove(copy);
}

/// model_create of a program that loads the artifact with dlopen.
aotc_status create(const fs::path& path, uint32_t flags, std::string* text) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return -1;
  const auto get = reinterpret_cast<aotc_get_api_fn>(dlsym(handle, "aotc_get_api"));
  const aotc_api* api = get(AOTC_ABI_VERSION);
  aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
  options.flags = flags;
  aotc_model* model = nullptr;
  const aotc_status status = api->model_create(&options, &model);
  *text = api->last_error();
  api->model_destroy(model);
  dlclose(handle);
  return status;
}

/// What a program meets that loads the artifact with dlopen.
void through_the_api(const fs::path& path, const aotc_seal& seal) {
  std::string text;
  expect(create(path, AOTC_MODEL_VERIFY_WEIGHTS, &text) == AOTC_STATUS_OK, "a whole artifact is accepted: " + text);
  Mapped file(path);
  const std::string all(reinterpret_cast<const char*>(file.data), file.bytes);
  const size_t metadata = all.find("\"aotc_version\"") != std::string::npos ? all.find("\"aotc_version\"") : all.find("{\"name\": \"toy\"");
  expect(metadata != std::string::npos, "it holds metadata");
  {
    const Turned damage(file, metadata + 1, 4, 0x01);
    expect(create(path, 0, &text) == AOTC_STATUS_DAMAGED && text.find("code and tables") != std::string::npos, "damaged tables: " + text);
  }
  if (!seal.weights_offset) return;
  const Turned damage(file, seal.weights_offset + seal.weights_bytes / 2, 4);
  expect(create(path, 0, &text) == AOTC_STATUS_OK, "weights are not read at every load: " + text);
  expect(create(path, AOTC_MODEL_VERIFY_WEIGHTS, &text) == AOTC_STATUS_DAMAGED && text.find("weights") != std::string::npos,
         "damaged weights: " + text);
}

/// Zeros in its place are no seal, and no seal is damage.
void lost_seal(const fs::path& path) {
  aotc_elf elf;
  char error[512] = "";
  expect(aotc_elf_check(path.c_str(), AOTC_CHECK_ALL, &elf, error, sizeof error) == AOTC_STATUS_OK, error);
  const uint64_t at = elf.seal_at;
  const aotc_seal seal = elf.seal;
  aotc_elf_close(&elf);
  Mapped file(path);
  std::memset(file.data + at, 0, sizeof seal);
  std::string text;
  for (const int32_t what : {AOTC_CHECK_CODE, AOTC_CHECK_ALL})
    expect(check(path, what, &text) == AOTC_STATUS_DAMAGED && text.find("seal") != std::string::npos, "a lost seal is damage: " + text);
  expect(create(path, 0, &text) == AOTC_STATUS_DAMAGED && text.find("seal") != std::string::npos, "to the artifact itself, too: " + text);
  std::memcpy(file.data + at, &seal, sizeof seal);
  std::memcpy(file.data + at - 8, "odd", 3);  // the note's name: it is no longer ours
  expect(check(path, AOTC_CHECK_CODE, &text) == AOTC_STATUS_INCOMPATIBLE && text.find("not an artifact") != std::string::npos,
         "no note: " + text);
  aotc_library lib;
  expect(aotc_library_open(path.c_str(), AOTC_DEVICE_DEFAULT, &lib) == AOTC_STATUS_INCOMPATIBLE, "what is none of ours is not opened");
  std::memcpy(file.data + at - 8, "aotc", 4);
  expect(check(path, AOTC_CHECK_ALL, &text) == AOTC_STATUS_OK, "it is whole again: " + text);
}

void no_damage(const fs::path& path) {
  const fs::path copy = path.string() + ".stripped";
  fs::copy_file(path, copy, fs::copy_options::overwrite_existing);
  if (std::system(("strip '" + copy.string() + "'").c_str()) == 0) {
    std::string text;
    expect(fs::file_size(copy) < fs::file_size(path), "strip takes something away");
    expect(check(copy, AOTC_CHECK_ALL, &text) == AOTC_STATUS_OK, "a stripped artifact is whole: " + text);
    aotc_library lib;
    expect(aotc_library_open(copy.c_str(), AOTC_DEVICE_DEFAULT, &lib) == AOTC_STATUS_OK,
           std::string("a stripped artifact opens: ") + lib.error);
    aotc_library_close(&lib);
  }
  fs::remove(copy);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const fs::path path = fs::temp_directory_path() / ("aotc_seal_" + std::to_string(getpid()) + ".so");
    fs::copy_file(argv[i], path, fs::copy_options::overwrite_existing);
    aotc_seal seal = {};
    char error[512] = "";
    aotc_file_check(path.c_str(), AOTC_CHECK_SIZES, &seal, error, sizeof error);
    expect(aotc_file_check(path.c_str(), AOTC_CHECK_ALL, &seal, error, sizeof error) == AOTC_STATUS_OK && seal.file_bytes, error);
    damages(path, seal);
    cuts(path);
    through_the_api(path, seal);
    lost_seal(path);
    no_damage(path);
    fs::remove(path);
    std::printf("%s: %s\n", argv[i], failures ? "FAIL" : "ok");
  }
  return failures ? 1 : 0;
}
