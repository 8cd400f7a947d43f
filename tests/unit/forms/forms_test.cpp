// The CPU forms: every kernel has a choice that fits, all that fit are legal, and choices survive their text.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "aotc/detail/attention_split_abi.h"
#include "aotc/detail/bytes_abi.h"
#include "aotc/detail/held_abi.h"
#include "aotc/detail/parts_abi.h"
#include "forms/list.h"
#include "forms/rules.h"
#include "graph/text.h"
#include "loop/lower.h"

namespace aotc::forms {
namespace {

const Machine& machine() {
  static const Machine m = machine_of(Isa::avx512, 2);
  return m;
}

loop::MatmulKernel product(int64_t m, int64_t n, int64_t k, bool weight) {
  loop::MatmulKernel mm;
  mm.name = "mm";
  mm.m = m, mm.n = n, mm.k = k;
  mm.a.row_stride = k, mm.a.col_stride = 1;
  mm.b.row_stride = n, mm.b.col_stride = 1;
  mm.b_constant = weight;
  for (const char* name : {"a", "b"}) mm.params.push({name, loop::ParamRole::input, DType::f32, {}});
  mm.a.param = loop::ParamId{0}, mm.b.param = loop::ParamId{1};
  mm.segments.push_back({0, n, {}});
  return mm;
}

loop::ConvKernel convolution(int64_t c, int64_t co, int64_t hw, int64_t kernel, int64_t groups) {
  loop::ConvKernel v;
  v.name = "conv";
  v.x_dims = {1, c, hw, hw}, v.out_dims = {1, co, hw, hw};
  v.kernel = {kernel, kernel}, v.stride = v.dilation = {1, 1}, v.padding = v.padding_hi = {kernel / 2, kernel / 2};
  v.groups = groups, v.w_constant = true;
  for (const char* name : {"x", "w"}) v.params.push({name, loop::ParamRole::input, DType::f32, {}});
  v.x = loop::ParamId{0}, v.w = loop::ParamId{1};
  return v;
}

std::vector<Candidate> of(const loop::Kernel& k) {
  const SymTable syms;
  const Decision d = decide({k, syms, machine(), {}});
  REQUIRE(!d.candidates.empty());
  REQUIRE(d.candidates.front().fit.ok);
  CHECK(d.choice == d.candidates.front().choice);
  for (const Candidate& c : d.candidates) {
    if (!c.fit) {
      CHECK(!c.fit.why.empty());
      continue;
    }
    CHECK(check(c.choice));
    const auto back = parse_choice(str(c.choice));
    REQUIRE(back);
    CHECK(*back == c.choice);
  }
  return d.candidates;
}

int field(const Choice& c, std::string_view name) {
  for (size_t i = 0; i < c.values.size(); ++i)
    if (c.form->fields()[i].name == name) return c.values[i];
  FAIL("no field " << name << " in " << str(c));
  return 0;
}

}  // namespace

TEST_CASE("every product has a choice that fits, and all that fit are legal configurations") {
  for (int64_t m : {0, 1, 7, 32, 64, 128, 3136, 100000})
    for (int64_t k : {0, 1, 63, 768, 4096, 70000})
      for (int64_t n : {1, 64, 4096})
        for (bool weight : {false, true}) {
          INFO(m << " " << n << " " << k << " " << weight);
          for (const Candidate& c : of(product(m, n, k, weight)))
            if (c.fit) CHECK(check(c.choice));
        }
}

TEST_CASE("skinny products keep all rows in one block and have work for every thread") {
  const Choice c = of(product(32, 4096, 4096, true)).front().choice;
  CHECK(field(c, "mc") >= 32);
  CHECK(field(c, "kp") >= 4096);
  CHECK(4096 / field(c, "nc") >= 4);
}

TEST_CASE("products of few rows or columns whose operands lie along k are dot products") {
  const auto along_k = [](int64_t m, int64_t n, int64_t k) {
    loop::MatmulKernel mm = product(m, n, k, false);
    mm.b.row_stride = 1, mm.b.col_stride = k;
    return mm;
  };
  CHECK(of(along_k(1, 1000, 256)).front().choice.form->name() == "gemm_dots");
  CHECK(of(along_k(1000, 1, 256)).front().choice.form->name() == "gemm_dots");
  CHECK(of(along_k(256, 256, 256)).front().choice.form->name() == "gemm");
  CHECK(of(product(1, 1000, 256, false)).front().choice.form->name() == "gemm");
  loop::MatmulKernel weight = along_k(256, 512, 1024);  // every few rows would read the columns from L2 again
  weight.b_constant = true;
  const SymTable syms;
  const loop::Kernel kernel = weight;
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    const Machine machine = machine_of(isa, 1);
    const Site site{kernel, syms, machine, {}};
    CHECK(decide(site).choice.form->name() == "gemm");
  }
  CHECK(of(product(64, 4096, 4096, true)).front().choice.form->name() == "gemm");
}

