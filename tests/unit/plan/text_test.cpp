// Plan text: every field is printed and read back, and faults are told with their place.
#include "plan/text.h"

#include <catch2/catch.hpp>

#include "plan/spelling.h"

using namespace aotc;
using namespace aotc::plan;

namespace {

const char kEverything[] = R"(plans
sym batch [1, 64] multiple_of 2 tune [2, 8]
sym len [0, inf]
kernel 0 "linear_relu"
kernel 1 "conv_1"
kernel 2 "attend"
kernel 3 "softmax"
symbols [batch, len]
weight 0 "fc.weight.panels" source c0 offset 0 bytes 4096 panels {dtype float32 col_stride 1 rows [{count 32}, {count 6 inner 3 outer_stride 40 inner_stride 2 taps [0, 2, 5]}] matrices [{begin 0 cols 32}, {begin 64 cols 20 rows 1}]}
weight 1 "a \"quoted\" name" source c4 offset 4096 bytes 64
weights_bytes 4160
state_initial [-1, 1]
config 0 kernel "linear_relu" choice "gemm mr=6 nv=1 mc=36 nc=64 kc=128 kp=512 pack_a=0 pack_b=0"
config 1 kernel "conv_1" choice "conv_product mc=32 nc=96 kc=64 kp=128 pack_w=0"
config 2 kernel "attend" choice "attention q_block=16 kv_block=64"
config 3 kernel "softmax" choice "cuda_row threads=64 lanes=4 steps=4 resident=1 streams=0 global=0 rows=1 across=0 blocks=1 pieces=1" symbol "softmax_kernel" max_smem_bytes 4096
plan 0 "batch in [2, 8] by 2" {
  range 0 batch min 2 max 8 multiple_of 2
  range 1 len min 0 max inf
  guard 0 le a [len] b [batch*4096] why "it fits"
  guard 1 divisible a [batch] b [2]
  buffer p0 "x" of b0 place input index 1 bytes [batch*len*4] live [0, 4)
  buffer p1 "w" of b7 place weight bytes [4096] live [0, 4)
  buffer p2 "a" of b1 place arena bytes [batch*512] live [0, 1)
  buffer p3 "b" of b2 place arena bytes [batch*512] live [1, 3) in_place_of p2
  buffer p4 "c" of b3 place arena offset [batch*512] bytes [floordiv(len, 2)*64] live [0, 3)
  buffer p5 "cache" of b4 place state bytes [64] live [0, 4)
  buffer p6 "cache.next" of b5 place state_next bytes [64] live [3, 4)
  buffer p7 "y" of b6 place output bytes [batch*512] live [2, 4)
  step 0 cpu kernel "linear_relu" args [p0, p1, p2, p4] symbol "aotc_gemm_f32" library true config 0 sizes [1, batch, len*2] work [batch] grain [max(1, len)] scratch_bytes [8192] label "linear relu"
  step 1 cuda kernel "softmax" args [p2, p3, p4] symbol "softmax" sizes [len] grid [batch, 1, floordiv(len + 3, 4)] block [256, 2, 1] smem_bytes [len*4 + 64] max_smem_bytes 4096 maps [{arg 1 dtype bfloat16 swizzle 128 offset [len*32] dims [batch, len*4 + 8] strides [batch*16] box [64, 128]}, {arg 0 dtype float32 dims [8, 2, 3] strides [32, 64] box [8, 1, 3]}] overlaps true
  step 2 copy args [p3, p7] label "y"
  step 3 zero args [p6]
  arena_bytes [batch*512 + floordiv(len, 2)*64]
  scratch_bytes [8192]
  arena_bytes_max inf
  sum_bytes_max 81920
  live_bytes_max 40960
}
)";

/// Without the comments, which are made from the rest.
std::string bare(const std::string& text) {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin) + 1;
    const std::string line = text.substr(begin, end - begin);
    if (line.find_first_not_of(' ') != line.find('#')) out += line;
    begin = end;
  }
  return out;
}

/// The text with one piece replaced.
std::string error_of(const std::string& from, const std::string& to) {
  std::string text = kEverything;
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  try {
    parse_plans(text, "bad.plan");
  } catch (const Diagnostic& d) { return d.what(); }
  return "no error";
}

struct Grown {
  int first = 0;
  std::string second;
  std::optional<int> third;
};

}  // namespace

