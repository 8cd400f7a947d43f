#include "module_runner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "aotc/detail/kernel_abi.h"
#include "emit/cpu/loop_call.h"
#include "emit/cpu/module.h"
#include "graph/scalar.h"
#include "graph/text.h"
#include "harness.h"
#include "loop/lower.h"
#include "loop/text.h"

namespace aotc::test {

HostTensor random_input(const TensorType& t, const std::vector<int64_t>& dims, uint32_t seed, int64_t int_below) {
  HostTensor h;
  h.dtype = t.dtype;
  h.dims = dims;
  h.bytes.resize(static_cast<size_t>(h.elems() * dtype_bytes(t.dtype)));
  std::mt19937 rng(seed);
  for (int64_t i = 0; i < h.elems(); ++i) {
    std::byte* at = h.bytes.data() + i * dtype_bytes(t.dtype);
    const double v = static_cast<double>(static_cast<int64_t>(rng() % 4001) - 2000) / 1000;
    const int64_t n = is_bool(t.dtype) ? rng() % 2 : static_cast<int64_t>(rng() % static_cast<uint64_t>(int_below));
    if (is_float(t.dtype))
      store_f64(t.dtype, &v, at, 1);
    else
      store_i64(t.dtype, &n, at, 1);
  }
  return h;
}

std::vector<HostTensor> run_module(const Module& m, const Graph& g, const std::vector<HostTensor>& inputs, Isa isa) {
  std::map<SymId, int64_t> syms;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Exprs& dims = g.type(g.inputs[i].value).dims;
    for (size_t d = 0; d < dims.size(); ++d)
      if (const auto s = dims[d].as_symbol()) syms[*s] = inputs[i].dims[d];
  }
  const auto eval = [&](const Expr& e) { return e.eval([&](SymId s) { return syms.at(s); }); };
  std::vector<std::unique_ptr<CompiledUnit>> units;
  for (const emit::cpu::SourceUnit& u : emit::cpu::emit_module(m, {isa})) units.push_back(std::make_unique<CompiledUnit>(u.source, isa));

  std::vector<HostTensor> buffers;
  for (const Buffer& b : m.buffers) {
    HostTensor h;
    h.dtype = b.type.dtype;
    for (const Expr& d : b.type.dims) h.dims.push_back(eval(d));
    h.bytes.assign(static_cast<size_t>(h.elems() * dtype_bytes(h.dtype)), std::byte{0x77});
    if (b.kind == BufferKind::input) h.bytes = inputs.at(b.index).bytes;
    if (b.kind == BufferKind::constant) {
      const ConstData& c = g.constants[static_cast<ConstId>(b.index)];
      h.bytes.assign(c.data, c.data + c.bytes);
    }
    buffers.push_back(std::move(h));
  }
  for (const Call& call : m.calls) {
    const auto* k = std::get_if<LoopKernel>(&m.kernels[call.kernel]);
    REQUIRE(k);
    aotc_kernel_fn fn = nullptr;
    for (const auto& u : units)
      if (void* s = u->symbol(emit::cpu::kernel_function(k->name, isa))) fn = reinterpret_cast<aotc_kernel_fn>(s);
    REQUIRE(fn);
    std::vector<void*> ptr;
    for (BufferId b : call.args) ptr.push_back(buffers.at(idx(b)).bytes.data());
    std::vector<int64_t> size;
    for (SymId s : emit::cpu::kernel_symbols(*k)) size.push_back(syms.at(s));
    if (emit::cpu::may_store_far(*k)) size.push_back(1);
    std::vector<std::byte> scratch(static_cast<size_t>(eval(emit::cpu::local_layout(*k).bytes)) + 64);
    volatile int32_t fault = 0;
    aotc_kargs args{ptr.data(), size.data(), nullptr, scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64,
                    0,          1,           &fault};
    const int64_t work = eval(emit::cpu::loop_work(*k));
    fn(&args, work / 2, work);
    fn(&args, 0, work / 2);
    REQUIRE(fault == 0);
  }
  std::vector<HostTensor> out(g.outputs.size());
  for (size_t i = 0; i < buffers.size(); ++i)
    if (m.buffers.raw()[i].kind == BufferKind::output) out.at(m.buffers.raw()[i].index) = buffers[i];
  return out;
}

namespace {
void compare(const HostTensor& want, const HostTensor& got, bool halves) {
  REQUIRE(want.dims == got.dims);
  REQUIRE(want.dtype == got.dtype);
  const double tolerance = is_half(want.dtype)        ? 1.0 / 100
                           : halves                   ? 1e-2
                           : want.dtype == DType::f64 ? 1e-10
                                                      : 1e-4;  // fused 16-bit values keep more bits
  double scale = 1;
  std::vector<double> a(static_cast<size_t>(want.elems())), b(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const size_t at = i * static_cast<size_t>(dtype_bytes(want.dtype));
    if (is_float(want.dtype)) {
      load_f64(want.dtype, &want.bytes[at], &a[i], 1);
      load_f64(got.dtype, &got.bytes[at], &b[i], 1);
    } else {
      int64_t x, y;
      load_i64(want.dtype, &want.bytes[at], &x, 1);
      load_i64(got.dtype, &got.bytes[at], &y, 1);
      a[i] = static_cast<double>(x);
      b[i] = static_cast<double>(y);
    }
    if (std::isfinite(a[i])) scale = std::max(scale, std::abs(a[i]));
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (a[i] != a[i] && b[i] != b[i])) continue;
    INFO("element " << i << ": got " << b[i] << ", want " << a[i]);
    REQUIRE(is_float(want.dtype));
    REQUIRE(std::abs(a[i] - b[i]) <= tolerance * scale);
  }
}
}  // namespace

void check_graph(const Graph& g, const std::vector<HostTensor>& inputs, Isa isa) {
  Module m;
  INFO(print(g));
  try {
    m = lower(g);
  } catch (const std::exception& e) {
    WARN(e.what());  // the lowering's own tests are elsewhere
    return;
  }
  INFO(print(m));
  const std::vector<HostTensor> want = interpret(g, inputs);
  std::string source;
  for (const emit::cpu::SourceUnit& u : emit::cpu::emit_module(m, {isa})) source += u.source;
  INFO(source);
  const std::vector<HostTensor> got = run_module(m, g, inputs, isa);
  bool halves = false;
  for (const Value& v : g.values) halves |= is_half(v.type.dtype);
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    INFO("output " << i);
    compare(want.at(i), got.at(i), halves);
  }
}

}  // namespace aotc::test
