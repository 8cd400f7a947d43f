// Memory of weights that is given back while a model is idle, and comes back with its next runs.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "aotc/aotc.hpp"
#include "aotc/detail/blob_hash.h"
#include "toy.h"

namespace {

constexpr uint64_t kBetween = 4 << 20;  // toy_large: bytes between its two weights
constexpr uint64_t kLayout = 0x70070070;

/// The content of a weights file for toy_large with the artifact's own numbers.
std::string content_of_large() {
  std::string blob(192 + kBetween, '\0');
  float table[4][8];
  for (int c = 0; c < 8; ++c)
    for (int r = 0; r < 4; ++r) table[r][c] = static_cast<float>(r < 3 ? r + 1 : c);
  const int64_t start = 100;
  std::memcpy(blob.data(), table, sizeof table);
  std::memcpy(blob.data() + 128 + kBetween, &start, sizeof start);
  aotc_weights_trailer trailer{};
  std::memcpy(trailer.magic, AOTC_WEIGHTS_MAGIC, 8);
  trailer.hash = aotc_blob_hash(blob.data(), blob.size());
  trailer.layout = kLayout, trailer.bytes = blob.size();
  return blob + std::string(reinterpret_cast<const char*>(&trailer), sizeof trailer);
}

bool answers(const aotc_api* api, aotc_context* context, int64_t batch = 5) {
  ToyCall call(batch);
  return call.run(api, context) == AOTC_STATUS_OK && call.right();
}

int64_t start_of(const aotc_api* api, aotc_context* context) {
  int64_t runs = -1;
  const aotc_tensor t = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, sizeof runs);
  return api->state_read(context, "runs", &t) == AOTC_STATUS_OK ? runs : -1;
}

uint64_t version_of(const aotc_api* api, aotc_context* context) {
  aotc_context_info info = AOTC_CONTEXT_INFO_INIT;
  REQUIRE(api->context_get_info(context, &info) == AOTC_STATUS_OK);
  return info.weights_version;
}

#ifndef AOTC_SANITIZED
int64_t resident_bytes() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}
#endif

/// An allocator that counts what it has given.
aotc_allocator counting(std::atomic<int64_t>* live) {
  aotc_allocator a{};
  a.struct_size = sizeof a;
  a.user = live;
  a.alloc = [](void* user, size_t bytes, size_t align, int32_t) -> void* {
    void* p = nullptr;
    if (posix_memalign(&p, align, bytes) != 0) return nullptr;
    *static_cast<std::atomic<int64_t>*>(user) += static_cast<int64_t>(bytes);
    return p;
  };
  a.free = [](void* user, void* p, size_t bytes, int32_t) {
    *static_cast<std::atomic<int64_t>*>(user) -= static_cast<int64_t>(bytes);
    std::free(p);
  };
  return a;
}

}  // namespace

TEST_CASE("pages of weights leave the process, and answers stay the same") {
  Loaded toy(toy_path("toy_large"));
#ifndef AOTC_SANITIZED
  const int64_t before = resident_bytes();
#endif
  Session s(toy.api);
  CHECK(answers(toy.api, s.context));
#ifndef AOTC_SANITIZED
  const int64_t held = resident_bytes();
#endif
  uint64_t bytes = 0;
  REQUIRE(toy.api->model_trim(s.model, &bytes) == AOTC_STATUS_OK);
  CHECK(bytes >= kBetween - 8192);
#ifndef AOTC_SANITIZED
  // Kernels before 5.14 did not map them all when the model was made.
  if (held - before >= static_cast<int64_t>(kBetween)) CHECK(resident_bytes() < held - static_cast<int64_t>(kBetween / 2));
#endif
  CHECK(answers(toy.api, s.context, 9));
  CHECK(start_of(toy.api, s.context) == 102);
  REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
  CHECK(start_of(toy.api, s.context) == 100);
  CHECK(version_of(toy.api, s.context) == 1);
  CHECK(toy.api->model_trim(s.model, nullptr) == AOTC_STATUS_OK);
  CHECK(toy.api->model_trim(nullptr, &bytes) == AOTC_STATUS_INVALID_ARGUMENT);
}

TEST_CASE("a copy of the process's own is freed, and the next swap makes one again") {
  Loaded toy(toy_path("toy_large"));
  std::atomic<int64_t> live{0};
  const aotc_allocator allocator = counting(&live);
  aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
  options.allocator = &allocator;
  options.flags = AOTC_MODEL_OWN_WEIGHTS;
  aotc_model* model = nullptr;
  aotc_context* context = nullptr;
  REQUIRE(toy.api->model_create(&options, &model) == AOTC_STATUS_OK);
  CHECK(live >= static_cast<int64_t>(kBetween));
  REQUIRE(toy.api->context_create(model, nullptr, &context) == AOTC_STATUS_OK);
  CHECK(answers(toy.api, context));
  const int64_t held = live;
  uint64_t bytes = 0;
  for (int i = 0; i < 3; ++i) {
    REQUIRE(toy.api->model_trim(model, &bytes) == AOTC_STATUS_OK);
    CHECK(bytes >= kBetween - 8192);
    CHECK(held - live >= static_cast<int64_t>(kBetween));
    CHECK(answers(toy.api, context, 3 + i));
    CHECK(version_of(toy.api, context) == 1);
    REQUIRE(toy.api->state_reset(context, nullptr) == AOTC_STATUS_OK);
    CHECK(start_of(toy.api, context) == 100);
  }
  uint64_t version = 0;
  REQUIRE(toy.api->model_swap_weights(model, nullptr, &version) == AOTC_STATUS_OK);
  CHECK(version == 2);
  CHECK(live >= held);
  CHECK(answers(toy.api, context));
  toy.api->context_destroy(context);
  toy.api->model_destroy(model);
  CHECK(live == 0);
}