template <>
struct aotc::FieldTable<Grown> {
  static constexpr auto fields = std::tuple{field("first", &Grown::first), field("second", &Grown::second)};
};
static_assert(!kComplete<Grown>, "a struct with a member that its table lacks");
static_assert(kComplete<Step> && kComplete<PlannedBuffer> && kComplete<Plan> && kComplete<PlanSet> && kComplete<Weight>);

TEST_CASE("what is printed reads back, to the last field") {
  const PlanSet s = parse_plans(kEverything, "everything.plan");
  const std::string text = print(s);
  CHECK(bare(text) == kEverything);
  CHECK(print(parse_plans(text, "again")) == text);

  CHECK(s.syms[SymId{0}].tune == std::vector<int64_t>{2, 8});
  CHECK(s.symbols == std::vector<SymId>{SymId{0}, SymId{1}});
  CHECK(s.state_initial == std::vector<int>{-1, 1});
  CHECK(forms::str(s.configs.at(0).choice) == "gemm mr=6 nv=1 mc=36 nc=64 kc=128 kp=512 pack_a=0 pack_b=0");
  CHECK(s.configs.at(1).choice.form == forms::find_form("conv_product"));
  CHECK(s.configs.at(2).choice.values == std::vector<int32_t>{16, 64});
  CHECK((s.configs[3].symbol == "softmax_kernel" && s.configs[3].max_smem_bytes == 4096 && s.configs[2].kernel == loop::KernelId{2}));
  const Panels& panels = *s.weights.at(0).panels;
  CHECK(panels.rows.at(1) == Panels::Rows{6, 3, 40, 2, {0, 2, 5}});
  CHECK(panels.matrices.at(1) == Panels::Matrix{64, 20, 1});
  CHECK(s.weights.at(1).name == "a \"quoted\" name");
  CHECK((s.weights[1].source == ConstId{4} && s.weights[1].offset == 4096 && s.weights[1].bytes == 64 && s.weights_bytes == 4160));

  const Plan& p = s.plans.at(0);
  const Expr batch = Expr::symbol(SymId{0}), len = Expr::symbol(SymId{1});
  CHECK(p.name == "batch in [2, 8] by 2");
  CHECK((p.ranges.at(0).max == 8 && p.ranges[0].multiple_of == 2 && p.ranges.at(1).max == kInf && p.ranges[1].multiple_of == 1));
  CHECK((p.guards.at(0).kind == ShapeGuard::Kind::le && p.guards[0].b == batch * 4096 && p.guards[0].why == "it fits"));
  CHECK((p.guards.at(1).kind == ShapeGuard::Kind::divisible && p.guards[1].b.is(2)));
  CHECK((p.buffers[PlanBufferId{0}].index == 1 && p.buffers[PlanBufferId{1}].buffer == loop::BufferId{7}));
  CHECK(p.buffers[PlanBufferId{3}].in_place_of == PlanBufferId{2});
  CHECK(p.buffers[PlanBufferId{4}].offset == batch * 512);
  CHECK(p.buffers[PlanBufferId{7}].live == LiveRange{2, 4});
  CHECK((p.steps.at(0).library && p.steps[0].config == 0 && p.steps[0].grain == max(1, len) && p.steps[0].scratch_bytes.is(8192)));
  CHECK(p.steps[0].label == "linear relu");
  const Step& cuda = p.steps.at(1);
  CHECK((cuda.kind == StepKind::cuda && cuda.kernel == loop::KernelId{3} && cuda.config == -1 && !cuda.library));
  CHECK((cuda.grid[2] == floordiv(len + 3, 4) && cuda.block == std::array<int, 3>{256, 2, 1} && cuda.smem_bytes == len * 4 + 64));
  const forms::TensorMap& map = cuda.maps.at(0);
  CHECK((map.arg == 1 && map.dtype == DType::bf16 && map.swizzle_bytes == 128 && map.offset_bytes == len * 32 && cuda.overlaps));
  CHECK((map.dims == Exprs{batch, len * 4 + 8} && map.stride_bytes == Exprs{batch * 16} && map.box == std::vector<int32_t>{64, 128}));
  CHECK((cuda.maps.at(1).swizzle_bytes == 0 && cuda.maps[1].offset_bytes.is(0) && !p.steps[2].overlaps && p.steps[2].maps.empty()));
  CHECK((p.steps.at(2).kind == StepKind::copy && p.steps[2].kernel == kNone<loop::KernelId>));
  CHECK((p.arena_bytes_max == kInf && p.sum_bytes_max == 81920 && p.live_bytes_max == 40960));
}

