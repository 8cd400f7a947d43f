// Which epilogues of sums of bytes are said as data, and how.
#include "forms/cpu/byte_finish.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "aotc/detail/bytes_abi.h"
#include "loop/text.h"

namespace aotc::forms::cpu {
namespace {

using loop::ParamId;

/// A product of bytes with an epilogue over (rows i0, columns r0); v0 is 0.5, v1 is 7, v2 is 255, v3 is 4.
std::optional<ByteFinish> finish_of(const std::string& insts) {
  const auto params = [](const std::string& indent) {
    std::string s;
    for (const char* p :
         {"p0 input uint8[16, 8]", "p1 input int8[32, 8]", "p2 input int32[32]", "p3 input float32[32]", "p4 input float32[32]",
          "p5 input float32[16, 32]", "p6 input uint8[16, 32]", "p7 output uint8[16, 32]", "p8 output float32[16, 32]"})
      s += indent + "param " + p + "\n";
    return s;
  };
  const std::string text =
      "module\nmatmul mm {\n  nodes 1\n" + params("  ") +
      "  types uint8 int32\n  batch []\n  size [16, 32, 8]\n  a p0 base [0] batch [] row [8] col [1]\n"
      "  b p1 base [0] batch [] row [1] col [8] constant\n  segment [0, 32]\n  epilogue mm_epilogue0 {\n" +
      params("    ") +
      "    param acc acc int32[16, 32]\n    outer i0 [16]\n    inner r0 [32]\n    lanes inner\n    each_outer:\n"
      "      v0 = const float32 0.5\n      v1 = const float32 7\n      v2 = const float32 255\n      v3 = const float32 4\n"
      "    each_inner:\n" +
      insts + "  }\n}\n";
  const loop::Module m = loop::parse_module(text, "test");
  const auto& k = std::get<loop::MatmulKernel>(m.kernels[loop::KernelId{0}]);
  return byte_finish(k, k.segments.at(0));
}

const std::string kScaled =
    "      v4 = load int32 acc[i0*32 + r0]\n      v5 = load int32 p2[r0]\n      v6 = op sub int32 v4, v5\n      v7 = op cast float32 v6\n"
    "      v8 = load float32 p3[r0]\n      v9 = op mul float32 v7, v8\n      v10 = load float32 p4[r0]\n      v11 = op add float32 v9, "
    "v10\n";

TEST_CASE("sums of bytes that are scaled, moved, limited and rounded are data") {
  const auto f =
      finish_of(kScaled +
                "      v12 = op relu float32 v11\n      v13 = op minimum float32 v12, v3\n      v14 = op mul float32 v13, v0\n"
                "      v15 = op round float32 v14\n      v16 = op add float32 v15, v1\n      v17 = op relu float32 v16\n"
                "      v18 = op minimum float32 v17, v2\n      v19 = op cast uint8 v18\n      v20 = store uint8 p7[i0*32 + r0] v19\n");
  REQUIRE(f);
  CHECK((f->sub.param == ParamId{2} && f->scale.param == ParamId{3} && f->bias.param == ParamId{4} && f->bytes.param == ParamId{7}));
  CHECK((f->floats.param == kNone<ParamId> && f->add_kind == AOTC_BYTES_ADD_NONE && f->bytes.pitch == 32 && !f->trips));
  CHECK((f->zero == 7 && f->steps == 0.5f && f->at_least == 0 && f->at_most == 4));
}

TEST_CASE("limits that bytes have anyway are no data") {
  const auto f =
      finish_of(kScaled +
                "      v12 = op relu float32 v11\n      v13 = op mul float32 v12, v0\n      v14 = op round float32 v13\n"
                "      v15 = op minimum float32 v14, v2\n      v16 = op cast uint8 v15\n      v17 = store uint8 p7[i0*32 + r0] v16\n");
  REQUIRE(f);
  CHECK((f->zero == 0 && std::isinf(f->at_least) && std::isinf(f->at_most)));
}

TEST_CASE("a residual of bytes, or one beside what went through bytes, is data") {
  const std::string bytes =
      "      v12 = load uint8 p6[i0*32 + r0]\n      v13 = op cast float32 v12\n      v14 = op sub float32 v13, v1\n"
      "      v15 = op mul float32 v14, v0\n      v16 = op add float32 v11, v15\n      v17 = op relu float32 v16\n"
      "      v18 = store float32 p8[i0*32 + r0] v17\n";
  const auto f = finish_of(kScaled + bytes);
  REQUIRE(f);
  CHECK((f->add_kind == AOTC_BYTES_ADD_U8 && f->add.param == ParamId{6} && f->add_zero == 7 && f->add_scale == 0.5f));
  CHECK((f->at_least == 0 && f->floats.param == ParamId{8} && f->bytes.param == kNone<ParamId>));
  const auto trip =
      finish_of(kScaled +
                "      v12 = load float32 p5[i0*32 + r0]\n      v13 = op mul float32 v11, v3\n      v14 = op round float32 v13\n"
                "      v15 = op relu float32 v14\n      v16 = op minimum float32 v15, v2\n      v17 = op cast uint8 v16\n"
                "      v18 = op cast float32 v17\n      v19 = op mul float32 v18, v0\n      v20 = op add float32 v19, v12\n"
                "      v21 = op mul float32 v20, v3\n      v22 = op round float32 v21\n      v23 = op add float32 v22, v1\n"
                "      v24 = op relu float32 v23\n      v25 = op minimum float32 v24, v2\n      v26 = op cast uint8 v25\n"
                "      v27 = op cast float32 v26\n      v28 = op sub float32 v27, v1\n      v29 = op mul float32 v28, v0\n"
                "      v30 = store float32 p8[i0*32 + r0] v29\n      v31 = store uint8 p7[i0*32 + r0] v26\n");
  REQUIRE(trip);
  CHECK((trip->trips && trip->trip_zero == 0 && trip->trip_steps == 4 && trip->trip_scale == 0.5f));
  CHECK((trip->add_kind == AOTC_BYTES_ADD_F32 && trip->add.param == ParamId{5} && trip->zero == 7 && trip->steps == 4));
  CHECK((trip->bytes.param == ParamId{7} && trip->floats.param == ParamId{8} && trip->again == 0.5f));
}

TEST_CASE("what data cannot say stays an epilogue") {
  // A cast that wraps, a sum that is used twice, a row's scale.
  CHECK(!finish_of(kScaled +
                   "      v12 = op mul float32 v11, v0\n      v13 = op round float32 v12\n      v14 = op minimum float32 v13, v2\n"
                   "      v15 = op cast uint8 v14\n      v16 = store uint8 p7[i0*32 + r0] v15\n"));
  CHECK(!finish_of(kScaled + "      v12 = op mul float32 v11, v11\n      v13 = store float32 p8[i0*32 + r0] v12\n"));
  CHECK(!finish_of(kScaled + "      v12 = op sigmoid float32 v11\n      v13 = store float32 p8[i0*32 + r0] v12\n"));
  CHECK(
      !finish_of("      v4 = load int32 acc[i0*32 + r0]\n      v5 = op cast float32 v4\n      v6 = load float32 p3[i0]\n"
                 "      v7 = op mul float32 v5, v6\n      v8 = store float32 p8[i0*32 + r0] v7\n"));
}

}  // namespace
}  // namespace aotc::forms::cpu