TEST_CASE("memory that is not a file's stays as it is: a copy of memory, what a function gave, and the caller's own") {
  Loaded toy(toy_path("toy_large"));
  const std::string content = content_of_large();
  struct Lent {
    void* bytes = nullptr;
    size_t size = 0;
    int released = 0;
    ~Lent() { std::free(bytes); }
    bool same(const std::string& as) const { return std::equal(as.begin(), as.end(), static_cast<const char*>(bytes)); }
  } lent;
  lent.size = (content.size() + 4095) / 4096 * 4096;
  REQUIRE(posix_memalign(&lent.bytes, 4096, lent.size) == 0);
  std::memcpy(lent.bytes, content.data(), content.size());
  aotc_weights_source copied = AOTC_WEIGHTS_SOURCE_INIT, read = AOTC_WEIGHTS_SOURCE_INIT, used = AOTC_WEIGHTS_SOURCE_INIT;
  copied.data = content.data(), copied.bytes = content.size();
  read.user = const_cast<std::string*>(&content);
  read.read = [](void* user, uint64_t offset, void* to, uint64_t bytes) -> aotc_status {
    std::memcpy(to, static_cast<const std::string*>(user)->data() + offset, bytes);
    return AOTC_STATUS_OK;
  };
  used.data = lent.bytes, used.bytes = content.size(), used.user = &lent;
  used.release = [](void* user) { ++static_cast<Lent*>(user)->released; };
  int releases = 0;
  for (const uint32_t flags : {0u, uint32_t{AOTC_MODEL_OWN_WEIGHTS}})
    for (const aotc_weights_source* source : {&copied, &read, &used}) {
      aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
      options.flags = flags;
      options.weights = source;
      aotc_model* model = nullptr;
      aotc_context* context = nullptr;
      REQUIRE(toy.api->model_create(&options, &model) == AOTC_STATUS_OK);
      REQUIRE(toy.api->context_create(model, nullptr, &context) == AOTC_STATUS_OK);
      CHECK(lent.same(content));  // a copy of it leaves it whole
      uint64_t bytes = 4711;
      REQUIRE(toy.api->model_trim(model, &bytes) == AOTC_STATUS_OK);
      CHECK(bytes == 0);
      CHECK(answers(toy.api, context));
      CHECK(start_of(toy.api, context) == 101);
      toy.api->context_destroy(context);
      toy.api->model_destroy(model);
      CHECK(lent.same(content));
      CHECK(lent.released == (releases += source == &used));
    }
}

TEST_CASE("threads run while the model is trimmed and its weights are swapped") {
  Loaded toy(toy_path("toy_large"));
  std::atomic<int64_t> live{0}, runs{0};
  const aotc_allocator allocator = counting(&live);
  aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
  options.allocator = &allocator;
  options.flags = AOTC_MODEL_OWN_WEIGHTS;
  aotc_model* model = nullptr;
  REQUIRE(toy.api->model_create(&options, &model) == AOTC_STATUS_OK);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      aotc_context* context = nullptr;
      if (toy.api->context_create(model, nullptr, &context) != AOTC_STATUS_OK) ++wrong;
      for (int i = 0; !stop; ++i, ++runs) {
        ToyCall call(1 + (t * 7 + i) % 60, i);
        if (call.run(toy.api, context) != AOTC_STATUS_OK || !call.right()) ++wrong;
        if (i % 16 == 0 && toy.api->state_reset(context, nullptr) != AOTC_STATUS_OK) ++wrong;
      }
      toy.api->context_destroy(context);
    });
  std::thread trims([&] {
    while (!stop)
      if (toy.api->model_trim(model, nullptr) != AOTC_STATUS_OK) ++wrong;
  });
  for (int i = 0; i < 100; ++i) {
    if (toy.api->model_swap_weights(model, nullptr, nullptr) != AOTC_STATUS_OK) ++wrong;
    if (toy.api->model_trim(model, nullptr) != AOTC_STATUS_OK) ++wrong;
  }
  while (runs < 200) std::this_thread::yield();
  stop = true;
  trims.join();
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  toy.api->model_destroy(model);
  CHECK(live == 0);
}

TEST_CASE("the C++ wrapper trims") {
  aotc::host::Model model;
  REQUIRE(aotc::host::Model::load(toy_path("toy_large"), &model));
  uint64_t bytes = 0;
  REQUIRE(model.trim(&bytes));
  CHECK(bytes >= kBetween - 8192);
  CHECK(aotc::host::Model().trim().code == AOTC_STATUS_WRONG_STATE);
}
