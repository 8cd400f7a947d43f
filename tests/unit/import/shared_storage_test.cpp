#include "import/shared_storage.h"

#include <algorithm>

#include "import/states.h"
#include "support.h"

using namespace aotc;
using namespace aotc::import;
using namespace aotc::import::test;
using Catch::Matchers::Contains;

namespace {

struct Tensor {
  std::string target;
  std::vector<Expr> sizes, strides;
  int64_t offset = 0;
  DType dtype = DType::f32;
};

/// A program whose inputs lie in one storage of 24 elements, each b_TARGET; what is read, and what is written in place.
Program sample(const std::vector<Tensor>& tensors, const std::vector<std::string>& read, const std::vector<std::string>& written) {
  static const float memory[24] = {};
  const auto* bytes = reinterpret_cast<const std::byte*>(memory);
  Program p;
  p.file = "m.pt2";
  p.storages.push_back({{"memory", {DType::f32, {Expr(24)}}, nullptr, bytes, sizeof memory}, {}, {}});
  for (const Tensor& t : tensors) {
    p.inputs.push_back({.kind = InputKind::buffer, .name = "b_" + t.target, .target = t.target});
    size_t size = static_cast<size_t>(dtype_bytes(t.dtype));
    for (const Expr& d : t.sizes) size *= static_cast<size_t>(d.as_const().value());
    p.data[t.target] = {t.target, {t.dtype, t.sizes}, nullptr, bytes + t.offset * dtype_bytes(t.dtype), size};
    p.data_meta[t.target] = p.tensors["b_" + t.target] = {t.dtype, t.sizes, t.strides, t.offset};
    p.storages[0].targets.push_back(t.target);
  }
  for (const std::string& r : read) {
    p.tensors["of_" + r] = p.tensors.at("b_" + r);
    p.nodes.push_back(
        {.name = "of_" + r, .target = "aten.relu.default", .args = {{"self", TensorRef{"b_" + r}}}, .results = {TensorRef{"of_" + r}}});
    p.outputs.push_back({.kind = OutputKind::user, .value = TensorRef{"of_" + r}});
  }
  for (const std::string& w : written)
    p.outputs.push_back({.kind = OutputKind::buffer_mutation, .value = TensorRef{"b_" + w}, .target = w});
  return p;
}

/// Targets of what the program writes, in order.
std::vector<std::string> states(const Program& p) {
  std::vector<std::string> out;
  for (const ProgramOutput& o : p.outputs)
    if (o.kind == OutputKind::buffer_mutation) out.push_back(o.target);
  return out;
}
std::string memory_of(const Program& p, const std::string& target) {
  for (const ProgramInput& in : p.inputs)
    if (const std::string* state = in.target == target ? state_of(p, in) : nullptr) return *state;
  return "";
}
/// The way to a view, as "operator operator".
std::string path_to(Program p, const std::string& target) {
  views_as_nodes(p);
  std::string out;
  for (const PNode& n : p.nodes)
    if (n.name.rfind("b_" + target, 0) == 0) out += (out.empty() ? "" : " ") + n.target.substr(5);
  REQUIRE(std::none_of(p.inputs.begin(), p.inputs.end(), [&](const ProgramInput& in) { return in.target == target; }));
  return out;
}

using Names = std::vector<std::string>;
const Tensor kPool{"pool", {2, 3, 4}, {12, 4, 1}}, kFirst{"k0", {3, 4}, {4, 1}}, kSecond{"k1", {3, 4}, {4, 1}, 12};

}  // namespace

TEST_CASE("a written view and what holds it are one state, named after what holds all of it") {
  Program p = sample({kFirst, kPool, kSecond}, {"pool", "k0"}, {"k1"});
  share_states(p);
  CHECK(states(p) == Names{"pool"});
  CHECK(memory_of(p, "pool").empty());
  CHECK(memory_of(p, "k0") == "b_pool");
  CHECK(memory_of(p, "k1") == "b_pool");
  CHECK(std::get<TensorRef>(p.outputs.back().value).name == "b_pool");
  CHECK(path_to(p, "k1") == "slice.Tensor view.default");
  share_states(p);  // again: nothing new
  CHECK(states(p) == Names{"pool"});
  CHECK(p.inputs.size() == 3);
}

TEST_CASE("views that lie apart stay by themselves where nothing reads what holds them") {
  Program p = sample({kPool, kFirst, kSecond}, {"k0", "k1"}, {"k0", "k1"});
  share_states(p);
  CHECK(states(p) == Names{"k0", "k1"});
  CHECK(memory_of(p, "k0").empty());
  choose_states(p, {false, {"k0"}});  // which begins where the pool does
  CHECK(states(p) == Names{"k0", "k1"});
  choose_states(p, {false, {"pool"}});  // now the caller reads it
  CHECK(states(p) == Names{"pool"});
  CHECK(memory_of(p, "k0") == "b_pool");
}

