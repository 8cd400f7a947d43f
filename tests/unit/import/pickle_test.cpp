#include "import/pickle.h"
#include "support.h"

using namespace aotc;
using namespace aotc::import;
using namespace aotc::import::test;
using namespace std::string_literals;
using Catch::Matchers::Contains;

namespace {

std::string save(const std::string& pickle, const std::string& storage = std::string(16, '\0')) {
  return make_zip({{"archive/data.pkl", pickle}, {"archive/byteorder", "little"}, {"archive/data/0", storage}});
}
std::string why(const std::string& pickle) {
  const std::string file = save(pickle);
  return refusal([&] { read_torch_save(bytes_of(file), "w.pt"); });
}
std::string s(const std::string& text) { return std::string("X") + static_cast<char>(text.size()) + std::string(3, '\0') + text; }

/// _rebuild_tensor_v2(storage 0 of 4 floats, offset 0, (2, 2), (2, 1), False, OrderedDict())
const std::string kTensor = "ctorch._utils\n_rebuild_tensor_v2\n((" + s("storage") + "ctorch\nFloatStorage\n" + s("0") + s("cpu") +
                            "K\4tQK\0"s + "K\2K\2\x86K\2K\1\x86\x89" + "ccollections\nOrderedDict\n)RtR";

}  // namespace

TEST_CASE("tensors in dictionaries are read") {
  const std::string file = save("\x80\2}" + s("w") + kTensor + "s.");
  const PickleValue v = read_torch_save(bytes_of(file), "w.pt");
  REQUIRE(v.dict());
  REQUIRE(v.dict()->items.size() == 1);
  const StoredTensor* t = v.dict()->items[0].second.as<StoredTensor>();
  REQUIRE(t);
  CHECK(t->sizes == std::vector<int64_t>{2, 2});
  CHECK(t->strides == std::vector<int64_t>{2, 1});
  CHECK(t->storage.size() == 16);
  Budget budget;
  Payloads payloads(nullptr, budget);
  CHECK(payloads.dense("w", *t, {}).bytes == 16);
}

TEST_CASE("tensors of classes of their own are refused by the class, with what helps") {
  const std::string text =
      why("ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_wrapper_subclass\nctorchao.quantization\nInt8Tensor\n.");
  CHECK_THAT(text, Contains("the class torchao.quantization.Int8Tensor"));
  CHECK_THAT(text, Contains("torchao") && Contains("ep.run_decompositions()"));
  CHECK_THAT(why("ctorch._tensor\n_rebuild_from_type_v2\n)R."), Contains("not allowed"));
}

TEST_CASE("everything else in a pickle is refused by name") {
  CHECK_THAT(why("cos\nsystem\n(" + s("true") + "tR."), Contains("the name os.system is not allowed"));
  CHECK_THAT(why(s("os") + s("system") + "\x93."), Contains("the name os.system is not allowed"));
  CHECK_THAT(why("cbuiltins\neval\n."), Contains("builtins.eval"));
  CHECK_THAT(why("(ios\nsystem\n."), Contains("opcode 0x69"));
  CHECK_THAT(why("ccollections\nOrderedDict\n)\x81."), Contains("opcode 0x81"));
  CHECK_THAT(why("ccollections\nOrderedDict\nK\1\x85R."), Contains("not allowed"));
  CHECK_THAT(why("\x82\1."), Contains("opcode 0x82"));
  CHECK_THAT(why("h\1."), Contains("memo"));
  CHECK_THAT(why("K\1K\2."), Contains("one value"));
  CHECK_THAT(why("("), Contains("cut off"));
  CHECK_THAT(why("t."), Contains("mark"));
  CHECK_THAT(why("X\xff\xff\xff\x7f."), Contains("cut off"));
  CHECK_THAT(why(s("x") + "Q."), Contains("not a storage"));
  CHECK_THAT(why("(" + s("storage") + "ctorch\nFloatStorage\n" + s("9") + s("cpu") + "K\4tQ."), Contains("'9' is missing"));
  CHECK_THAT(why("]q\0h\0a."s), Contains("used twice"));
  CHECK_THAT(why(")" + std::string(100, '\x85') + "."), Contains("deeper"));
}

TEST_CASE("tensors outside of their storage are refused") {
  Budget budget;
  Payloads payloads(nullptr, budget);
  const std::string storage(16, '\0');
  const auto dense = [&](StoredTensor t) {
    t.storage = bytes_of(storage);
    return refusal([&] { payloads.dense("w", t, {}); });
  };
  const int64_t big = int64_t{1} << 62;
  CHECK(dense({DType::f32, {2, 2}, {1, 2}, 0}) == "(accepted)");
  CHECK(dense({DType::f32, {0, big}, {1, 1}, 0}) == "(accepted)");
  CHECK_THAT(dense({DType::f32, {2, 2}, {2, 1}, 1}), Contains("element 4 of a storage that has 4"));
  CHECK_THAT(dense({DType::f32, {5}, {1}, 0}), Contains("storage"));
  CHECK_THAT(dense({DType::f32, {big, 8}, {0, 0}, 0}), Contains("overflow"));
  CHECK_THAT(dense({DType::f32, {2}, {big}, big}), Contains("overflow") || Contains("storage"));
  CHECK_THAT(dense({DType::f32, {-1}, {1}, 0}), Contains("negative size"));
  CHECK_THAT(dense({DType::f32, {2}, {-1}, 1}), Contains("negative stride"));
  CHECK_THAT(dense({DType::f32, {1}, {1}, -1}), Contains("negative storage offset"));
  CHECK_THAT(dense({DType::f32, {1 << 30}, {0}, 0}), Contains("densely"));
  CHECK_THAT(dense({DType::f32, {1, 1}, {1}, 0}), Contains("strides"));
}
