// Attention of every dtype and instruction set against fp64: grouped heads, masks that broadcast, causal, sinks, strides, decode, rows
// without any key, infinities and NaN.
#include <catch2/catch.hpp>

#include "aotc/detail/attention_split_abi.h"
#include "support.h"

extern "C" void aotc_attention_tiles_bf16_amx_emulated(const aotc_kargs*, int64_t, int64_t);

namespace kernel_test {
namespace {

const Entry kTiles[] = {entry("attention_tiles", DType::bf16, "amx"), {"avx512", DType::bf16, aotc_attention_tiles_bf16_amx_emulated}};
const std::vector<Entry> kEntries = [] {
  std::vector<Entry> all = entries("attention"), split = entries("attention_split");
  all.insert(all.end(), std::begin(kTiles), std::end(kTiles));
  all.insert(all.end(), split.begin(), split.end());
  return all;
}();
bool is_split(const Entry& e) {
  const std::vector<Entry> all = entries("attention_split");
  return std::any_of(all.begin(), all.end(), [&](const Entry& s) { return s.fn == e.fn; });
}
bool in_tiles(const Entry& e) { return e.fn == kTiles[0].fn || e.fn == kTiles[1].fn; }
int64_t scratch_of(const Entry& e, const aotc_attn_config& c, int64_t width, int64_t v_width) {
  if (in_tiles(e)) return aotc_attn_tiles_scratch_bytes(&c, width, v_width);
  return aotc_attn_scratch_bytes(&c, width, v_width, e.dtype == DType::f64 ? 8 : 4);
}

/// way: 0 by one thread, 1 by threads at the same time, 2 by the calls of threads one after another.
void call_split(const Entry& e, aotc_kargs args, const aotc_attn_config& cfg, unsigned way) {
  const int64_t* z = args.size;
  const int64_t items = z[AOTC_ATTN_B] * z[AOTC_ATTN_HKV] * aotc_attn_parts(z[AOTC_ATTN_S], cfg.key_part);
  const int64_t rows = z[AOTC_ATTN_H] / z[AOTC_ATTN_HKV] * z[AOTC_ATTN_L], acc = e.dtype == DType::f64 ? 8 : 4;
  const int64_t bytes = aotc_attn_split_shared_bytes(items, rows, z[AOTC_ATTN_EV], acc) +
                        (aotc_attn_scratch_bytes(&cfg, z[AOTC_ATTN_E], z[AOTC_ATTN_EV], acc) + 63) / 64 * 64;
  Scratch scratch(kTeam * bytes);
  args.config = &cfg, args.scratch = scratch.ptr();
  const aotc_team_kargs team = {args, scratch.ptr(), nullptr};
  if (way == 0)
    e.fn(&team.args, 0, items);
  else
    run_team(e, team, items, way == 1, bytes);
}

struct Case {
  int64_t b, h, hkv, l, s, e, ev;
  int mask;  // 0 none, 1 bool, 2 float of q's dtype, 3 f32
  bool causal;
  int q_block, kv_block;
  int sinks;  // 0 none, 1 of heads, 2 of rows
};

/// Strides of [b, h, s, e] in a random order of the dims, with some padding.
std::vector<int64_t> layout(std::vector<int64_t> dims, std::mt19937& rng, int64_t* elems) {
  std::vector<int> order = {0, 1, 2, 3};
  if (rng() % 2) std::swap(order[1], order[2]);  // [b, s, h, e]
  if (rng() % 4 == 0) std::swap(order[2], order[3]);
  std::vector<int64_t> st(4);
  int64_t step = 1;
  for (int i = 3; i >= 0; --i) {
    st[static_cast<size_t>(order[static_cast<size_t>(i)])] = step;
    step *= dims[static_cast<size_t>(order[static_cast<size_t>(i)])] + static_cast<int64_t>(rng() % 2);
  }
  *elems = step;
  return st;
}

struct Problem {
  Case c;
  Buffer q, k, v, o, mask;
  std::vector<int64_t> size;
  int64_t qs[4], ks[4], vs[4], os[4], ms[4];
  double score(int64_t b, int64_t h, int64_t l, int64_t s, double scale) {
    const int64_t hk = h / (c.h / c.hkv);
    double sum = 0;
    for (int64_t e = 0; e < c.e; ++e)
      sum += q.get(b * qs[0] + h * qs[1] + l * qs[2] + e * qs[3]) * k.get(b * ks[0] + hk * ks[1] + s * ks[2] + e * ks[3]);
    sum *= scale;
    const int64_t at = b * ms[0] + h * ms[1] + l * ms[2] + s * ms[3];
    if (c.mask == 1 && mask.get(at) == 0) sum = -INFINITY;
    if (c.mask >= 2) sum += mask.get(at);
    if (c.causal && s > l) sum = -INFINITY;
    return sum;
  }
};

/// The bytes of the result.
std::string check(const Entry& entry, const Case& c, std::mt19937& rng) {
  if (!runs_here(entry.isa)) return {};
  INFO(entry.isa << (in_tiles(entry) ? ", tiles, " : " ") << aotc::dtype_name(entry.dtype) << " b " << c.b << " h " << c.h << "/" << c.hkv
                 << " l " << c.l << " s " << c.s << " e " << c.e << " ev " << c.ev << " mask " << c.mask << " causal " << c.causal
                 << " blocks " << c.q_block << " " << c.kv_block << " sinks " << c.sinks);
  int64_t nq, nk, nv, no, nm;
  const auto qs = layout({c.b, c.h, c.l, c.e}, rng, &nq), ks = layout({c.b, c.hkv, c.s, c.e}, rng, &nk);
  const auto vs = layout({c.b, c.hkv, c.s, c.ev}, rng, &nv), os = layout({c.b, c.h, c.l, c.ev}, rng, &no);
  auto ms = layout({c.b, c.h, c.l, c.s}, rng, &nm);
  if (rng() % 2) ms[1] = 0;
  if (rng() % 2) ms[2] = 0;
  const DType mt = c.mask == 1 ? DType::boolean : c.mask == 3 ? DType::f32 : entry.dtype;
  Problem p{c, {nq, entry.dtype}, {nk, entry.dtype}, {nv, entry.dtype}, {no, entry.dtype}, {nm, mt}, {}, {}, {}, {}, {}, {}};
  p.q.fill(rng), p.k.fill(rng), p.v.fill(rng), p.mask.fill(rng);
  if (c.mask >= 2)
    for (int64_t i = 0; i < nm; ++i)
      if (rng() % 3 == 0) p.mask.put(i, -INFINITY);
  // Often the last keys are hidden from all rows: then nothing of them is read, be it NaN.
  const bool hidden = c.mask && c.s > 1 && rng() % 2;
  const int64_t seen = hidden ? static_cast<int64_t>(rng()) % c.s : c.s;
  for (int64_t b = 0; b < c.b; ++b)
    for (int64_t h = 0; h < c.h; ++h)
      for (int64_t s = seen; s < c.s; ++s) {
        for (int64_t l = 0; l < c.l; ++l) p.mask.put(b * ms[0] + h * ms[1] + l * ms[2] + s * ms[3], c.mask == 1 ? 0 : -INFINITY);
        for (int64_t e = 0; e < c.e; ++e) p.k.put(b * ks[0] + h / (c.h / c.hkv) * ks[1] + s * ks[2] + e * ks[3], NAN);
        for (int64_t e = 0; e < c.ev; ++e) p.v.put(b * vs[0] + h / (c.h / c.hkv) * vs[1] + s * vs[2] + e * vs[3], NAN);
      }
  p.size = {c.b, c.h, c.hkv, c.l, c.s, c.e, c.ev};
  auto add = [&](const std::vector<int64_t>& st, int64_t* to) {
    p.size.push_back(0);
    for (int i = 0; i < 4; ++i) p.size.push_back(to[i] = st[static_cast<size_t>(i)]);
  };
  add(qs, p.qs), add(ks, p.ks), add(vs, p.vs), add(os, p.os), add(ms, p.ms);
  const bool of_rows = c.sinks == 2;
  const int64_t ss[] = {of_rows ? c.h * c.l : 0, of_rows ? c.l : 1, of_rows ? 1 : 0};
  Buffer sinks(of_rows ? c.b * c.h * c.l : c.h, entry.dtype == DType::f64 ? DType::f64 : DType::f32);
  sinks.fill(rng);
  p.size.insert(p.size.end(), {0, ss[0], ss[1], ss[2]});
  const double scale = 0.7;
  aotc_attn_config cfg = {0,          1,     2, 3, c.mask ? 4 : -1, static_cast<int32_t>(mt), c.causal, c.q_block,
                          c.kv_block, scale, 0, 0, c.sinks ? 5 : -1};
  void* ptr[] = {p.q.ptr(), p.k.ptr(), p.v.ptr(), p.o.ptr(), p.mask.ptr(), sinks.ptr()};
  Scratch scratch(scratch_of(entry, cfg, c.e, c.ev));
  volatile int32_t fault = 0;
  const aotc_kargs args = {ptr, p.size.data(), &cfg, scratch.ptr(), 0, 1, &fault};
  const int64_t rows = c.h / c.hkv * c.l, heads = c.b * c.hkv;
  if (is_split(entry)) {
    cfg.q_block = static_cast<int32_t>(rows), cfg.key_part = c.kv_block * static_cast<int32_t>(1 + rng() % 2);
    call_split(entry, args, cfg, rng() % 3);
  } else {
    const int64_t work = heads * ((rows + c.q_block - 1) / c.q_block);
    run_parts(entry, args, work, work ? static_cast<int64_t>(rng() % (work + 1)) : 0);
  }
  double worst = 0;
  for (int64_t b = 0; b < c.b; ++b)
    for (int64_t h = 0; h < c.h; ++h)
      for (int64_t l = 0; l < c.l; ++l) {
        std::vector<double> w(static_cast<size_t>(c.s));
        double top = -INFINITY, sum = 0;
        for (int64_t s = 0; s < c.s; ++s)
          top = std::max(top, w[static_cast<size_t>(s)] = s < seen ? p.score(b, h, l, s, scale) : -INFINITY);
        const double sink = c.sinks ? sinks.get(b * ss[0] + h * ss[1] + l * ss[2]) : -INFINITY;
        top = std::max(top, sink);
        for (double& x : w) sum += x = top == -INFINITY ? 0 : std::exp(x - top);
        if (c.sinks) sum += std::exp(sink - top);
        for (int64_t e = 0; e < c.ev; ++e) {
          double want = 0;
          for (int64_t s = 0; s < seen; ++s)
            want += w[static_cast<size_t>(s)] * p.v.get(b * vs[0] + h / (c.h / c.hkv) * vs[1] + s * vs[2] + e * vs[3]);
          if (sum > 0) want /= sum;
          const double off = std::fabs(p.o.get(b * os[0] + h * os[1] + l * os[2] + e * os[3]) - want);
          if (!(off <= worst)) worst = std::isnan(off) ? INFINITY : off;
        }
      }
  CHECK(worst <= std::max(8 * epsilon(entry.dtype), entry.dtype == DType::f64 ? 1e-13 : 4e-6));
  return {static_cast<const char*>(p.o.ptr()), static_cast<size_t>(no * aotc::dtype_bytes(entry.dtype))};
}

/// One head: l rows of d channels.
void attend(const Entry& e, const aotc_attn_config& cfg, void** ptr, int64_t* size, int64_t d, int64_t l) {
  Scratch scratch(scratch_of(e, cfg, d, d));
  volatile int32_t fault = 0;
  const aotc_kargs args = {ptr, size, &cfg, scratch.ptr(), 0, 1, &fault};
  if (!is_split(e)) return e.fn(&args, 0, (l + cfg.q_block - 1) / cfg.q_block);
  aotc_attn_config whole = cfg;
  whole.q_block = static_cast<int32_t>(l), whole.key_part = whole.kv_block = AOTC_PANEL_N;
  for (unsigned way : {2u, 1u, 0u}) call_split(e, args, whole, way);
}

TEST_CASE("attention against fp64", "[attention]") {
  std::mt19937 rng(3);
  auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  for (const Entry& e : kEntries) {
    for (int i = 0; i < 60; ++i) {
      Case c{};
      c.b = pick({0, 1, 2}), c.hkv = pick({1, 2}), c.h = c.hkv * pick({1, 3, 4});
      c.l = pick({1, 1, 2, 5, 7, 17, 33}), c.s = pick({0, 1, 5, 31, 32, 64, 97});
      c.e = pick({1, 8, 16, 33, 64, 100, 128}), c.ev = pick({1, 8, 16, 32, 40, 64});
      c.mask = static_cast<int>(rng() % 4);
      c.causal = rng() % 3 == 0;
      c.q_block = static_cast<int>(pick({1, 8, 64})), c.kv_block = static_cast<int>(pick({32, 64, 128}));
      c.sinks = static_cast<int>(rng() % 3);
      check(e, c, rng);
    }
  }
}

TEST_CASE("attention: the same bits with every instruction set, in blocks of any number of rows", "[attention]") {
  for (const char* algorithm : {"attention", "attention_split"})
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
      for (unsigned seed = 0; seed < 40; ++seed) {
        std::mt19937 rng(seed);
        auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
        Case c{};
        c.b = 1, c.hkv = pick({1, 2}), c.h = c.hkv * pick({1, 2, 4}), c.l = pick({1, 1, 2, 5, 9, 33}), c.s = pick({1, 7, 24, 63, 97, 150});
        c.e = pick({1, 7, 8, 12, 24, 33, 64, 100, 128}), c.ev = pick({1, 8, 24, 40, 64});
        c.mask = static_cast<int>(rng() % 4), c.causal = rng() % 3 == 0, c.kv_block = static_cast<int>(pick({32, 64, 128}));
        c.sinks = static_cast<int>(rng() % 3);
        std::string first;
        for (const Entry& e : entries(algorithm))
          for (const int q_block : {3, 6, 64}) {
            if (e.dtype != dtype) continue;
            c.q_block = q_block;
            std::mt19937 same(seed);
            const std::string got = check(e, c, same);
            if (first.empty()) first = got;
            INFO(algorithm << " " << e.isa << " " << aotc::dtype_name(dtype) << " seed " << seed << ", blocks of " << q_block << " rows");
            CHECK((got.empty() || got == first));
          }
      }
}

TEST_CASE("attention: rows that see nothing are zero or NaN, NaN stays in its row, large logits do not overflow", "[attention]") {
  for (const Entry& e : kEntries) {
    if ((e.dtype != DType::f32 && !in_tiles(e)) || !runs_here(e.isa)) continue;
    INFO(e.isa << (in_tiles(e) ? ", tiles" : ""));
    const int64_t l = 8, s = 40, d = 16;
    Buffer q(l * d, e.dtype), k(s * d, e.dtype), v(s * d, e.dtype), o(l * d, e.dtype);
    for (int64_t i = 0; i < l * d; ++i) q.put(i, 1), o.put(i, -1);
    for (int64_t i = 0; i < s * d; ++i) k.put(i, 1), v.put(i, 2);
    std::vector<uint8_t> mask(l * s, 1);
    for (int64_t i = 0; i < s; ++i) mask[2 * s + i] = 0;           // row 2 sees nothing
    for (int64_t i = 0; i < d; ++i) q.put(3 * d + i, NAN);         // row 3
    for (int64_t i = 0; i < d; ++i) q.put(4 * d + i, -1e6);        // row 4: logits of -1.6e7
    for (int64_t i = 0; i < d; ++i) q.put(5 * d + i, 1e6);         // row 5
    for (int64_t i = 0; i < s; ++i) mask[6 * s + i] = i == s - 1;  // row 6: only the last key
    int64_t size[] = {1, 1, 1, l, s, d, d, 0, 0, 0, d, 1, 0, 0, 0, d, 1, 0, 0, 0, d, 1, 0, 0, 0, d, 1, 0, 0, 0, s, 1};
    for (auto [q_block, nan_rows] : {std::pair{2, 0}, {64, 0}, {2, 1}, {64, 1}}) {
      aotc_attn_config cfg = {0, 1, 2, 3, 4, AOTC_DTYPE_BOOL, 0, q_block, 32, 1.0, nan_rows, 0, -1};
      void* ptr[] = {q.ptr(), k.ptr(), v.ptr(), o.ptr(), mask.data()};
      attend(e, cfg, ptr, size, d, l);
      for (int64_t i = 0; i < l; ++i) {
        INFO("row " << i);
        if (i == 2 && !nan_rows)
          CHECK(o.get(i * d) == 0);
        else if (i == 2 || i == 3)
          CHECK(std::isnan(o.get(i * d)));
        else
          CHECK(o.get(i * d) == Approx(2.0f));
      }
    }
  }
}

TEST_CASE("attention: a mask that fills takes the place of scores that are no number, and hides all of a row alike", "[attention]") {
  for (const Entry& e : kEntries) {
    if ((e.dtype != DType::f32 && !in_tiles(e)) || !runs_here(e.isa)) continue;
    INFO(e.isa << (in_tiles(e) ? ", tiles" : ""));
    const int64_t l = 3, s = 40, d = 16;
    Buffer q(l * d, e.dtype), k(s * d, e.dtype), v(s * d, e.dtype), o(l * d, e.dtype), mask(l * s, DType::f32);
    for (int64_t i = 0; i < l * d; ++i) q.put(i, 1), o.put(i, -1);
    // Keys 0 to 9 are NaN, infinity and very low; rows 0 and 1 see the others, row 2 none.
    for (int64_t i = 0; i < s; ++i)
      for (int64_t c = 0; c < d; ++c)
        k.put(i * d + c, i >= 10 ? 1 : i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -1e37), v.put(i * d + c, i < 10 ? 6 : 2);
    for (int64_t i = 0; i < l; ++i)
      for (int64_t j = 0; j < s; ++j) mask.put(i * s + j, i == 2 || j < 10 ? -1.7e38 : 0);
    int64_t size[] = {1, 1, 1, l, s, d, d, 0, 0, 0, d, 1, 0, 0, 0, d, 1, 0, 0, 0, d, 1, 0, 0, 0, d, 1, 0, 0, 0, s, 1};
    for (int fills : {1, 0}) {
      aotc_attn_config cfg = {0, 1, 2, 3, 4, AOTC_DTYPE_F32, 0, 2, 32, 1.0, 1, fills, -1};
      void* ptr[] = {q.ptr(), k.ptr(), v.ptr(), o.ptr(), mask.ptr()};
      attend(e, cfg, ptr, size, d, l);
      for (int64_t i = 0; i < l; ++i) {
        INFO("row " << i << (fills ? ", filled" : ", added"));
        if (fills)
          CHECK(o.get(i * d) == Approx(i < 2 ? 2.0f : 3.0f).epsilon(0.01));
        else
          CHECK(std::isnan(o.get(i * d)));
      }
    }
  }
}

TEST_CASE("attention: sinks that are far from the scores, infinite or NaN, and rows that see nothing else", "[attention]") {
  struct Row {
    double query, sink, want;  // scores are 16 times the query
    bool sees = true;
  };
  const Row kRows[] = {
      {1, 16, 2.0 * 40 / 41}, {1, 1e4, 0},
      {1, -1e4, 2},           {1e6, 0, 2},
      {-1e6, 0, 0},           {1, NAN, NAN},
      {1, INFINITY, NAN},     {1, -INFINITY, 2},
      {NAN, 0, NAN},          {INFINITY, 0, NAN},
      {0, 3, 0, false},       {0, -1e30, 0, false},
      {0, NAN, NAN, false},   {0, -INFINITY, NAN, false},
  };
  constexpr int64_t l = std::size(kRows), s = 40, d = 16;
  for (const Entry& e : kEntries) {
    if ((e.dtype != DType::f32 && e.dtype != DType::f64 && !in_tiles(e)) || !runs_here(e.isa)) continue;
    INFO(e.isa << (in_tiles(e) ? ", tiles" : ""));
    Buffer q(l * d, e.dtype), k(s * d, e.dtype), v(s * d, e.dtype), o(l * d, e.dtype),
        sinks(l, e.dtype == DType::f64 ? DType::f64 : DType::f32);
    std::vector<uint8_t> mask(l * s, 1);
    for (int64_t i = 0; i < l; ++i) {
      for (int64_t c = 0; c < d; ++c) q.put(i * d + c, kRows[i].query);
      for (int64_t j = 0; j < s; ++j) mask[static_cast<size_t>(i * s + j)] = kRows[i].sees;
      sinks.put(i, kRows[i].sink);
    }
    for (int64_t i = 0; i < s * d; ++i) k.put(i, 1), v.put(i, 2);
    int64_t size[] = {1, 1, 1, l, s, d, d, 0, 0, 0, d, 1, 0, 0, 0, d, 1, 0, 0, 0, d, 1, 0, 0, 0, d, 1, 0, 0, 0, s, 1, 0, 0, 0, 1};
    for (int q_block : {2, 64}) {
      aotc_attn_config cfg = {0, 1, 2, 3, 4, AOTC_DTYPE_BOOL, 0, q_block, 32, 1.0, 1, 0, 5};
      void* ptr[] = {q.ptr(), k.ptr(), v.ptr(), o.ptr(), mask.data(), sinks.ptr()};
      attend(e, cfg, ptr, size, d, l);
      for (int64_t i = 0; i < l; ++i) {
        INFO("row " << i);
        if (std::isnan(kRows[i].want))
          CHECK(std::isnan(o.get(i * d)));
        else
          CHECK(o.get(i * d) == Approx(kRows[i].want).epsilon(in_tiles(e) ? 0.01 : 1e-5));
      }
    }
  }
}

}  // namespace
}  // namespace kernel_test
