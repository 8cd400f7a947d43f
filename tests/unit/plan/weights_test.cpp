#include <catch2/catch.hpp>
#include <cstring>

#include "aotc/detail/library_abi.h"
#include "kernels/cpu/pack.h"
#include "plan/blob.h"
#include "unit/plan/stored.h"

using namespace aotc;
using namespace aotc::plan;

namespace {

ConstId add_constant(IdVec<ConstId, ConstData>& all, DType t, std::vector<int64_t> dims, int salt) {
  ConstData c;
  int64_t n = 1;
  for (int64_t d : dims) c.type.dims.emplace_back(d), n *= d;
  c.type.dtype = t;
  c.bytes = static_cast<size_t>(n * dtype_bytes(t));
  auto bytes = std::make_shared<std::vector<std::byte>>(c.bytes);
  for (size_t i = 0; i < c.bytes; ++i) (*bytes)[i] = static_cast<std::byte>((i * 131 + i / 251 + static_cast<size_t>(salt)) & 255);
  c.data = bytes->data();
  c.keepalive = bytes;
  c.name = fmt::format("w{}", all.size());
  return all.push(std::move(c));
}

std::vector<std::byte> blob_of(const WeightTable& t, const IdVec<ConstId, ConstData>& all, int threads) {
  std::vector<std::byte> out(t.blob_bytes());
  write_weights(t.weights(), all, out, threads);
  return out;
}

}  // namespace

TEST_CASE("gemm panels agree with the kernel library's packing") {
  for (DType t : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    for (bool transposed : {false, true}) {
      const int64_t k = 77, n = 100;  // neither a multiple of anything
      IdVec<ConstId, ConstData> all;
      const ConstId c = add_constant(all, t, {2, k, n}, 5);
      loop::MatmulKernel m;
      m.a.param = loop::ParamId{0}, m.b.param = loop::ParamId{1};
      m.in = t;
      m.b_constant = true;
      m.batch = {Expr(2)};
      m.m = 5, m.n = n, m.k = k;
      m.b.batch_strides = {Expr(k * n)};
      m.b.row_stride = transposed ? 1 : n, m.b.col_stride = transposed ? k : 1;
      m.segments.resize(2);
      m.segments[0].n_begin = 0, m.segments[0].n_end = 40, m.segments[1].n_begin = 40, m.segments[1].n_end = n;
      const auto p = test::stored("gemm", m);
      REQUIRE(p);
      WeightTable table(all);
      const uint32_t dense = table.add(c), packed = table.add(c, p);
      CHECK(table.add(c, p) == packed);
      CHECK(dense != packed);
      const auto blob = blob_of(table, all, 1);
      CHECK(blob == blob_of(table, all, 3));
      CHECK(std::memcmp(blob.data() + table.weights()[dense].offset, all[c].data, all[c].bytes) == 0);
      const int64_t rs = transposed ? 1 : n, cs = transposed ? k : 1, es = dtype_bytes(t);
      const std::byte* at = blob.data() + table.weights()[packed].offset;
      for (int64_t b = 0; b < 2; ++b) {
        for (auto [n0, n1] : {std::pair<int64_t, int64_t>{0, 40}, {40, n}}) {
          std::vector<std::byte> want(static_cast<size_t>(kernels::panel_bytes(k, n1 - n0, t)));
          kernels::pack_panels(all[c].data + (b * k * n + n0 * cs) * es, rs, cs, k, n1 - n0, t, want.data());
          REQUIRE(std::memcmp(at, want.data(), want.size()) == 0);
          at += want.size();
        }
      }
      CHECK(at == blob.data() + table.weights()[packed].offset + table.weights()[packed].bytes);
    }
  }
}

TEST_CASE("convolution panels") {
  for (bool transposed : {false, true}) {
    const int64_t groups = 2, ci = 3, co = 40, taps = 6;
    IdVec<ConstId, ConstData> all;
    const ConstId c = add_constant(
        all, DType::f32, transposed ? std::vector<int64_t>{groups * ci, co, 2, 3} : std::vector<int64_t>{groups * co, ci, 2, 3}, 1);
    loop::ConvKernel v;
    v.x = loop::ParamId{0}, v.w = loop::ParamId{1};
    v.in = DType::f32;
    v.w_constant = true;
    v.transposed = transposed;
    v.groups = groups;
    v.kernel = {2, 3}, v.stride = v.dilation = {1, 1}, v.padding = {0, 0};
    v.x_dims = {1, groups * ci, 9, 9}, v.out_dims = {1, groups * co, 8, 7};
    const auto p = test::stored("conv_product", v);
    REQUIRE(p);
    WeightTable table(all);
    table.add(c, p);
    const auto blob = blob_of(table, all, 2);
    const auto* got = reinterpret_cast<const float*>(blob.data());
    const auto* w = reinterpret_cast<const float*>(all[c].data);
    for (int64_t g = 0; g < groups; ++g) {
      std::vector<float> dense(static_cast<size_t>(ci * taps * co)),
          want(static_cast<size_t>(kernels::panel_elems(ci * taps, co, DType::f32)));
      for (int64_t i = 0; i < ci; ++i)
        for (int64_t x = 0; x < taps; ++x)
          for (int64_t o = 0; o < co; ++o)
            dense[static_cast<size_t>((i * taps + x) * co + o)] =
                transposed ? w[((g * ci + i) * co + o) * taps + x] : w[((g * co + o) * ci + i) * taps + x];
      kernels::pack_panels(dense.data(), co, 1, ci * taps, co, DType::f32, want.data());
      REQUIRE(std::memcmp(got, want.data(), want.size() * 4) == 0);
      got += want.size();
    }
  }
}

