#include "import/states.h"
#include "support.h"

using namespace aotc;
using namespace aotc::import;
using namespace aotc::import::test;
using Catch::Matchers::Contains;

namespace {

/// Parameters "up.weight", "up.bias" and "down.weight" (which is up.weight), buffer "up.mean", constant "c".
Program sample() {
  static const std::byte data[16] = {};
  Program p;
  p.file = "m.pt2";
  const auto add = [&](InputKind kind, const std::string& name, const std::byte* at) {
    p.inputs.push_back({.kind = kind, .name = "p_" + name, .target = name});
    p.data[name] = {name, {DType::f32, {Expr(1)}}, nullptr, at, 4};
  };
  add(InputKind::parameter, "up.weight", data);
  add(InputKind::parameter, "up.bias", data + 4);
  add(InputKind::parameter, "down.weight", data);
  add(InputKind::buffer, "up.mean", data + 8);
  add(InputKind::constant_tensor, "c", data + 12);
  p.inputs.push_back({.kind = InputKind::user, .name = "x"});
  return p;
}

std::vector<std::string> chosen(const StateChoice& choice) {
  Program p = sample();
  choose_states(p, choice);
  std::vector<std::string> names;
  for (const ProgramInput& in : p.inputs)
    if (in.is_state) names.push_back(in.target);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("states by name, pattern, or all parameters") {
  CHECK(chosen({}).empty());
  CHECK(chosen({true, {}}) == Names{"up.weight", "up.bias", "down.weight"});
  CHECK(chosen({false, {"up.bias"}}) == Names{"up.bias"});
  CHECK(chosen({false, {"*.bias", "*mean"}}) == Names{"up.bias", "up.mean"});
  CHECK(chosen({true, {"up.mean"}}).size() == 4);
}

TEST_CASE("all names of tied weights become states") { CHECK(chosen({false, {"down.*"}}) == Names{"up.weight", "down.weight"}); }

TEST_CASE("a name that nothing has is refused with those that there are") {
  CHECK_THAT(refusal([] { chosen({false, {"up.bias", "left*"}}); }), Contains("'left*'"));
  CHECK_THAT(refusal([] { chosen({false, {"c"}}); }), Contains("no parameter or buffer"));
}
