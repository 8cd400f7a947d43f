// Loading: many times, many artifacts, versions beside each other, symbols that clash, machines that cannot.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include "aotc/aotc.hpp"
#include "aotc/detail/blob_hash.h"
#include "toy.h"

namespace fs = std::filesystem;

// The host exports the artifact's name and a name of its insides: neither may reach into an artifact.
extern "C" {
__attribute__((visibility("default"), used)) const aotc_api* aotc_get_api(uint32_t) { std::abort(); }
__attribute__((visibility("default"), used)) int aotc_module = 4711;
}

namespace {

bool mapped(const std::string& part) {
  std::ifstream maps("/proc/self/maps");
  const std::string all((std::istreambuf_iterator<char>(maps)), {});
  return all.find(part) != std::string::npos;
}

fs::path scratch_folder() {
  const fs::path folder = fs::temp_directory_path() / ("aotc_abi_" + std::to_string(getpid()));
  fs::create_directories(folder);
  return folder;
}

/// The weights of toy.c as a file.
std::string weights_file() {
  std::string blob(192, '\0');
  float table[4][8];
  for (int c = 0; c < 8; ++c) {
    for (int r = 0; r < 3; ++r) table[r][c] = static_cast<float>(r + 1);
    table[3][c] = static_cast<float>(c);
  }
  const int64_t start = 100;
  std::memcpy(blob.data(), table, sizeof table);
  std::memcpy(blob.data() + 128, &start, 8);
  aotc_weights_trailer trailer{};
  std::memcpy(trailer.magic, AOTC_WEIGHTS_MAGIC, 8);
  trailer.hash = aotc_blob_hash(blob.data(), blob.size());
  return blob + std::string(reinterpret_cast<const char*>(&trailer), sizeof trailer);
}

void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

}  // namespace

TEST_CASE("load and unload, ten thousand times, and it really goes") {
  constexpr int times = 10000;
  for (int i = 0; i < times; ++i) {
    Loaded toy(toy_path());
    Session s(toy.api);
    ToyCall call(3);
    REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    if (i % 1000 == 0) {
      std::thread([&] { toy.api->model_create(nullptr, nullptr); }).join();  // a thread with an error message comes and goes
      REQUIRE(mapped("/toy.so"));
    }
  }
  CHECK_FALSE(mapped("/toy.so"));
}

TEST_CASE("fifty models and two versions in one process") {
  const fs::path folder = scratch_folder();
  std::vector<std::unique_ptr<Loaded>> loaded;
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 50; ++i) {
    const fs::path copy = folder / ("toy" + std::to_string(i) + ".so");
    fs::copy_file(toy_path(i % 2 ? "toy_v2" : "toy"), copy, fs::copy_options::overwrite_existing);
    loaded.push_back(std::make_unique<Loaded>(copy.string()));
    sessions.push_back(std::make_unique<Session>(loaded.back()->api));
  }
  for (int i = 0; i < 50; ++i) {
    ToyCall call(1 + i, i);
    CHECK(call.run(loaded[static_cast<size_t>(i)]->api, sessions[static_cast<size_t>(i)]->context) == AOTC_STATUS_OK);
    CHECK(call.right());
    const std::string metadata = loaded[static_cast<size_t>(i)]->api->metadata_json();
    CHECK(metadata.find(i % 2 ? "\"version\": 2" : "\"version\": 1") != std::string::npos);
  }
  sessions.clear();
  loaded.clear();
  fs::remove_all(folder);
  CHECK_FALSE(mapped("/toy1.so"));
}

