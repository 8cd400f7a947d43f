// Which epilogues are said as data, and how.
#include "forms/cpu/finish.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <regex>

#include "aotc/detail/library_abi.h"
#include "loop/text.h"

namespace aotc::forms::cpu {
namespace {

using loop::ParamId;
using Kinds = std::vector<int>;

constexpr const char* kSum = "v0 = load float32 acc[i1*32 + r0]";
constexpr const char* kBias = "v1 = load float32 p2[r0]";
constexpr const char* kBiased = "v2 = op add float32 v0, v1";

/// Instructions with their values numbered in order, as the reader wants them; names: those that are numbered already.
std::string numbered(const std::vector<std::string>& insts, std::map<std::string, int> names) {
  static const std::regex kValue("v[0-9]+");
  std::string text;
  for (const std::string& inst : insts) {
    text += "      ";
    auto end = inst.begin();
    for (std::sregex_iterator at(inst.begin(), inst.end(), kValue), none; at != none; ++at) {
      text.append(end, inst.begin() + at->position());
      text += fmt::format("v{}", names.emplace(at->str(), static_cast<int>(names.size())).first->second);
      end = inst.begin() + at->position() + at->length();
    }
    text.append(end, inst.end());
    text += "\n";
  }
  return text;
}

/// A convolution of two images whose epilogue is `insts` over (images i0, pixels i1, channels r0); v10 is 6 and v11 is 3 there.
loop::Module module_of(const std::vector<std::string>& insts) {
  const auto params = [](const std::string& indent) {
    std::string s;
    for (const char* p : {"p0 input float32[2, 4, 4, 8]", "p1 input float32[32, 8, 1, 1]", "p2 input float32[32]",
                          "p3 input bfloat16[2, 4, 4, 32]", "p4 output float32[2, 4, 4, 32]", "p5 output bfloat16[2, 4, 4, 32]"})
      s += indent + "param " + p + "\n";
    return s;
  };
  const std::string text = "module\nconv conv {\n  nodes 1\n" + params("  ") +
                           "  types float32 float32\n  x p0 [2, 8, 4, 4]\n  w p1 constant\n  out [2, 32, 4, 4]\n"
                           "  shape kernel [1, 1] stride [1, 1] padding [0, 0] [0, 0] dilation [1, 1] groups 1\n  channels_last\n"
                           "  epilogue conv_epilogue {\n" +
                           params("    ") +
                           "    param acc acc float32[2, 16, 32]\n    outer i0 [2]\n    outer i1 [16]\n    inner r0 [32]\n    lanes inner\n"
                           "    each_outer:\n      v0 = const float32 6\n      v1 = const float32 3\n    each_inner:\n" +
                           numbered(insts, {{"v10", 0}, {"v11", 1}}) + "  }\n}\n";
  return loop::parse_module(text, "test");
}

std::vector<FinishStep> steps_of(const std::vector<std::string>& insts, bool twice = false) {
  const loop::Module m = module_of(insts);
  return finish_steps(std::get<loop::ConvKernel>(m.kernels[loop::KernelId{0}]), twice);
}

Kinds kinds_of(const std::vector<std::string>& insts, bool twice = false) {
  Kinds kinds;
  for (const FinishStep& s : steps_of(insts, twice)) kinds.push_back(s.kind);
  return kinds;
}

TEST_CASE("a bias, limits and both stores are steps") {
  const auto steps = steps_of({"v0 = load float32 acc[i0*512 + i1*32 + r0]", kBias, kBiased, "v3 = op relu float32 v2",
                               "v4 = op minimum float32 v3, v10", "v5 = op cast bfloat16 v4",
                               "v6 = store bfloat16 p5[i0*512 + i1*32 + r0] v5", "v7 = store float32 p4[i0*1024 + i1*64 + r0 + 32] v4"});
  const std::vector<FinishStep> expected = {{AOTC_FINISH_ADD_COLUMN, ParamId{2}, 0, 0, 0},
                                            {AOTC_FINISH_AT_LEAST, kNone<ParamId>, 0, 0, 0},
                                            {AOTC_FINISH_AT_MOST, kNone<ParamId>, 6, 0, 0},
                                            {AOTC_FINISH_STORE_BF16, ParamId{5}, 0, 0, 32},
                                            {AOTC_FINISH_STORE_F32, ParamId{4}, 0, 32, 64}};
  CHECK(steps == expected);
}

TEST_CASE("a residual is a step, but not of sums that may be finished twice") {
  const std::vector<std::string> insts = {kSum, "v1 = load bfloat16 p3[i0*512 + i1*32 + r0]", "v2 = op cast float32 v1",
                                          "v3 = op add float32 v0, v2", "v4 = store float32 p4[i0*512 + i1*32 + r0] v3"};
  CHECK(kinds_of(insts) == Kinds{AOTC_FINISH_ADD_BF16, AOTC_FINISH_STORE_F32});
  CHECK(kinds_of(insts, true).empty());
}

TEST_CASE("hard swish is one step") {
  CHECK(kinds_of({kSum, "v1 = op add float32 v0, v11", "v2 = op relu float32 v1", "v3 = op minimum float32 v2, v10",
                  "v4 = op mul float32 v0, v3", "v5 = op div float32 v4, v10", "v6 = store float32 p4[i0*512 + i1*32 + r0] v5"}) ==
        Kinds{AOTC_FINISH_HARD_SWISH, AOTC_FINISH_STORE_F32});
}

TEST_CASE("what the steps cannot say is left to the epilogue") {
  const std::string store = "v9 = store float32 p4[i0*512 + i1*32 + r0] v8";
  CHECK(kinds_of({kSum, "v8 = op exp float32 v0", store}).empty());
  CHECK(kinds_of({kSum, "v8 = op mul float32 v0, v0", store}).empty());
  CHECK(kinds_of({kSum, "v1 = op relu float32 v0", "v8 = op mul float32 v0, v1", store}).empty());
  CHECK(kinds_of({kSum, "v1 = op cast bfloat16 v0", "v2 = op cast float32 v1", "v8 = op relu float32 v2", store}).empty());  // rounded
  CHECK(kinds_of({kSum, "v8 = op relu float32 v0", "v9 = store float32 p4[i0*512 + i1*32 + r0*1] v0"}).empty());  // what it was before
  CHECK(kinds_of({kSum, "v8 = op relu float32 v0", "v9 = store float32 p4[i0*512 + r0*16 + i1] v8"}).empty());    // turned
  CHECK(kinds_of({kSum, "v8 = op relu float32 v0", "v9 = store float32 p4[i0*600 + i1*32 + r0] v8"}).empty());    // a gap between images
}

}  // namespace
}  // namespace aotc::forms::cpu