TEST_CASE("convolution panels by phases of the stride") {
  for (DType t : {DType::f32, DType::bf16}) {
    const int64_t groups = 2, ci = 3, co = 40, kh = 3, kw = 5, sh = 4, sw = 2;  // a phase of height has no taps
    IdVec<ConstId, ConstData> all;
    const ConstId c = add_constant(all, t, {groups * ci, co, kh, kw}, 3);
    loop::ConvKernel v;
    v.x = loop::ParamId{0}, v.w = loop::ParamId{1};
    v.in = t;
    v.w_constant = v.transposed = true;
    v.groups = groups;
    v.kernel = {kh, kw}, v.stride = {sh, sw}, v.dilation = {2, 3}, v.padding = {1, 0};
    v.x_dims = {1, groups * ci, 9, 9}, v.out_dims = {1, groups * co, 36, 30};
    const auto p = test::stored("conv_phases", v);
    REQUIRE(p);
    WeightTable table(all);
    table.add(c, p);
    const auto blob = blob_of(table, all, 2);
    const std::byte* at = blob.data();
    const int64_t es = dtype_bytes(t);
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t vh = 0; vh < sh; ++vh)
        for (int64_t vw = 0; vw < sw; ++vw) {
          std::vector<std::byte> rows;  // [k of the phase][co]
          int64_t k = 0;
          for (int64_t i = 0; i < ci; ++i)
            for (int64_t y = kh - 1; y >= 0; --y)
              for (int64_t x = kw - 1; x >= 0; --x) {
                if (y * 2 % sh != vh || x * 3 % sw != vw) continue;
                ++k;
                for (int64_t o = 0; o < co; ++o) {
                  const std::byte* e = all[c].data + ((((g * ci + i) * co + o) * kh + y) * kw + x) * es;
                  rows.insert(rows.end(), e, e + es);
                }
              }
          std::vector<std::byte> want(static_cast<size_t>(kernels::panel_bytes(k, co, t)));
          kernels::pack_panels(rows.data(), co, 1, k, co, t, want.data());
          REQUIRE(std::memcmp(at, want.data(), want.size()) == 0);
          at += want.size();
        }
    CHECK(at == blob.data() + table.weights()[0].bytes);
  }
}

TEST_CASE("equal bytes are stored once") {
  IdVec<ConstId, ConstData> all;
  const ConstId a = add_constant(all, DType::f32, {64, 64}, 1);
  ConstData alias = all[a];
  alias.name = "tied";
  const ConstId b = all.push(alias);
  WeightTable t(all);
  CHECK(t.add(a) == t.add(b));
  CHECK(t.weights().size() == 1);
}

TEST_CASE("several plan sets share a blob: what is stored alike stands once, one set keeps its own places") {
  IdVec<ConstId, ConstData> first, second;  // as two readings of one archive
  WeightTable a(first), b(second);
  for (int salt : {1, 2, 3}) a.add(add_constant(first, DType::f32, {40 * salt, 30}, salt));
  for (int salt : {2, 3, 9}) b.add(add_constant(second, DType::f32, {40 * salt, 30}, salt));
  std::vector<Weight> of_a = a.weights(), of_b = b.weights();
  SharedBlob alone, both;
  alone.add(of_a, first);
  CHECK(alone.bytes() == a.blob_bytes());
  for (size_t i = 0; i < of_a.size(); ++i) CHECK(of_a[i].offset == a.weights()[i].offset);
  both.add(of_a, first);
  both.add(of_b, second);
  CHECK(of_b[0].offset == of_a[1].offset);
  CHECK(of_b[1].offset == of_a[2].offset);
  CHECK(of_b[2].offset >= a.blob_bytes());
  CHECK(both.bytes() == of_b[2].offset + of_b[2].bytes);
  std::vector<std::byte> blob(both.bytes(), std::byte{0x5a});
  both.write(blob, 2);
  const auto stands = [&](const Weight& w, const IdVec<ConstId, ConstData>& all) {
    return std::memcmp(blob.data() + w.offset, all[w.source].data, w.bytes) == 0;
  };
  for (const Weight& w : of_a) CHECK(stands(w, first));
  for (const Weight& w : of_b) CHECK(stands(w, second));
  // Another layout of what an earlier set of the group has is told; of another group, or alike, it is not.
  std::vector<Weight> alike = a.weights(), laid_out = b.weights(), elsewhere = b.weights();
  for (std::vector<Weight>* w : {&laid_out, &elsewhere}) w->front().panels = Panels();
  SharedBlob layouts;
  layouts.add(of_a, first, 0);
  CHECK(layouts.add(alike, first, 0).bytes == 0);
  const SharedBlob::Added added = layouts.add(laid_out, second, 0);
  REQUIRE(added.second.size() == 1);
  CHECK((added.second[0].bytes == laid_out[0].bytes && added.bytes == laid_out[0].bytes + laid_out[2].bytes));
  CHECK(layouts.add(elsewhere, second, 1).bytes == 0);  // stored by the group before
  SharedBlob none;
  std::vector<Weight> nothing;
  none.add(nothing, first);
  CHECK(none.bytes() == 0);
}
