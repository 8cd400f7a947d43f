// Elements of a constant are found in its panels, and a product's own reads of its operand keep that dense.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <set>

#include "forms/slabs.h"
#include "plan/share_weights.h"
#include "plan/weights.h"
#include "unit/plan/stored.h"

using namespace aotc;
using namespace aotc::plan;

namespace {

ConstId numbered(IdVec<ConstId, ConstData>& all, DType t, int64_t n, int64_t mask = 0xffff) {
  ConstData c;
  c.type = {t, {Expr(n)}};
  const auto size = static_cast<size_t>(dtype_bytes(t));
  c.bytes = static_cast<size_t>(n) * size;
  auto bytes = std::make_shared<std::vector<std::byte>>(c.bytes);
  for (int64_t i = 0; i < n; ++i) {
    const auto number = static_cast<uint16_t>(i & mask);
    std::memcpy(bytes->data() + static_cast<size_t>(i) * size, &number, std::min(size, sizeof number));
  }
  c.data = bytes->data();
  c.keepalive = bytes;
  return all.push(std::move(c));
}

loop::MatmulKernel product(DType t, int64_t n, int64_t k, bool transposed) {
  loop::MatmulKernel m;
  m.in = t;
  m.b_constant = true;
  m.m = 5, m.n = n, m.k = k;
  m.a.param = loop::ParamId{0}, m.b.param = loop::ParamId{1};
  m.b.row_stride = transposed ? 1 : n, m.b.col_stride = transposed ? k : 1;
  m.segments.resize(1);
  m.segments[0].n_begin = 0, m.segments[0].n_end = n;
  return m;
}

}  // namespace

TEST_CASE("every element of a constant is where panel_index says") {
  for (DType t : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (bool transposed : {false, true})
      for (const auto& [n, k] : {std::pair<int64_t, int64_t>{100, 77}, {64, 32}, {1, 9}, {33, 1}, {31, 2}}) {
        IdVec<ConstId, ConstData> all;
        const ConstId c = numbered(all, t, n * k);
        const auto panels = test::stored("gemm", product(t, n, k, transposed));
        REQUIRE(panels);
        WeightTable table(all);
        table.add(c, panels);
        std::vector<std::byte> blob(table.blob_bytes());
        write_weights(table.weights(), all, blob, 1);
        SymTable syms;
        SymInfo info;
        info.name = "e", info.kind = SymKind::loop, info.extent = Expr(n * k);
        const SymId e = syms.add(info);
        const auto at = panel_index(*panels, n * k, Expr::symbol(e), syms);
        REQUIRE(at);
        bool right = true;
        for (int64_t i = 0; i < n * k; ++i) {
          const auto to = static_cast<size_t>(at->eval([&](SymId) { return i; }) * dtype_bytes(t));
          uint16_t number = 0;
          right = right && to + sizeof number <= blob.size();
          if (right) std::memcpy(&number, blob.data() + to, sizeof number);
          right = right && number == i;
        }
        INFO(n << " x " << k << (transposed ? " transposed " : " ") << dtype_name(t));
        CHECK(right);
        CHECK_FALSE(panel_index(*panels, n * k + 1, Expr::symbol(e), syms));
      }
}

TEST_CASE("every value of a weight of few bits is where panel_index says") {
  for (const auto& [form, bits] :
       {std::pair("gemm_quant", 8), {"gemm_quant", 4}, {"gemm_unpack", 4}, {"gemm_bf16w", 16}, {"slabs", 8}, {"slabs", 4}})
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{100, 77}, {64, 32}, {1, 9}, {33, 64}, {31, 2}, {17, 300}}) {
      const DType t = bits < 16 ? DType::i8 : DType::bf16;
      loop::MatmulKernel m = product(DType::f32, n, k, true);
      m.b_constant = false, m.b = {};
      m.b.prologue.emplace();
      m.a.param = m.params.push({});
      const loop::ParamId values = m.params.push({}), scales = m.params.push({});
      m.params[values].dtype = t, m.params[scales].dtype = DType::bf16;
      m.b_quantised = loop::QuantisedWeight{values, bits < 16 ? scales : kNone<loop::ParamId>, kNone<loop::ParamId>, k, bits};
      IdVec<ConstId, ConstData> all;
      const ConstId c = numbered(all, t, n * k, bits == 4 ? 15 : 0xffff);
      const auto panels = std::string_view(form) == "slabs" ? forms::slabs_of(m) : test::stored(form, m);
      REQUIRE(panels);
      WeightTable table(all);
      table.add(c, panels);
      std::vector<std::byte> blob(table.blob_bytes());
      write_weights(table.weights(), all, blob, 1);
      SymTable syms;
      SymInfo info;
      info.name = "e", info.kind = SymKind::loop, info.extent = Expr(n * k);
      const SymId e = syms.add(info);
      const auto at = panel_index(*panels, n * k, Expr::symbol(e), syms);
      REQUIRE(at);
      const Expr shift = panel_shift(*panels, n * k, Expr::symbol(e), syms);
      std::set<std::pair<int64_t, int64_t>> places;
      bool right = true;
      for (int64_t i = 0; i < n * k; ++i) {
        const int64_t to = at->eval([&](SymId) { return i; }), by = shift.eval([&](SymId) { return i; });
        places.insert({to, by});
        if (bits == 4) {  // of a byte its low half is stored
          right = right && (static_cast<int>(blob[static_cast<size_t>(to)]) >> by & 15) == (static_cast<int>(all[c].data[i]) & 15);
          continue;
        }
        right = right &&
                std::memcmp(blob.data() + to * dtype_bytes(t), all[c].data + i * dtype_bytes(t), static_cast<size_t>(dtype_bytes(t))) == 0;
      }
      INFO(n << " x " << k << " " << form);
      CHECK(right);
      CHECK(places.size() == static_cast<size_t>(n * k));
    }
}

TEST_CASE("equal bytes are stored once, whoever owns them and whatever their shape") {
  IdVec<ConstId, ConstData> all;
  const ConstId a = numbered(all, DType::f32, 64), b = numbered(all, DType::f32, 64), other = numbered(all, DType::f32, 65);
  all[b].type.dims = {Expr(8), Expr(8)};
  WeightTable table(all);
  CHECK(table.add(a) == table.add(b));
  CHECK(table.add(a) != table.add(other));
}

TEST_CASE("an operand that its product reads in another way stays dense") {
  for (int where = 0; where < 4; ++where) {
    loop::MatmulKernel m = product(DType::f32, 64, 64, false);
    loop::LoopKernel reads;
    loop::Inst load;
    load.kind = loop::InstKind::load;
    load.param = m.b.param;
    reads.insts.push(load);
    if (where == 1) m.a.prologue = reads;
    if (where == 2) m.segments[0].epilogue = reads;
    if (where == 3) m.a.param = m.b.param;
    CHECK(test::stored("gemm", m).has_value() == (where == 0));
  }
}
