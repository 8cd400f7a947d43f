// Parts of states, states in files, forks, copies, truncation: against arrays of the test's own, in every kind of memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <thread>

#include "toy.h"

namespace {

using Ranges = std::vector<aotc_state_range>;
aotc_state_range range(int32_t dim, int64_t offset, int64_t length) { return {dim, 0, offset, length}; }

/// A dense array, sliced element by element.
struct Array {
  std::vector<int64_t> dims;
  std::vector<double> at;
  /// Calls f with each element that lies in the ranges, in order; of dimensions it lacks nothing is asked.
  void each(const Ranges& ranges, const std::function<void(double&)>& f) {
    std::vector<int64_t> index(dims.size(), 0);
    for (double& x : at) {
      if (inside(ranges, index)) f(x);
      for (size_t d = dims.size(); d-- > 0;) {
        if (++index[d] < dims[d]) break;
        index[d] = 0;
      }
    }
  }
  bool inside(const Ranges& ranges, const std::vector<int64_t>& index) const {
    for (const aotc_state_range& r : ranges)
      if (index[dim(r)] < r.offset || index[dim(r)] >= r.offset + r.length) return false;
    return true;
  }
  size_t dim(const aotc_state_range& r) const { return static_cast<size_t>(r.dim < 0 ? r.dim + static_cast<int64_t>(dims.size()) : r.dim); }
  bool has(const Ranges& ranges) const {
    for (const aotc_state_range& r : ranges)
      if (static_cast<int64_t>(dims.size()) <= (r.dim < 0 ? -r.dim - 1 : r.dim)) return false;
    return true;
  }
};

/// What the states are to be.
struct Expected {
  Array keys{{2, 3, 2048, 16}, std::vector<double>(2 * 3 * 2048 * 16)}, window{{2, 3, 8, 16}, std::vector<double>(2 * 3 * 8 * 16)},
      scale{{16}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}, steps{{}, {0}};
  std::array<std::pair<const char*, Array*>, 4> all() {
    return {{{"keys", &keys}, {"window", &window}, {"scale", &scale}, {"steps", &steps}}};
  }
  void run(int64_t slot, int64_t position, double value) {
    keys.each({range(0, slot, 1), range(2, position, 1)}, [&](double& x) { x = value; });
    window.each({range(0, slot, 1), range(2, position % 8, 1)}, [&](double& x) { x = value; });
    for (double& x : scale.at) x += value;
    ++steps.at[0];
  }
  /// What lies in the ranges from another, the rest as in `rest`.
  void take(const Expected& from, const Ranges& ranges, const Expected& rest) {
    Expected source = from, result = rest;
    const auto theirs = source.all(), own = result.all();
    for (size_t s = 0; s < own.size(); ++s) {
      if (!own[s].second->has(ranges)) {
        *own[s].second = *theirs[s].second;
        continue;
      }
      std::vector<double> content;
      theirs[s].second->each(ranges, [&](double& x) { content.push_back(x); });
      size_t i = 0;
      own[s].second->each(ranges, [&](double& x) { x = content[i++]; });
    }
    *this = result;
  }
};

/// A context and what it is to hold.
struct Held {
  Held(const aotc_api* table, aotc_model* model, uint32_t flags) : api(table) {
    aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
    options.flags = flags;
    REQUIRE(api->context_create(model, &options, &context) == AOTC_STATUS_OK);
  }
  ~Held() { api->context_destroy(context); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  aotc_status run(int64_t slot, int64_t position, float value, float* sum = nullptr) {
    float unused = 0;
    const aotc_tensor in[] = {aotc_host_tensor(&slot, nullptr, 0, AOTC_DTYPE_I64, 8),
                              aotc_host_tensor(&position, nullptr, 0, AOTC_DTYPE_I64, 8),
                              aotc_host_tensor(&value, nullptr, 0, AOTC_DTYPE_F32, 4)},
                      out = aotc_host_tensor(sum ? sum : &unused, nullptr, 0, AOTC_DTYPE_F32, 4);
    return api->run(context, in, 3, &out, 1);
  }
  /// The part of a state as the artifact gives it.
  std::vector<double> read(const char* name, const Array& like, const Ranges& ranges, aotc_status* status) const {
    std::vector<int64_t> shape = like.dims;
    size_t n = 1;
    for (const aotc_state_range& r : ranges) shape[like.dim(r)] = r.length;
    for (const int64_t d : shape) n *= static_cast<size_t>(d);
    std::vector<float> floats(n);
    std::vector<int64_t> integers(n);
    const bool real = !like.dims.empty();
    const aotc_tensor t = aotc_host_tensor(real ? static_cast<void*>(floats.data()) : integers.data(), shape.data(),
                                           static_cast<int32_t>(shape.size()), real ? AOTC_DTYPE_F32 : AOTC_DTYPE_I64, n * (real ? 4 : 8));
    *status = api->state_read_range(context, name, ranges.data(), static_cast<int32_t>(ranges.size()), &t);
    return real ? std::vector<double>(floats.begin(), floats.end()) : std::vector<double>(integers.begin(), integers.end());
  }
  bool right() {
    for (const auto& [name, array] : expected.all()) {
      aotc_status status;
      if (read(name, *array, {}, &status) != array->at || status != AOTC_STATUS_OK) return false;
    }
    return true;
  }
  const aotc_api* api;
  aotc_context* context = nullptr;
  Expected expected;
};

int memory_file() { return memfd_create("test", 0); }
size_t descriptors() {
  size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) n += entry.path().empty() ? 0 : 1;
  return n;
}

/// How a context's states lie, and whose memory it is.
struct Memory {
  const char* name;
  uint32_t flags;
  bool allocator;
};
constexpr Memory kMemories[] = {
    {"own", 0, false}, {"a memory file", AOTC_CONTEXT_FORKS, false}, {"an allocator", AOTC_CONTEXT_FORKS, true}};

/// A model of an artifact; with an allocator of the caller's where asked.
struct Model {
  Model(const Loaded& toy, bool allocator) : api(toy.api) {
    aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
    aotc_allocator a{};
    a.struct_size = sizeof a;
    a.alloc = [](void*, size_t bytes, size_t align, int32_t) { return std::aligned_alloc(align, (bytes + align - 1) / align * align); };
    a.free = [](void*, void* p, size_t, int32_t) { std::free(p); };
    if (allocator) options.allocator = &a;
    REQUIRE(api->model_create(&options, &model) == AOTC_STATUS_OK);
  }
  ~Model() { api->model_destroy(model); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  const aotc_api* api;
  aotc_model* model = nullptr;
};

bool says(const aotc_api* api, const char* words) { return std::strstr(api->last_error(), words) != nullptr; }

}  // namespace

TEST_CASE("a part of a state is read and written as slices of an array are") {
  Loaded toy(toy_path("toy_states"));
  Model model(toy, false);
  Held held(toy.api, model.model, 0);
  std::mt19937 random(5);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 60; ++round) {
    const auto [name, array] = held.expected.all()[static_cast<size_t>(below(3))];
    Ranges ranges;
    for (size_t d = 0; d < array->dims.size(); ++d) {
      if (below(3) == 0) continue;
      const int64_t offset = below(array->dims[d] + 1), length = below(std::min<int64_t>(array->dims[d] - offset, 40) + 1);
      ranges.push_back(
          range(below(2) ? static_cast<int32_t>(d) : static_cast<int32_t>(d) - static_cast<int32_t>(array->dims.size()), offset, length));
    }
    std::vector<int64_t> shape = array->dims;
    std::vector<float> content;
    for (const aotc_state_range& r : ranges) shape[array->dim(r)] = r.length;
    array->each(ranges, [&](double& x) { x = static_cast<double>(content.emplace_back(static_cast<float>(below(1000)))); });
    const aotc_tensor t =
        aotc_host_tensor(content.data(), shape.data(), static_cast<int32_t>(shape.size()), AOTC_DTYPE_F32, content.size() * 4);
    REQUIRE(toy.api->state_write_range(held.context, name, ranges.data(), static_cast<int32_t>(ranges.size()), &t) == AOTC_STATUS_OK);
    aotc_status status;
    CHECK(held.read(name, *array, ranges, &status) == std::vector<double>(content.begin(), content.end()));
    CHECK(status == AOTC_STATUS_OK);
  }
  CHECK(held.right());
  float number = 0;
  const int64_t one[] = {1, 1, 1, 1};
  const aotc_tensor t = aotc_host_tensor(&number, one, 4, AOTC_DTYPE_F32, 4);
  const auto read = [&](const Ranges& r) {
    return toy.api->state_read_range(held.context, "keys", r.data(), static_cast<int32_t>(r.size()), &t);
  };
  CHECK((read({range(2, 2048, 1)}) == AOTC_STATUS_SHAPE_MISMATCH && says(toy.api, "2048 elements along dimension 2")));
  CHECK(read({range(4, 0, 1)}) == AOTC_STATUS_SHAPE_MISMATCH);
  CHECK(read({range(-5, 0, 1)}) == AOTC_STATUS_SHAPE_MISMATCH);
  CHECK(read({range(2, 0, 1)}) == AOTC_STATUS_SHAPE_MISMATCH);  // the tensor has one element along the others, too
  CHECK(read({range(2, -1, 1)}) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(read({range(2, 0, -1)}) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(read({range(2, INT64_MAX, 1)}) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(read({range(2, 0, 1), range(2, 1, 1)}) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(read({range(2, 0, 1), range(-2, 1, 1)}) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(read({{2, 7, 0, 1}}) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(toy.api->state_read_range(held.context, "keys", nullptr, 1, &t) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(toy.api->state_read_range(held.context, "keys", nullptr, -1, &t) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(toy.api->state_read_range(held.context, "none", nullptr, 0, &t) == AOTC_STATUS_NOT_FOUND);
  CHECK(read({range(0, 1, 1), range(1, 2, 1), range(2, 2047, 1), range(3, 15, 1)}) == AOTC_STATUS_OK);
}

TEST_CASE("states that are forked, copied, saved, loaded, truncated, written and run at random are those of arrays") {
  Loaded toy(toy_path("toy_states"));
  const size_t open_before = descriptors();
  for (const Memory& memory : kMemories) {
    INFO(memory.name);
    Model model(toy, memory.allocator);
    std::mt19937 random(11);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    std::vector<std::unique_ptr<Held>> held;
    for (int i = 0; i < 4; ++i) held.push_back(std::make_unique<Held>(toy.api, model.model, i < 3 ? memory.flags : 0));
    bool right = true;
    for (int round = 0; round < 120 && right; ++round) {
      const size_t k = static_cast<size_t>(below(4)), other = (k + 1 + static_cast<size_t>(below(3))) % 4;
      Held &a = *held[k], &b = *held[other];
      const Ranges prefix{range(below(2) ? 2 : -2, 0, below(2) ? below(2049) : below(40))};
      const int64_t at = below(8);
      INFO("round " << round << ", operation " << at << ", contexts " << k << " and " << other << ", " << prefix[0].length << " along "
                    << prefix[0].dim);
      if (at <= 1) {
        for (int i = 0; i < 5; ++i) {
          const int64_t slot = below(2), position = below(2048), value = below(100);
          float sum = 0;
          REQUIRE(a.run(slot, position, static_cast<float>(value), &sum) == AOTC_STATUS_OK);
          a.expected.run(slot, position, static_cast<double>(value));
          double want = 0;
          a.expected.keys.each({range(0, slot, 1), range(1, 0, 1), range(3, 0, 1)}, [&](double& x) { want += x; });
          right &= static_cast<double>(sum) == want;
        }
      } else if (at == 2) {
        REQUIRE(toy.api->states_fork(a.context, b.context, nullptr, 0) == AOTC_STATUS_OK);
        a.expected = b.expected;
      } else if (at == 3) {
        REQUIRE(toy.api->states_fork(a.context, b.context, prefix.data(), 1) == AOTC_STATUS_OK);
        a.expected.take(b.expected, prefix, Expected());
      } else if (at == 4) {
        REQUIRE(toy.api->states_truncate(a.context, nullptr, prefix[0].dim, prefix[0].length) == AOTC_STATUS_OK);
        Expected rest;
        rest.scale = a.expected.scale, rest.steps = a.expected.steps;
        a.expected.take(a.expected, prefix, rest);
      } else if (at == 5) {
        const Ranges to{range(0, 1, 1), prefix[0]}, from{range(0, 0, 1), prefix[0]};
        REQUIRE(toy.api->states_copy(a.context, to.data(), a.context, from.data(), 2) == AOTC_STATUS_OK);
        for (Array* x : {&a.expected.keys, &a.expected.window}) {
          std::vector<double> content;
          x->each(from, [&](double& v) { content.push_back(v); });
          size_t i = 0;
          x->each(to, [&](double& v) { v = content[i++]; });
        }
      } else if (at == 6) {
        const Ranges slot{range(0, below(2), 1)};
        REQUIRE(toy.api->states_copy(a.context, slot.data(), b.context, slot.data(), 1) == AOTC_STATUS_OK);
        // A state of one dimension has what it has of the range along that.
        a.expected.take(b.expected, slot, a.expected);
      } else {
        const int fd = memory_file();
        REQUIRE(fd >= 0);
        const bool all = below(2) == 0;
        REQUIRE(toy.api->states_save(b.context, fd, prefix.data(), all ? 0 : 1) == AOTC_STATUS_OK);
        REQUIRE(lseek(fd, 0, SEEK_SET) == 0);
        REQUIRE(toy.api->states_load(a.context, fd, nullptr, 0) == AOTC_STATUS_OK);
        CHECK(lseek(fd, 0, SEEK_CUR) == lseek(fd, 0, SEEK_END));
        close(fd);
        a.expected.take(b.expected, all ? Ranges{} : prefix, a.expected);
      }
      for (const auto& h : held) right &= h->right();
    }
    CHECK(right);
  }
  CHECK(descriptors() == open_before);
}

TEST_CASE("a fork shares pages until they are written") {
  Loaded toy(toy_path("toy_states"));
  Model model(toy, false);
  Held source(toy.api, model.model, AOTC_CONTEXT_FORKS), fork(toy.api, model.model, AOTC_CONTEXT_FORKS);
  const auto smaps = [](const char* what) {
    std::FILE* f = std::fopen("/proc/self/smaps_rollup", "r");
    char line[200];
    long kb = -1;
    while (f && std::fgets(line, sizeof line, f))
      if (std::strncmp(line, what, std::strlen(what)) == 0) kb = std::atol(line + std::strlen(what));
    if (f) std::fclose(f);
    return kb;
  };
  for (int64_t p = 0; p < 2048; ++p)
    for (const int64_t slot : {0, 1}) {
      source.run(slot, p, static_cast<float>(p % 7));
      source.expected.run(slot, p, static_cast<double>(p % 7));
    }
  CHECK(source.right());  // takes the memory that the test itself needs
  const long before = smaps("Anonymous:");
  REQUIRE(toy.api->states_fork(fork.context, source.context, nullptr, 0) == AOTC_STATUS_OK);
  fork.expected = source.expected;
  CHECK(fork.right());
  const long read = smaps("Anonymous:");
  REQUIRE(fork.run(0, 5, 3) == AOTC_STATUS_OK);
  fork.expected.run(0, 5, 3);
  CHECK(fork.right());
  CHECK(source.right());
  CHECK(source.run(1, 7, 9) == AOTC_STATUS_OK);
  source.expected.run(1, 7, 9);
  CHECK(fork.right());
  CHECK(source.right());
#ifdef AOTC_SANITIZED
  constexpr bool counts = false;  // the sanitizer takes memory itself
#else
  constexpr bool counts = true;
#endif
  if (counts && before >= 0) CHECK(read - before < 1500);  // of states of 1.6 MB, and the test's own copies of them
}

TEST_CASE("states go through pipes and to another slot, and what does not fit is refused before anything is changed") {
  Loaded toy(toy_path("toy_states")), other(toy_path("toy_states_other")), plain(toy_path());
  Model model(toy, false), others(other, false);
  Held a(toy.api, model.model, 0), b(toy.api, model.model, AOTC_CONTEXT_FORKS);
  for (int64_t p = 0; p < 100; ++p) {
    REQUIRE(a.run(0, p, static_cast<float>(p + 1)) == AOTC_STATUS_OK);
    a.expected.run(0, p, static_cast<double>(p + 1));
  }
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  aotc_status saved = AOTC_STATUS_INTERNAL;
  std::thread writer([&] { saved = toy.api->states_save(a.context, ends[1], nullptr, 0); });
  CHECK(toy.api->states_load(b.context, ends[0], nullptr, 0) == AOTC_STATUS_OK);
  writer.join();
  CHECK(saved == AOTC_STATUS_OK);
  b.expected = a.expected;
  CHECK(b.right());
  close(ends[0]);
  close(ends[1]);

  // A slot, 100 positions of it, into the other slot of another context.
  Held c(toy.api, model.model, 0);
  const int fd = memory_file();
  const Ranges from{range(0, 0, 1), range(2, 0, 100)}, to{range(0, 1, 1), range(2, 0, 100)};
  REQUIRE(toy.api->states_save(a.context, fd, from.data(), 2) == AOTC_STATUS_OK);
  const off_t end = lseek(fd, 0, SEEK_CUR);
  lseek(fd, 0, SEEK_SET);
  REQUIRE(toy.api->states_load(c.context, fd, to.data(), 2) == AOTC_STATUS_OK);
  for (const auto& [own, theirs] : {std::pair(&c.expected.keys, &a.expected.keys), std::pair(&c.expected.window, &a.expected.window)}) {
    std::vector<double> content;
    theirs->each({range(0, 0, 1), range(2, 0, std::min<int64_t>(100, theirs->dims[2]))}, [&](double& x) { content.push_back(x); });
    size_t i = 0;
    own->each({range(0, 1, 1), range(2, 0, std::min<int64_t>(100, own->dims[2]))}, [&](double& x) { x = content[i++]; });
  }
  c.expected.scale = a.expected.scale, c.expected.steps = a.expected.steps;
  CHECK(c.right());

  const auto load = [&](aotc_context* context, const aotc_api* api, off_t at, const Ranges& r = {}) {
    lseek(fd, at, SEEK_SET);
    return api->states_load(context, fd, r.data(), static_cast<int32_t>(r.size()));
  };
  Held theirs(other.api, others.model, 0);
  CHECK((load(theirs.context, other.api, 0) == AOTC_STATUS_INCOMPATIBLE && says(other.api, "another artifact")));
  theirs.expected.scale.at[0] = 100;
  CHECK(theirs.right());
  Session small(plain.api);
  CHECK(load(small.context, plain.api, 0) == AOTC_STATUS_INCOMPATIBLE);
  uint64_t ids[3];
  REQUIRE(toy.api->states_layout(model.model, &ids[0]) == AOTC_STATUS_OK);
  REQUIRE(other.api->states_layout(others.model, &ids[1]) == AOTC_STATUS_OK);
  REQUIRE(plain.api->states_layout(small.model, &ids[2]) == AOTC_STATUS_OK);
  CHECK((ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]));
  CHECK(load(c.context, toy.api, 8) == AOTC_STATUS_DAMAGED);
  CHECK(load(c.context, toy.api, end) == AOTC_STATUS_DAMAGED);
  CHECK(load(c.context, toy.api, 0, {range(0, 1, 1)}) == AOTC_STATUS_SHAPE_MISMATCH);
  CHECK(load(c.context, toy.api, 0, {range(0, 1, 1), range(2, 0, 99)}) == AOTC_STATUS_SHAPE_MISMATCH);
  CHECK(load(c.context, toy.api, 0, {range(0, 1, 1), range(2, 1990, 100)}) == AOTC_STATUS_SHAPE_MISMATCH);
  for (const off_t at : {9, 17, 25, 33, 41, 49, 57}) {  // a bit of the header, the ranges
    char byte = 0;
    REQUIRE(pread(fd, &byte, 1, at) == 1);
    const char changed = static_cast<char>(byte ^ 4);
    REQUIRE(pwrite(fd, &changed, 1, at) == 1);
    const aotc_status status = load(c.context, toy.api, 0);
    CHECK((status == AOTC_STATUS_DAMAGED || (status == AOTC_STATUS_INCOMPATIBLE && at < 16)));
    REQUIRE(pwrite(fd, &byte, 1, at) == 1);
  }
  CHECK(c.right());
  REQUIRE(ftruncate(fd, end - 1) == 0);
  CHECK((load(c.context, toy.api, 0) == AOTC_STATUS_DAMAGED && says(toy.api, "1 bytes are missing")));
  CHECK((c.run(0, 0, 1) == AOTC_STATUS_WRONG_STATE && says(toy.api, "state_reset")));
  CHECK(toy.api->states_save(c.context, fd, nullptr, 0) == AOTC_STATUS_WRONG_STATE);
  CHECK(toy.api->states_fork(b.context, c.context, nullptr, 0) == AOTC_STATUS_WRONG_STATE);
  CHECK(b.right());
  CHECK(toy.api->states_fork(c.context, b.context, nullptr, 0) == AOTC_STATUS_OK);  // what takes all is defined
  c.expected = b.expected;
  CHECK(c.right());
  close(fd);
  CHECK((toy.api->states_load(c.context, fd, nullptr, 0) == AOTC_STATUS_IO && says(toy.api, "descriptor")));
  CHECK(toy.api->states_save(c.context, -1, nullptr, 0) == AOTC_STATUS_IO);
  CHECK(c.right());
  const int full = open("/dev/full", O_WRONLY);
  CHECK((toy.api->states_save(c.context, full, nullptr, 0) == AOTC_STATUS_IO && says(toy.api, "space")));
  close(full);
}

TEST_CASE("forks, copies and truncation are refused where they mean nothing") {
  Loaded toy(toy_path("toy_states"));
  Model model(toy, false), second(toy, false);
  Held a(toy.api, model.model, 0), b(toy.api, model.model, 0), c(toy.api, second.model, 0);
  const Ranges far{range(2, 2000, 49)}, none{range(7, 0, 1)}, slot0{range(0, 0, 1)}, slot1{range(0, 1, 1)}, both{range(0, 0, 2)};
  CHECK(toy.api->states_fork(a.context, a.context, nullptr, 0) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(toy.api->states_fork(a.context, c.context, nullptr, 0) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(toy.api->states_fork(nullptr, c.context, nullptr, 0) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK((toy.api->states_fork(a.context, b.context, far.data(), 1) == AOTC_STATUS_SHAPE_MISMATCH &&
         says(toy.api, "no state has 49 elements from 2000")));
  CHECK(toy.api->states_fork(a.context, b.context, none.data(), 1) == AOTC_STATUS_SHAPE_MISMATCH);
  CHECK(toy.api->states_copy(a.context, nullptr, a.context, nullptr, 0) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK((toy.api->states_copy(a.context, slot0.data(), a.context, both.data(), 1) == AOTC_STATUS_SHAPE_MISMATCH));
  CHECK((toy.api->states_copy(a.context, slot0.data(), a.context, slot0.data(), 1) == AOTC_STATUS_INVALID_ARGUMENT &&
         says(toy.api, "overlap")));
  CHECK(toy.api->states_copy(a.context, slot0.data(), c.context, slot1.data(), 1) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(toy.api->states_truncate(a.context, nullptr, 2, 2049) == AOTC_STATUS_SHAPE_MISMATCH);
  CHECK(toy.api->states_truncate(a.context, nullptr, 2, -1) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(toy.api->states_truncate(a.context, "window", 2, 9) == AOTC_STATUS_SHAPE_MISMATCH);
  CHECK(toy.api->states_truncate(a.context, "steps", 0, 0) == AOTC_STATUS_SHAPE_MISMATCH);
  CHECK(toy.api->states_truncate(a.context, "none", 0, 0) == AOTC_STATUS_NOT_FOUND);
  CHECK((a.right() && b.right() && c.right()));
  REQUIRE(a.run(0, 3, 5) == AOTC_STATUS_OK);
  REQUIRE(a.run(1, 4, 6) == AOTC_STATUS_OK);
  REQUIRE(toy.api->states_truncate(a.context, "window", 2, 4) == AOTC_STATUS_OK);
  a.expected.run(0, 3, 5);
  a.expected.run(1, 4, 6);
  a.expected.window.each({range(2, 4, 4)}, [](double& x) { x = 0; });
  CHECK(a.right());
}

TEST_CASE("forks of a state with two buffers") {
  Loaded toy(toy_path());
  Session a(toy.api), b(toy.api);
  aotc_context* second = nullptr;
  REQUIRE(toy.api->context_create(a.model, nullptr, &second) == AOTC_STATUS_OK);
  ToyCall call(5);
  std::vector<float> sums(8), others(8);
  const int64_t shape[] = {8};
  const aotc_tensor sums_t = aotc_host_tensor(sums.data(), shape, 1, AOTC_DTYPE_F32, 32),
                    others_t = aotc_host_tensor(others.data(), shape, 1, AOTC_DTYPE_F32, 32);
  for (int runs = 1; runs < 5; ++runs) {
    REQUIRE(call.run(toy.api, a.context) == AOTC_STATUS_OK);
    REQUIRE(toy.api->states_fork(second, a.context, nullptr, 0) == AOTC_STATUS_OK);
    for (int more = 0; more < runs; ++more) REQUIRE(call.run(toy.api, second) == AOTC_STATUS_OK);
    REQUIRE(toy.api->state_read(a.context, "sums", &sums_t) == AOTC_STATUS_OK);
    REQUIRE(toy.api->state_read(second, "sums", &others_t) == AOTC_STATUS_OK);
    for (size_t i = 0; i < 8; ++i) CHECK(others[i] == 2 * sums[i]);
  }
  toy.api->context_destroy(second);
}

#ifndef AOTC_SANITIZED
TEST_CASE("in a child of fork the states of a memory file are undefined, and the parent's are its own") {
  Loaded toy(toy_path("toy_states"));
  Model model(toy, false);
  Held a(toy.api, model.model, AOTC_CONTEXT_FORKS), b(toy.api, model.model, 0), c(toy.api, model.model, 0);
  REQUIRE(a.run(0, 1, 2) == AOTC_STATUS_OK);
  a.expected.run(0, 1, 2);
  REQUIRE(toy.api->states_fork(b.context, a.context, nullptr, 0) == AOTC_STATUS_OK);
  b.expected = a.expected;
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    if (a.run(0, 1, 7) != AOTC_STATUS_WRONG_STATE || b.run(0, 1, 7) != AOTC_STATUS_WRONG_STATE) _exit(2);
    if (c.run(0, 1, 7) != AOTC_STATUS_OK) _exit(3);
    if (toy.api->state_reset(a.context, nullptr) != AOTC_STATUS_OK || a.run(1, 1, 7) != AOTC_STATUS_OK) _exit(4);
    a.expected = Expected();
    a.expected.run(1, 1, 7);
    if (!a.right()) _exit(5);
    if (toy.api->states_fork(b.context, a.context, nullptr, 0) != AOTC_STATUS_OK || b.run(1, 2, 8) != AOTC_STATUS_OK) _exit(6);
    b.expected = a.expected;
    b.expected.run(1, 2, 8);
    if (!b.right() || !a.right()) _exit(7);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status)) == 0);
  CHECK((a.right() && b.right()));
}
#endif