TEST_CASE("what is only read is left as it is") {
  Program p = sample({kPool, kFirst, kSecond, {"far", {2}, {1}, 22}}, {"pool", "k0", "far"}, {});
  share_states(p);
  for (const ProgramInput& in : p.inputs) CHECK(!state_of(p, in));
  Program q = sample({kFirst, {"far", {2}, {1}, 22}, {"tail", {3}, {1}, 21}}, {"k0", "far", "tail"}, {"k0"});
  share_states(q);
  for (const ProgramInput& in : q.inputs) CHECK(!state_of(q, in));
}

TEST_CASE("overlapping views without what holds them get a state of their own") {
  Program p = sample({{"a", {6}, {1}, 2}, {"b", {8}, {1}, 6}, {"c", {2}, {1}, 20}}, {"a", "b", "c"}, {"a", "b", "c"});
  share_states(p);
  CHECK(states(p) == Names{"c", "a.storage"});
  CHECK(memory_of(p, "b") == "b_a.storage");
  CHECK(p.data.at("a.storage").type.dims == std::vector<Expr>{12});
  CHECK(p.data.at("a.storage").bytes == 48);
  CHECK(p.data.at("a.storage").data == p.storages[0].data.data + 8);
  CHECK(path_to(p, "b") == "slice.Tensor");
}

TEST_CASE("elements decide, not the ends of what they lie between") {
  const Tensor left{"left", {3, 4}, {8, 1}}, right{"right", {3, 4}, {8, 1}, 4}, even{"even", {3, 4}, {8, 2}};
  Program p = sample({left, right}, {"left", "right"}, {"left", "right"});
  share_states(p);
  CHECK(states(p) == Names{"left", "right"});
  p = sample({left, right, even}, {"left", "right", "even"}, {"left", "right"});
  share_states(p);
  CHECK(states(p) == Names{"left.storage"});
}

TEST_CASE("views are found by slices, reshapes and permutes") {
  const std::vector<std::pair<Tensor, std::string>> rows = {
      {{"v", {2, 3, 4}, {12, 4, 1}}, "alias.default"},
      {{"v", {24}, {1}}, "view.default"},
      {{"v", {4, 3}, {1, 4}, 12}, "slice.Tensor view.default permute.default"},
      {{"v", {4, 3, 2}, {1, 4, 12}}, "permute.default"},
      {{"v", {2, 2}, {12, 2}, 5}, "slice.Tensor slice.Tensor view.default"},
      {{"v", {5}, {1}, 10}, "view.default slice.Tensor"},
      {{"v", {6, 2, 2}, {4, 2, 1}}, "view.default view.default"},
      {{"v", {}, {}, 17}, "slice.Tensor slice.Tensor slice.Tensor view.default"},
      {{"v", {3, 5}, {1, 0}, 4}, "slice.Tensor slice.Tensor slice.Tensor view.default view.default expand.default"},
      {{"v", {4}, {5}, 1}, "as_strided.default"},
      {{"v", {5, 4}, {2, 1}}, "as_strided.default"},
  };
  for (const auto& [view, path] : rows) {
    Program p = sample({kPool, view}, {"pool"}, {"v"});
    share_states(p);
    INFO(path);
    CHECK(states(p) == Names{"pool"});
    CHECK(path_to(p, "v") == path);
  }
}

TEST_CASE("new contents that the program computes are written where the others see them") {
  Program p = sample({kPool, kSecond}, {"pool", "k1"}, {"k1"});
  p.outputs.back().value = TensorRef{"of_k1"};  // a functional program
  share_states(p);
  CHECK(states(p) == Names{"pool"});
  REQUIRE(p.nodes.back().target == "aten.copy_.default");
  CHECK(std::get<TensorRef>(p.nodes.back().args.at(0).value).name == "b_k1");
  CHECK(std::get<TensorRef>(p.nodes.back().args.at(1).value).name == "of_k1");
}

TEST_CASE("memory of two types that is written is refused with both names") {
  Program p = sample({kPool, {"bits", {3, 4}, {4, 1}, 12, DType::i32}}, {"pool", "bits"}, {"pool"});
  const std::string why = refusal([&] { share_states(p); });
  CHECK_THAT(why, Contains("'pool' (float32) and 'bits' (int32)"));
  Program apart = sample({kFirst, {"bits", {3, 4}, {4, 1}, 12, DType::i32}}, {"k0", "bits"}, {"k0"});
  share_states(apart);
  CHECK(states(apart) == Names{"k0"});
}