TEST_CASE("faults of a text say line, column and what was expected") {
  CHECK(error_of("kernel 1 \"conv_1\"", "kernel 2 \"conv_1\"") ==
        "bad.plan: 5:8: out of order: this is number 1\n  note: the line is: kernel 2 \"conv_1\"");
  struct Row {
    const char *from, *to, *want;
  };
  const Row rows[] = {
      {"plans\n", "plan\n", "1:1: expected 'plans'"},
      {"[batch, len]", "[batch, hello]", "8:17: no such symbol"},
      {"[batch*len*4]", "[batch*hello]", "unknown symbol 'hello'"},
      {"[batch*len*4]", "[batch*9223372036854775807*4]", "sizes overflow 64 bits"},
      {"place input", "place nowhere", "expected input, output, weight"},
      {"place input", "colour input", "expected one of of, place, index"},
      {"place input", "", "'place' is missing"},
      {"place input", "place input place input", "'place' stands twice"},
      {"mr=6", "mr=0", "mr: 0 is not in [1, 64]"},
      {"mr=6", "mr=99999999999", "'99999999999' is no number"},
      {"nv=1 ", "", "'nv=number' is expected"},
      {"nc=64", "nc=65", "nc: 65 is not a multiple of 32"},
      {"kp=512", "kp=500", "kp: 500 is not a multiple of kc"},
      {"\"gemm ", "\"fft ", "'fft' is no form of a kernel"},
      {"kernel \"attend\"", "kernel \"attends\"", "no such kernel"},
      {"buffer p3", "buffer p4", "out of order: this is p3"},
      {"in_place_of p2", "in_place_of p9", "in place of nothing"},
      {"in_place_of p2", "in_place_of p4", "a wrong in-place pair"},
      {"live [0, 1)", "live [0, 9)", "lives outside the steps"},
      {"live [0, 1)", "live [0, 1]", "expected ')'"},
      {"args [p3, p7]", "args [p3, p99]", "step 2 has an unknown argument"},
      {"args [p3, p7]", "args [p3]", "copy step 2 has 1 arguments"},
      {"args [p3, p7]", "args [p2, p7]", "outside its life"},
      {"config 0 sizes", "config 7 sizes", "uses config 7"},
      {"block [256, 2, 1]", "block [256, 2]", "expected 3 values"},
      {"block [256, 2, 1]", "block [256, 0, 1]", "an empty block"},
      {"offset [batch*512]", "offset [batch*256]", "share"},
      {"offset [batch*512]", "offset [batch*512 + 1]", "not aligned"},
      {"arena_bytes [batch*512 + floordiv(len, 2)*64]", "arena_bytes [batch*512]", "outside the arena"},
      {"smem_bytes [len*4 + 64]", "smem_bytes [len*4 - 64]", "shared memory"},
      {"{arg 1 dtype", "{arg 3 dtype", "a tensor map of no argument"},
      {"strides [32, 64] box", "strides [32] box", "unequal ranks"},
      {"box [64, 128]", "box [64, 512]", "a box that no copy takes"},
      {"strides [batch*16]", "strides [batch*8 - 8]", "a stride of 8 bytes"},
      {"dims [8, 2, 3]", "dims [8, 2, 0]", "a tensor map of nothing"},
      {"offset [len*32] dims", "offset [len*32 + 8] dims", "a tensor map begins at"},
      {"offset 4096 bytes 64", "offset 4000 bytes 64", "lies in another one"},
      {"weights_bytes 4160", "weights_bytes 4100", "outside the blob"},
      {"weights_bytes 4160\n", "", "'weights_bytes' is missing"},
      {"cols 20 rows 1", "cols 20 rows 5", "has no rows"},
      {"state_initial [-1, 1]", "state_initial [-1, 8]", "starts with weight 8"},
      {"range 0 batch min 2", "range 0 batch min 200", "an empty range"},
      {"step 3 zero args [p6]\n", "step 3 zero args [p6] junk\n", "expected one of kernel, args"},
      {"label \"y\"", "label \"y", "the string does not end"},
  };
  for (const Row& r : rows) {
    INFO(r.from << " -> " << r.to);
    CHECK_THAT(error_of(r.from, r.to), Catch::StartsWith("bad.plan: ") && Catch::Contains(r.want));
  }
  const std::string text = kEverything;
  CHECK_THROWS_WITH(parse_plans(text.substr(0, text.size() - 2), "bad.plan"), Catch::Contains("the text ends too early"));
}
