#include "check.h"

#include <cmath>

#include "graph/scalar.h"
#include "loop/interp.h"
#include "loop/lower.h"
#include "loop/text.h"

namespace aotc::loop::test {
namespace {

HostTensor random_tensor(const TensorType& t, const std::vector<int64_t>& sizes, int64_t int_below, uint64_t& seed) {
  HostTensor h;
  h.dtype = t.dtype;
  for (const Expr& e : t.dims) h.dims.push_back(e.eval([&](SymId s) { return sizes.at(idx(s)); }));
  h.bytes.resize(static_cast<size_t>(h.elems() * dtype_bytes(t.dtype)));
  for (int64_t i = 0; i < h.elems(); ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const double u = static_cast<double>(seed >> 11) / 9007199254740992.0;
    std::byte* at = h.bytes.data() + i * dtype_bytes(t.dtype);
    if (is_float(t.dtype)) {
      const double v = 2 * u - 1;
      store_f64(t.dtype, &v, at, 1);
    } else {
      const int64_t v = is_bool(t.dtype) ? u < 0.5 : static_cast<int64_t>(u * static_cast<double>(int_below));
      store_i64(t.dtype, &v, at, 1);
    }
  }
  return h;
}

void same(const HostTensor& want, const HostTensor& got, const std::string& what) {
  INFO(what);
  REQUIRE(want.dims == got.dims);
  REQUIRE(want.dtype == got.dtype);
  const double tolerance = is_half(want.dtype) ? 2e-2 : want.dtype == DType::f64 ? 1e-12 : 3e-5;
  for (int64_t i = 0; i < want.elems(); ++i) {
    const int64_t at = i * dtype_bytes(want.dtype);
    if (is_float(want.dtype)) {
      double a, b;
      load_f64(want.dtype, want.bytes.data() + at, &a, 1);
      load_f64(got.dtype, got.bytes.data() + at, &b, 1);
      if (std::isnan(a) && std::isnan(b)) continue;
      if (a == b) continue;
      INFO("element " << i << ": " << a << " and " << b);
      REQUIRE(std::fabs(a - b) <= tolerance * std::max(1.0, std::fabs(a)));
    } else {
      int64_t a, b;
      load_i64(want.dtype, want.bytes.data() + at, &a, 1);
      load_i64(got.dtype, got.bytes.data() + at, &b, 1);
      INFO("element " << i);
      REQUIRE(a == b);
    }
  }
}

}  // namespace

std::vector<std::string> Checked::names() const {
  std::vector<std::string> n;
  for (const Kernel& k : m.kernels) n.push_back(kernel_name(k));
  return n;
}

Checked check(const std::string& text, const std::vector<std::vector<int64_t>>& sizes, int64_t int_below) {
  return check_graph(parse_graph("graph @test\n" + text, "test.graph"), sizes, int_below);
}

Checked check_graph(Graph g, const std::vector<std::vector<int64_t>>& sizes, int64_t int_below) {
  Checked c;
  c.g = std::move(g);
  try {
    c.m = lower(c.g);
  } catch (const std::exception& e) { FAIL(e.what()); }
  const std::string printed = print(c.m);
  INFO(printed);
  try {
    REQUIRE(print(parse_module(printed, "printed")) == printed);
  } catch (const std::exception& e) { FAIL(e.what()); }
  for (const auto& s : sizes) {
    uint64_t seed = 1;
    std::vector<HostTensor> inputs;
    for (const InputInfo& in : c.g.inputs) inputs.push_back(random_tensor(c.g.type(in.value), s, int_below, seed));
    try {
      const auto want = aotc::interpret(c.g, inputs);
      const auto got = interpret(c.m, c.g, inputs);
      REQUIRE(want.size() == got.size());
      for (size_t i = 0; i < want.size(); ++i) same(want[i], got[i], "result " + std::to_string(i));
    } catch (const std::exception& e) { FAIL(e.what()); }
  }
  return c;
}

}  // namespace aotc::loop::test