TEST_CASE("Strassen's products wait for leave, and are for weights of float32, even k and enough rows") {
  const SymTable syms;
  const auto strassen = [&](const loop::MatmulKernel& mm, bool allowed, Isa isa = Isa::avx512) {
    const Machine machine = machine_of(isa, 2);
    Numerics numerics;
    numerics.strassen = allowed;
    const loop::Kernel kernel = mm;
    const Site site{kernel, syms, machine, numerics};
    size_t fitting = 0;
    for (const Candidate& c : decide(site).candidates) {
      if (c.choice.form->name() != "gemm_strassen") continue;
      CHECK((c.fit.ok || !c.fit.why.empty()));
      if (!c.fit) continue;
      CHECK(check(c.choice));
      aotc_gemm_config g{};
      g.mr = field(c.choice, "mr"), g.mc = field(c.choice, "mc"), g.nc = field(c.choice, "nc"), g.kc = field(c.choice, "kc");
      CHECK(*c.choice.form->step(site, c.choice).scratch_bytes.as_const() >= aotc_gemm_strassen_scratch_bytes(&g, *mm.k.as_const()));
      ++fitting;
    }
    return fitting > 0;
  };
  for (Isa isa : {Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    CHECK(strassen(product(128, 768, 3072, true), true, isa));
    CHECK(!strassen(product(128, 768, 3072, true), false, isa));
  }
  CHECK(strassen(product(24, 33, 64, true), true));
  CHECK(!strassen(product(23, 768, 768, true), true));
  CHECK(!strassen(product(128, 768, 769, true), true));
  CHECK(!strassen(product(128, 768, 62, true), true));
  CHECK(!strassen(product(128, 768, 768, false), true));
  loop::MatmulKernel halves = product(128, 768, 768, true);
  halves.in = DType::bf16;
  CHECK(!strassen(halves, true));
  // By estimate it is the choice where there is much to save, and not where one panel has no partner.
  const Machine machine = machine_of(Isa::avx512, 2);
  Numerics numerics;
  numerics.strassen = true;
  const auto chosen = [&](int64_t m, int64_t n, int64_t k) {
    const loop::Kernel kernel = product(m, n, k, true);
    return decide({kernel, syms, machine, numerics}).choice.form->name();
  };
  CHECK(chosen(128, 3072, 768) == "gemm_strassen");
  CHECK(chosen(512, 768, 768) == "gemm_strassen");
  CHECK(chosen(512, 32, 768) == "gemm");
  // Blocks of more than 256 of k have more error still: only where less than the highest accuracy is asked for.
  const auto longest = [&](F32Matmul accuracy) {
    numerics.f32_matmul = accuracy;
    const loop::Kernel kernel = product(128, 768, 3072, true);
    int kc = 0;
    for (const Candidate& c : decide({kernel, syms, machine, numerics}).candidates)
      if (c.fit && c.choice.form->name() == "gemm_strassen") kc = std::max(kc, field(c.choice, "kc"));
    return kc;
  };
  CHECK(longest(F32Matmul::highest) == 256);
  CHECK(longest(F32Matmul::high) == 512);
}

TEST_CASE("products of float32 with a weight go by tiles in parts where the machine has them and rows are enough") {
  const SymTable syms;
  for (Isa isa : {Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx})
    for (DType t : {DType::f32, DType::f64, DType::bf16})
      for (int64_t m : {0, 1, 4, 128, 3136})
        for (int64_t k : {0, 63, 768, 4096})
          for (bool weight : {false, true}) {
            INFO(isa_name(isa) << " " << dtype_name(t) << " " << m << " " << k << " " << weight);
            loop::MatmulKernel mm = product(m, 1024, k, weight);
            mm.in = t;
            const Machine machine = machine_of(isa, 2);
            const loop::Kernel kernel = mm;
            const Site site{kernel, syms, machine, {}};
            const Decision d = decide(site);
            const bool parts = isa == Isa::amx && t == DType::f32 && weight && k > 0;
            if (m >= 128 && k >= 768) CHECK((d.choice.form->name() == "gemm_parts") == parts);
            if (m <= 4) CHECK(d.choice.form->name() != "gemm_parts");
            for (const Candidate& c : d.candidates) {
              if (c.choice.form->name() != "gemm_parts") continue;
              CHECK((parts || (!c.fit && !c.fit.why.empty())));
              if (!c.fit) continue;
              CHECK(check(c.choice));
              const StepSpec s = c.choice.form->step(site, c.choice);
              aotc_gemm_config g{};
              g.mc = field(c.choice, "mc"), g.nc = field(c.choice, "nc"), g.kc = 256, g.kp = field(c.choice, "kp"), g.b_packed = 1;
              CHECK(*s.scratch_bytes.as_const() >= aotc_gemm_parts_scratch_bytes(&g, k));
              CHECK(*s.scratch_bytes.as_const() >= aotc_gemm_scratch_bytes(&g, k, 4));
            }
          }
}

TEST_CASE("products of bf16 go by tiles where the machine has them, others and elsewhere not, and say why") {
  const SymTable syms;
  for (Isa isa : {Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx})
    for (DType t : {DType::f32, DType::f16, DType::bf16})
      for (int64_t m : {0, 1, 32, 100, 2048})
        for (int64_t k : {0, 63, 1024, 70000})
          for (bool weight : {false, true}) {
            INFO(isa_name(isa) << " " << dtype_name(t) << " " << m << " " << k << " " << weight);
            loop::MatmulKernel mm = product(m, 1024, k, weight);
            mm.in = t;
            const Machine machine = machine_of(isa, 4);
            const loop::Kernel kernel = mm;
            const Site site{kernel, syms, machine, {}};
            const Decision d = decide(site);
            const bool tiles = isa == Isa::amx && t == DType::bf16;
            if (m >= 32 && k == 1024) CHECK((d.choice.form->name() == "gemm_tiles") == tiles);  // its epilogue is code
            for (const Candidate& c : d.candidates) {
              if (c.choice.form->name() != "gemm_tiles") continue;
              CHECK((tiles || (!c.fit && !c.fit.why.empty())));
              if (!c.fit) continue;
              CHECK(check(c.choice));
              const StepSpec s = c.choice.form->step(site, c.choice);
              aotc_gemm_config g{};
              g.mc = field(c.choice, "mc"), g.nc = field(c.choice, "nc"), g.kc = 256, g.kp = 1024;
              g.b_packed = c.choice.form->weight(kernel, c.choice).has_value();
              CHECK(*s.scratch_bytes.as_const() >= aotc_gemm_tiles_scratch_bytes(&g, k));
              CHECK(*s.scratch_bytes.as_const() >= aotc_gemm_scratch_bytes(&g, k, 4) + (g.b_packed ? AOTC_GEMM_WIDENED_BYTES : 0));
            }
          }
}

TEST_CASE("parts of k that stay near are for many rows of bf16 and weights whose k is known") {
  const SymTable syms;
  for (Isa isa : {Isa::avx512_bf16, Isa::amx})
    for (int64_t m : {1, 63, 1024, 2048})
      for (int64_t k : {32, 64, 1024, 4096, 70000})
        for (bool weight : {false, true}) {
          INFO(isa_name(isa) << " " << m << " " << k << " " << weight);
          loop::MatmulKernel mm = product(m, 1024, k, weight);
          mm.in = DType::bf16;
          const Machine machine = machine_of(isa, 2);
          const loop::Kernel kernel = mm;
          const Site site{kernel, syms, machine, {}};
          bool fits = false;
          for (const Candidate& c : decide(site).candidates) {
            if (c.choice.form->name() != "gemm_held") continue;
            if (!c.fit) {
              CHECK(!c.fit.why.empty());
              continue;
            }
            fits = true;
            CHECK(check(c.choice));
            const StepSpec s = c.choice.form->step(site, c.choice);
            aotc_gemm_config g{};
            g.mc = field(c.choice, "mc"), g.nc = field(c.choice, "nc"), g.kc = 256, g.kp = 1024, g.b_packed = 1;
            CHECK(*s.scratch_bytes.as_const() >= aotc_gemm_held_scratch_bytes(&g, k));
            CHECK(*s.scratch_bytes.as_const() >= aotc_gemm_scratch_bytes(&g, k, 4) + AOTC_GEMM_WIDENED_BYTES);
          }
          CHECK(fits == (isa == Isa::amx && weight && m >= 64 && k >= 64 && k <= 4096));
        }
}

TEST_CASE("products in tiles whose weight stays near take all rows at once, others no more than they did") {
  const SymTable syms;
  const auto rows_of = [&](int64_t m, int64_t n, int64_t k, DType out) {
    loop::MatmulKernel mm = product(m, n, k, true);
    mm.in = DType::bf16;
    mm.a.param = loop::ParamId{0};
    mm.params.push({"out", loop::ParamRole::output, out, {}});
    const loop::Kernel kernel = mm;
    const Decision d = decide({kernel, syms, machine_of(Isa::amx, 1), {}});
    REQUIRE(d.choice.form->name() == "gemm_tiles");
    return field(d.choice, "mc");
  };
  CHECK(rows_of(196, 1024, 256, DType::bf16) == 196);
  CHECK(rows_of(196, 256, 1024, DType::bf16) == 196);
  CHECK(rows_of(128, 768, 3072, DType::f32) == 128);
}

TEST_CASE("channels-last convolutions of bf16 go by tiles where the machine has them") {
  const SymTable syms;
  for (Isa isa : {Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx})
    for (DType t : {DType::f32, DType::bf16})
      for (int64_t c : {3, 64, 512, 20000}) {
        INFO(isa_name(isa) << " " << dtype_name(t) << " " << c);
        loop::ConvKernel v = convolution(c, 64, 28, 3, 1);
        v.in = t, v.channels_last = true;
        const Machine machine = machine_of(isa, 4);
        const loop::Kernel kernel = v;
        const Site site{kernel, syms, machine, {}};
        const Decision d = decide(site);
        const bool tiles = isa == Isa::amx && t == DType::bf16;
        if (c == 64) CHECK((d.choice.form->name() == "conv_last_tiles") == tiles);
        for (const Candidate& x : d.candidates) {
          if (x.choice.form->name() != "conv_last_tiles" || !x.fit) continue;
          CHECK(tiles);
          CHECK(check(x.choice));
          aotc_conv_config g{};
          g.algo = AOTC_CONV_LAST, g.mc = field(x.choice, "mc"), g.nc = field(x.choice, "nc");
          g.w_packed = x.choice.form->weight(kernel, x.choice).has_value();
          CHECK(*x.choice.form->step(site, x.choice).scratch_bytes.as_const() >= aotc_conv_last_tiles_scratch_bytes(&g, 9 * c));
        }
      }
}

TEST_CASE("tiles take volumes in parts of planes, and groups and one channel in place of windows that are copied") {
  const SymTable syms;
  const Machine machine = machine_of(Isa::amx, 1);
  const auto chosen = [&](loop::ConvKernel v) {
    v.in = DType::bf16, v.channels_last = true;
    const loop::Kernel kernel = v;
    return decide({kernel, syms, machine, {}}).choice;
  };
  for (int64_t c : {1, 16, 32}) {
    INFO(c);
    loop::ConvKernel v = convolution(c, 16, 48, 3, 1);
    v.x_dims = {1, c, 32, 48, 48}, v.out_dims = {1, 16, 32, 48, 48}, v.kernel = v.stride = v.dilation = {1, 1, 1};
    v.kernel = {3, 3, 3}, v.padding = v.padding_hi = {1, 1, 1};
    const Choice t = chosen(v);
    CHECK(t.form->name() == "conv_last_tiles");
    if (c > 1) CHECK((32 * 48 * 48 + field(t, "nc") - 1) / field(t, "nc") % 32 == 0);  // units
  }
  const Choice groups = chosen(convolution(120, 120, 28, 3, 5));
  CHECK(groups.form->name() == "conv_last_tiles");
  CHECK(field(groups, "nc") >= 128);  // copied windows would leave L1
}

TEST_CASE("3x3 convolutions of bf16 go by minimal filtering F(2x2) where their channels allow it, never by F(4x4)") {
  const SymTable syms;
  for (bool winograd4 : {false, true})
    for (int64_t c : {64, 72}) {
      INFO(winograd4 << " " << c);
      loop::ConvKernel v = convolution(c, 64, 28, 3, 1);
      v.in = DType::bf16, v.channels_last = true;
      const Machine machine = machine_of(Isa::avx512_bf16, 4);
      Numerics numerics;
      numerics.winograd4 = winograd4;
      const loop::Kernel kernel = v;
      const Decision d = decide({kernel, syms, machine, numerics});
      CHECK((d.choice.form->name() == "conv_winograd") == (c == 64));
      for (const Candidate& x : d.candidates)
        if (x.choice.form->name() == "conv_winograd" && x.fit) CHECK(field(x.choice, "kp") == 2);
      numerics.bf16_rounds_once = true;
      CHECK(decide({kernel, syms, machine, numerics}).choice.form->name() != "conv_winograd");
    }
}

TEST_CASE("minimal filtering F(4x4) of float32 waits for leave and sums its channels in parts") {
  const SymTable syms;
  for (const auto& [channels, part] : std::map<int64_t, int>{{16, 16}, {64, 16}, {128, 22}, {256, 32}, {512, 44}})
    for (bool winograd4 : {false, true}) {
      INFO(channels << " " << winograd4);
      loop::ConvKernel v = convolution(channels, 64, 56, 3, 1);
      v.channels_last = true;
      const Machine machine = machine_of(Isa::avx512, 1);
      Numerics numerics;
      numerics.winograd4 = winograd4;
      const loop::Kernel kernel = v;
      size_t of_four = 0, fitting = 0;
      for (const Candidate& x : decide({kernel, syms, machine, numerics}).candidates) {
        if (x.choice.form->name() != "conv_winograd" || field(x.choice, "kp") != 4) continue;
        CHECK(field(x.choice, "kc") == part);
        ++of_four, fitting += x.fit.ok;
      }
      CHECK(of_four > 0);
      CHECK((fitting > 0) == winograd4);
    }
}

TEST_CASE("windows of volumes that are 3x3 in height and width go by minimal filtering, strides and dilations along depth too") {
  const SymTable syms;
  for (int64_t deep : {1, 3})
    for (int64_t stride : {1, 2}) {
      loop::ConvKernel v = convolution(64, 64, 28, 3, 1);
      v.x_dims = {1, 64, 8, 28, 28}, v.out_dims = {1, 64, 8 / stride, 28, 28}, v.channels_last = true;
      v.kernel = {deep, 3, 3}, v.stride = {stride, 1, 1}, v.dilation = {1, 1, 1}, v.padding = v.padding_hi = {deep / 2, 1, 1};
      const auto form = [&] {
        const loop::Kernel kernel = v;
        return decide({kernel, syms, machine_of(Isa::avx512, 1), {}}).choice.form->name();
      };
      CHECK(form() == "conv_winograd");
      v.dilation = {2, 1, 1};
      CHECK(form() == "conv_winograd");
      v.dilation = {1, 1, 2};
      CHECK(form() != "conv_winograd");
    }
}

TEST_CASE("attention of bf16 goes by tiles where the machine has them, few rows and others not") {
  const SymTable syms;
  for (Isa isa : {Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx})
    for (DType t : {DType::f32, DType::f16, DType::bf16})
      for (int64_t q : {1, 2, 33, 128, 4096})
        for (int64_t e : {1, 64, 500, 2000}) {
          INFO(isa_name(isa) << " " << dtype_name(t) << " " << q << " " << e);
          loop::AttentionKernel a;
          a.name = "attention", a.dtype = t;
          a.batch = 1, a.heads = 8, a.kv_heads = 4, a.q_len = q, a.kv_len = 1000, a.head_dim = a.v_dim = e;
          a.q.param = a.k.param = a.v.param = a.out.param = a.params.push({"p", loop::ParamRole::input, t, {}});
          const Machine machine = machine_of(isa, 4);
          const loop::Kernel kernel = a;
          const Site site{kernel, syms, machine, {}};
          const Decision d = decide(site);
          const bool tiles = isa == Isa::amx && t == DType::bf16 && q > 2;
          if (e == 64) CHECK((d.choice.form->name() == "attention_tiles") == tiles);
          for (const Candidate& c : d.candidates) {
            if (c.choice.form->name() != "attention_tiles") continue;
            CHECK((tiles || (!c.fit && !c.fit.why.empty())));
            if (!c.fit) continue;
            CHECK(check(c.choice));
            aotc_attn_config g{};
            g.q_block = field(c.choice, "q_block"), g.kv_block = field(c.choice, "kv_block");
            const int64_t scratch = c.choice.form->step(site, c.choice).scratch_bytes.as_const().value();
            CHECK(scratch >= aotc_attn_tiles_scratch_bytes(&g, e, e));
            CHECK(scratch >= aotc_attn_scratch_bytes(&g, e, e, 4));
          }
        }
}

TEST_CASE("threads divide the keys of few rows where there are more threads than key heads") {
  const auto decided = [](int cores, int batch, const std::string& queries, int keys) {
    const std::string q = fmt::format("float32[{}, 8, {}, 64]", batch, queries), k = fmt::format("float32[{}, 2, {}, 64]", batch, keys);
    const loop::Module m =
        loop::lower(parse_graph(fmt::format("graph @m\nsym few [1, 8]\nsym many [1, 64]\ninput %q : {}\ninput %k : {}\n%y = attention(%q, "
                                            "%k, %k) {{scale=0.5, causal=false}} : {}\noutput %y\n",
                                            q, k, q),
                                "keys"));
    const Machine machine = machine_of(Isa::avx512, cores);
    const Site site{*m.kernels.begin(), m.syms, machine, {}};
    const Decision d = decide(site);
    for (const Candidate& c : d.candidates) {
      if (c.choice.form->name() != "attention_split" || !c.fit) continue;
      aotc_attn_config g{};
      g.q_block = field(c.choice, "q_block"), g.kv_block = field(c.choice, "kv_block"), g.key_part = field(c.choice, "key_part");
      CHECK((g.q_block >= 4 && g.key_part % g.kv_block == 0));
      const StepSpec step = c.choice.form->step(site, c.choice);
      const int64_t items = int64_t{2} * batch * aotc_attn_parts(keys, g.key_part);
      CHECK(step.work.is(items));
      const int64_t bytes = aotc_attn_split_shared_bytes(items, 4, 64, 4) + aotc_attn_scratch_bytes(&g, 64, 64, 4);
      if (queries == "1") CHECK(step.scratch_bytes.is(bytes));
    }
    return std::string(d.choice.form->name());
  };
  CHECK(decided(16, 1, "1", 4096) == "attention_split");
  CHECK(decided(16, 1, "few", 4096) == "attention_split");
  CHECK(decided(16, 1, "many", 4096) == "attention");
  CHECK(decided(16, 64, "1", 4096) == "attention");
  CHECK(decided(1, 1, "1", 4096) == "attention");
  CHECK(decided(16, 1, "1", 200) == "attention");
}

TEST_CASE("unsigned bytes by signed ones go by the kernels of bytes alone, other operands never") {
  const auto bytes = [](auto k) {
    k.in = DType::u8, k.acc = DType::i32;
    k.params[loop::ParamId{0}].dtype = DType::u8, k.params[loop::ParamId{1}].dtype = DType::i8;
    return k;
  };
  for (int64_t m : {0, 1, 7, 32, 3136, 100000})
    for (int64_t k : {0, 1, 63, 4096, 65536}) {
      INFO(m << " " << k);
      for (const Candidate& c : of(bytes(product(m, 200, k, true))))
        CHECK((c.fit ? c.choice.form->name() == "gemm_bytes" : !c.fit.why.empty()));
    }
  for (const Candidate& c : of(product(32, 64, 64, true))) CHECK((!c.fit || c.choice.form->name() != "gemm_bytes"));
  const SymTable syms;
  const loop::Kernel variable = bytes(product(32, 64, 64, false));
  CHECK_THROWS_AS(decide({variable, syms, machine(), {}}), Diagnostic);
  for (int64_t c : {3, 64, 512})
    for (int64_t hw : {1, 7, 56})
      for (int64_t kernel : {1, 3, 7})
        for (int64_t groups : {int64_t{1}, c}) {
          loop::ConvKernel v = bytes(convolution(c, c, hw, kernel, groups));
          v.channels_last = true;
          INFO(c << " " << hw << " " << kernel << " " << groups);
          const std::string_view taken = of(v).front().choice.form->name();
          CHECK((taken == "conv_bytes" || (groups == c && taken == "conv_bytes_depthwise")));
          if (groups == c && c > 3) CHECK(taken == "conv_bytes_depthwise");
          v.channels_last = false;  // no kernel has them so
          const loop::Kernel first = v;
          CHECK_THROWS_AS(decide({first, syms, machine(), {}}), Diagnostic);
        }
}

TEST_CASE("bytes are multiplied in tile registers where there are such and several rows, with room for what stands in") {
  const SymTable syms;
  const Machine amx = machine_of(Isa::amx, 2);
  const auto bytes = [](auto k) {
    k.in = DType::u8, k.acc = DType::i32;
    k.params[loop::ParamId{0}].dtype = DType::u8, k.params[loop::ParamId{1}].dtype = DType::i8;
    return k;
  };
  for (int64_t m : {16, 32, 3136})
    for (int64_t k : {64, 100, 4096}) {
      INFO(m << " " << k);
      const loop::Kernel kernel = bytes(product(m, 256, k, true));
      const Site site{kernel, syms, amx, {}};
      const Decision d = decide(site);
      CHECK(d.choice.form->name() == "gemm_bytes_tiles");
      aotc_gemm_bytes_config g{};
      g.mc = field(d.choice, "mc"), g.nc = field(d.choice, "nc");
      const int64_t scratch = d.choice.form->step(site, d.choice).scratch_bytes.as_const().value();
      CHECK(scratch >= aotc_bytes_tiles_scratch_bytes(g.mc, k));
      CHECK(scratch >= aotc_gemm_bytes_scratch_bytes(&g, k));
    }
  const auto conv = [&](int64_t c, int64_t hw, int64_t kernel, int64_t stride) {
    loop::ConvKernel v = bytes(convolution(c, 64, hw, kernel, 1));
    v.channels_last = true, v.stride = {stride, stride};
    v.out_dims = {1, 64, (hw - 1) / stride + 1, (hw - 1) / stride + 1};
    return v;
  };
  // Lines of taps are filled up where windows are read from strips, and only there.
  struct Row {
    int64_t c, hw, kernel, stride, line;
  };
  for (const Row& r : {Row{64, 56, 1, 1, 0}, Row{64, 56, 3, 1, 0}, Row{3, 224, 7, 2, 21}, Row{48, 28, 3, 1, 144}, Row{64, 14, 3, 2, 0}}) {
    INFO(r.c << " " << r.hw << " " << r.kernel << " " << r.stride);
    const loop::Kernel kernel = conv(r.c, r.hw, r.kernel, r.stride);
    const Site site{kernel, syms, amx, {}};
    const Decision d = decide(site);
    REQUIRE(d.choice.form->name() == "conv_bytes_tiles");
    const auto weight = d.choice.form->weight(kernel, d.choice);
    REQUIRE(weight);
    CHECK((weight->second.line == r.line && weight->second.step == 64));
    const int64_t depth = weight->second.stored_rows(weight->second.matrices.at(0));
    const int64_t scratch = d.choice.form->step(site, d.choice).scratch_bytes.as_const().value();
    CHECK(scratch >= aotc_bytes_tiles_scratch_bytes(field(d.choice, "nc"), depth));
  }
  for (const Candidate& c : of(bytes(product(32, 64, 64, true))))
    if (c.choice.form && c.choice.form->name() == "gemm_bytes_tiles") CHECK(!c.fit);
}

TEST_CASE("convolutions and attention always fit") {
  for (int64_t c : {1, 3, 64, 2048})
    for (int64_t hw : {1, 7, 56, 224})
      for (int64_t kernel : {1, 3, 7})
        for (int64_t groups : {int64_t{1}, c}) {
          INFO(c << " " << hw << " " << kernel << " " << groups);
          for (const Candidate& x : of(convolution(c, c, hw, kernel, groups)))
            if (x.fit) CHECK(field(x.choice, "kp") % field(x.choice, "kc") == 0);
        }
  for (int64_t stride : {2, 16, 512, 4096})  // transposed: by phases where a tile of all phases fits
    for (int64_t co : {1, 64}) {
      loop::ConvKernel v = convolution(64, co, 1, 1, 1);
      v.transposed = true;
      v.x_dims = {1, 64, 50}, v.out_dims = {1, co, 51 * stride};
      v.kernel = {2 * stride}, v.stride = {stride}, v.dilation = {1}, v.padding = v.padding_hi = {0};
      INFO(stride << " " << co);
      CHECK((of(v).front().choice.form->name() == "conv_phases") == (stride <= 512));
    }
  for (int64_t q : {1, 5, 128, 4096})
    for (int64_t e : {1, 64, 512}) {
      loop::AttentionKernel a;
      a.name = "attention";
      a.batch = 1, a.heads = 8, a.kv_heads = 2, a.q_len = q, a.kv_len = 1000, a.head_dim = a.v_dim = e;
      a.q.param = a.k.param = a.v.param = a.out.param = a.params.push({"p", loop::ParamRole::input, DType::f32, {}});
      of(a);
    }
}

TEST_CASE("the names of forms are unique, and malformed choices are refused with what is wrong") {
  std::set<std::string_view> names;
  for (Arch arch : {Arch::x86_64, Arch::cuda})
    for (const Form* f : forms_of(arch)) {
      CHECK((names.insert(f->name()).second || f->name() == "copy"));
      CHECK(find_form(f->name()) != nullptr);
    }
  CHECK(parse_choice("fft").why() == "'fft' is no form of a kernel");
  CHECK(parse_choice("attention q_block=32 kv_block=33").why() == "kv_block: 33 is not a multiple of 32");
  CHECK(parse_choice("attention q_block=0 kv_block=64").why() == "q_block: 0 is not in [1, 2147483647]");
  CHECK(parse_choice("attention q_block=32").why() == "'kv_block=number' is expected, not ''");
  CHECK(parse_choice("attention q_block=32 kv_block=64 more").why() == "'more' is no field of attention");
  CHECK(parse_choice("attention q_block=x kv_block=64").why() == "'q_block': 'x' is no number");
}

TEST_CASE("prologues are asked of the forms: a CPU's products take them, a GPU's do not") {
  CHECK(rules_of(machine()).prologue(DType::f32, 0));
  const loop::FusionRules gpu = rules_of(machine_of(std::string("sm_90a")));
  CHECK(gpu.small_points > 8 * rules_of(machine()).small_points);
  CHECK(!gpu.prologue(DType::f32, 0));
  CHECK(gpu.row_bytes == machine_of(std::string("sm_90a")).shared_bytes);
}

}  // namespace aotc::forms