TEST_CASE("probe says why a machine cannot run an artifact") {
  Loaded future(toy_path("toy_future"));
  CHECK(future.api->probe(AOTC_DEVICE_HOST) == AOTC_STATUS_INCOMPATIBLE);
  CHECK(std::string(future.api->last_error()).find("does not know") != std::string::npos);
  aotc_model* model = nullptr;
  CHECK(future.api->model_create(nullptr, &model) == AOTC_STATUS_INCOMPATIBLE);
  CHECK(model == nullptr);
  Loaded toy(toy_path());
  CHECK(toy.api->probe(AOTC_DEVICE_HOST) == AOTC_STATUS_OK);
  CHECK(toy.api->probe(AOTC_DEVICE_DEFAULT) == AOTC_STATUS_OK);
  CHECK(toy.api->probe(0) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(std::string(toy.api->last_error()).find("CPU") != std::string::npos);
}

TEST_CASE("weights in a file of their own") {
  const fs::path folder = scratch_folder(), artifact = folder / "toy_file.so", weights = folder / "toy.weights";
  fs::copy_file(toy_path("toy_file"), artifact, fs::copy_options::overwrite_existing);
  fs::remove(weights);
  const std::string good = weights_file();
  Loaded toy(artifact.string());
  aotc_model* model = nullptr;
  CHECK(toy.api->model_create(nullptr, &model) == AOTC_STATUS_NOT_FOUND);
  CHECK(std::string(toy.api->last_error()).find(weights.string()) != std::string::npos);
  write(weights, good.substr(0, 100));
  CHECK(toy.api->model_create(nullptr, &model) == AOTC_STATUS_DAMAGED);
  write(weights, std::string(good.size(), 'x'));
  CHECK(toy.api->model_create(nullptr, &model) == AOTC_STATUS_INCOMPATIBLE);
  std::string other = good;
  other[192 + 8] = static_cast<char>(other[192 + 8] ^ 1);  // the stamp of another build
  write(weights, other);
  CHECK(toy.api->model_create(nullptr, &model) == AOTC_STATUS_INCOMPATIBLE);
  CHECK(std::string(toy.api->last_error()).find("another build") != std::string::npos);
  aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
  options.flags = AOTC_MODEL_VERIFY_WEIGHTS;
  other = good;
  other[5] = static_cast<char>(other[5] ^ 1);
  write(weights, other);
  CHECK(toy.api->model_create(&options, &model) == AOTC_STATUS_DAMAGED);
  CHECK(std::string(toy.api->last_error()).find("damaged") != std::string::npos);
  write(weights, good);
  REQUIRE(toy.api->model_create(&options, &model) == AOTC_STATUS_OK);
  CHECK(mapped("/toy.weights"));
  aotc_context* context;
  REQUIRE(toy.api->context_create(model, nullptr, &context) == AOTC_STATUS_OK);
  ToyCall call(9);
  CHECK(call.run(toy.api, context) == AOTC_STATUS_OK);
  CHECK(call.right());
  toy.api->context_destroy(context);
  toy.api->model_destroy(model);
  CHECK_FALSE(mapped("/toy.weights"));
  options.flags = AOTC_MODEL_OWN_WEIGHTS;
  REQUIRE(toy.api->model_create(&options, &model) == AOTC_STATUS_OK);
  REQUIRE(toy.api->context_create(model, nullptr, &context) == AOTC_STATUS_OK);
  ToyCall copied(9);
  CHECK(copied.run(toy.api, context) == AOTC_STATUS_OK);
  CHECK(copied.right());
  toy.api->context_destroy(context);
  toy.api->model_destroy(model);
  const fs::path elsewhere = folder / "other.bin";
  fs::rename(weights, elsewhere);
  const std::string path = elsewhere.string();
  options.weights_path = path.c_str();
  options.flags |= AOTC_MODEL_LAZY_WEIGHTS;  // its pages are left to the runs
  REQUIRE(toy.api->model_create(&options, &model) == AOTC_STATUS_OK);
  toy.api->model_destroy(model);
  fs::remove_all(folder);
}

TEST_CASE("options: sizes, unknown fields and flags") {
  Loaded toy(toy_path());
  aotc_model* model = nullptr;
  aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
  options.struct_size = 0;
  CHECK(toy.api->model_create(&options, &model) == AOTC_STATUS_INVALID_ARGUMENT);
  options = AOTC_MODEL_OPTIONS_INIT;
  options.flags = 1u << 30;
  CHECK(toy.api->model_create(&options, &model) == AOTC_STATUS_INVALID_ARGUMENT);
  struct Newer {
    aotc_model_options known;
    void* unknown;
  } newer = {AOTC_MODEL_OPTIONS_INIT, nullptr};
  newer.known.struct_size = sizeof newer;
  REQUIRE(toy.api->model_create(&newer.known, &model) == AOTC_STATUS_OK);
  toy.api->model_destroy(model);
  newer.unknown = &newer;
  CHECK(toy.api->model_create(&newer.known, &model) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(toy.api->model_create(nullptr, nullptr) == AOTC_STATUS_INVALID_ARGUMENT);
  toy.api->model_destroy(nullptr);
  toy.api->context_destroy(nullptr);
}

TEST_CASE("what the model takes and gives") {
  Loaded toy(toy_path());
  Session s(toy.api);
  int32_t n = 0;
  REQUIRE(toy.api->io_count(s.model, AOTC_INPUT, &n) == AOTC_STATUS_OK);
  CHECK(n == 4);
  aotc_io_info info = AOTC_IO_INFO_INIT;
  REQUIRE(toy.api->io_get(s.model, AOTC_INPUT, 3, &info) == AOTC_STATUS_OK);
  CHECK(std::string(info.name) == "pair");
  CHECK(std::string(info.dims[0].symbol) == "2*n + 1");
  CHECK(info.dims[0].max == 129);
  CHECK(toy.api->io_get(s.model, AOTC_OUTPUT, 3, &info) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(toy.api->io_count(s.model, 9, &n) == AOTC_STATUS_INVALID_ARGUMENT);
  ToyCall call(11);
  int64_t y[2] = {}, zeros[1] = {};
  int64_t* shapes[] = {y, nullptr, zeros};
  for (aotc_tensor& t : call.in) t.data = nullptr;
  REQUIRE(toy.api->output_bounds(s.context, call.in.data(), 4, shapes, 3) == AOTC_STATUS_OK);
  CHECK((y[0] == 11 && y[1] == 8 && zeros[0] == 23));
  CHECK(std::string(toy.api->status_name(AOTC_STATUS_INDEX_OUT_OF_RANGE)).find("index") != std::string::npos);
  CHECK(std::string(toy.api->status_name(999)) == "unknown status");
}

TEST_CASE("the C++ wrapper") {
  using namespace aotc::host;
  Model model;
  CHECK(Model::load("/nowhere/model.so", &model).code == AOTC_STATUS_NOT_FOUND);
  CHECK(Model::load(toy_path("toy_future"), &model).code == AOTC_STATUS_INCOMPATIBLE);
  Context context;
  {
    Model inner;
    Model::load(toy_path(), &inner).check();
    ContextOptions options;
    options.threads = 2;
    inner.context(&context, options).check();
    CHECK(inner.inputs().size() == 4);
    CHECK(inner.states()[0].name == "sums");
  }
  ToyCall call(12);
  context.run(call.in, call.out).check();
  CHECK(call.right());
  std::vector<std::vector<int64_t>> shapes;
  context.output_bounds(call.in, &shapes).check();
  CHECK(shapes == std::vector<std::vector<int64_t>>{{12, 8}, {}, {25}});
  call.in[0].rank = 3;
  const Status bad = context.run(call.in, call.out);
  CHECK_FALSE(bad);
  CHECK(bad.message.find("'x'") != std::string::npos);
  CHECK_THROWS(bad.check());
}

TEST_CASE("the C++ wrapper keeps shapes that nobody else holds") {
  using namespace aotc::host;
  static_assert(std::is_same_v<decltype(tensor(std::declval<float*>(), {1, 8})), Tensor>);
  static_assert(std::is_same_v<decltype(tensor(std::declval<float*>(), std::declval<std::vector<int64_t>>())), Tensor>);
  static_assert(std::is_same_v<decltype(tensor(std::declval<float*>(), std::declval<const std::vector<int64_t>&>())), aotc_tensor>);
  static_assert(!std::is_convertible_v<Tensor, aotc_tensor>);
  Model model;
  Context context;
  Model::load(toy_path(), &model).check();
  model.context(&context).check();
  ToyCall call(12);
  const auto inputs = [&] {
    return std::vector<Tensor>{tensor(call.x.data(), {12, 8}), tensor(call.bias.data(), {8}), tensor(call.idx.data(), {12}),
                               tensor(call.pair.data(), {25})};
  };
  std::vector<Tensor> in = inputs(), out = {tensor(call.y.data(), {12, 8}), tensor(&call.total, {}), tensor(call.zeros.data(), {25})};
  in.reserve(100);                                                              // the tensors move; their shapes go with them
  std::vector<std::vector<int64_t>> other(1000, std::vector<int64_t>{-1, -1});  // what a dangling shape would read
  context.run(in, out).check();
  CHECK(call.right());
  std::vector<std::vector<int64_t>> shapes;
  context.output_bounds(inputs(), &shapes).check();
  CHECK(shapes[0] == std::vector<int64_t>{12, 8});
  std::vector<float> sums(8);
  context.read_state("sums", tensor(sums.data(), {8})).check();
  CHECK(sums[0] != 0);
  context.write_state("sums", tensor(sums.data(), {8})).check();
}

TEST_CASE("a C++ model or context that holds nothing says so") {
  using namespace aotc::host;
  Model model;
  Context context;
  CHECK(model.context(&context).code == AOTC_STATUS_WRONG_STATE);
  CHECK((model.inputs().empty() && model.states().empty() && model.metadata().empty() && !model && !model.api() && !model.get()));
  Model::load(toy_path(), &model).check();
  model.context(&context).check();
  const Context moved = std::move(context);
  REQUIRE(moved);
  Context made;
  for (Context* empty : {&context, &made}) {
    ToyCall call(3);
    std::vector<std::vector<int64_t>> shapes;
    const Status run = empty->run(call.in, call.out);
    CHECK(run.code == AOTC_STATUS_WRONG_STATE);
    CHECK(run.message.find("Model::context") != std::string::npos);
    CHECK(empty->output_bounds(call.in, &shapes).code == AOTC_STATUS_WRONG_STATE);
    CHECK(empty->reset_states().code == AOTC_STATUS_WRONG_STATE);
    CHECK(empty->read_state("sums", call.out[0]).code == AOTC_STATUS_WRONG_STATE);
    CHECK(empty->write_state("sums", call.in[0]).code == AOTC_STATUS_WRONG_STATE);
    CHECK((!*empty && !empty->api() && !empty->get()));
  }
}
