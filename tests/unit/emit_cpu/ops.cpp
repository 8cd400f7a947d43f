// Every pointwise core op in every dtype that it has, against the graph interpreter in f64.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "aotc/detail/kernel_abi.h"
#include "emit/cpu/loop_call.h"
#include "emit/cpu/loop_emitter.h"
#include "emit/cpu/unit.h"
#include "graph/builder.h"
#include "graph/interp.h"
#include "graph/pointwise.h"
#include "harness.h"

using namespace aotc;
using namespace aotc::test;

namespace {

/// Where a result may be further from the interpreter's than kRelative, or only a part of the line is looked at.
struct OpCase {
  Op op;
  double relative;  ///< f32
  double lo = -INFINITY, hi = INFINITY;
};
constexpr double kRelative = 3e-7;
const OpCase kLoose[] = {{Op::erfc, 1e-6},   {Op::asinh, 4e-7},      {Op::erfinv, 5e-7},
                         {Op::lgamma, 1e-6}, {Op::digamma, 1e-5, 0}, {Op::sigmoid, 3e-7, -80}};

/// The ops of a class that make the type's results of its operands, as ops.def has them. What nextafter gives is of its own type only, and
/// the interpreter computes in float64 here.
std::vector<Op> ops_of(OpClass cls, DType t) {
  std::vector<Op> out;
  for (int i = 0; i < static_cast<int>(Op::reshape); ++i) {
    const Op op = static_cast<Op>(i);
    const PointwiseInfo& info = pointwise_info(op);
    if (op_class(op) == cls && op != Op::nextafter && info.result != ResultType::given && takes(info.operands, t)) out.push_back(op);
  }
  return out;
}

template <class T>
void put(HostTensor& t, size_t i, T x) {
  std::memcpy(&t.bytes[i * sizeof(T)], &x, sizeof(T));
}
template <class T>
T get(const HostTensor& t, size_t i) {
  T x;
  std::memcpy(&x, &t.bytes[i * sizeof(T)], sizeof(T));
  return x;
}

HostTensor random_tensor(DType t, int64_t n, uint32_t seed, int64_t int_range) {
  HostTensor h{t, {n}, std::vector<std::byte>(static_cast<size_t>(n * dtype_bytes(t)))};
  std::mt19937 rng(seed);
  const double special[] = {NAN,   INFINITY, -INFINITY, 0.0,    -0.0,  1e-40,  -3e-42, 1.0,    -1.0,   0.5,
                            -0.5,  2.5,      41.0,      88.9,   -95.0, -103.5, -104.5, -149.5, -745.3, 1e30,
                            -1e30, 3e9,      -87.3365,  -87.34, -92.5, -126.0, -126.5, -140.25};
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    double x = std::normal_distribution<double>()(rng) * std::pow(10, static_cast<int>(rng() % 5) - 2);
    if (rng() % 8 == 0) x = special[rng() % std::size(special)];
    const int64_t k = static_cast<int64_t>(rng() % static_cast<uint64_t>(2 * int_range)) - int_range;
    switch (t) {
      case DType::f32: put(h, i, static_cast<float>(x)); break;
      case DType::f64: put(h, i, x); break;
      case DType::i64: put(h, i, k); break;
      case DType::i32: put(h, i, static_cast<int32_t>(k)); break;
      case DType::i16: put(h, i, static_cast<int16_t>(k)); break;
      case DType::i8: put(h, i, static_cast<int8_t>(k)); break;
      case DType::u8: put(h, i, static_cast<uint8_t>(k & 127)); break;
      default: put(h, i, static_cast<uint8_t>(k & 1)); break;
    }
  }
  return h;
}

double element(const HostTensor& t, size_t i) {
  switch (t.dtype) {
    case DType::f32: return get<float>(t, i);
    case DType::f64: return get<double>(t, i);
    case DType::i64: return static_cast<double>(get<int64_t>(t, i));
    case DType::i32: return get<int32_t>(t, i);
    case DType::i16: return get<int16_t>(t, i);
    case DType::i8: return get<int8_t>(t, i);
    default: return get<uint8_t>(t, i);
  }
}

/// Equal, zeros with their signs, but for the zeros of both signs among which PyTorch's own kernels choose as they come.
bool same_number(Op op, double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  const bool either = op == Op::maximum || op == Op::minimum;
  return x == y && (x != 0 || either || std::signbit(x) == std::signbit(y));
}

/// Those of vec_math_f64.h and vec_math_circular.h.
constexpr Op kCloseOfF64[] = {Op::exp,   Op::expm1, Op::tanh, Op::log,  Op::log1p, Op::sigmoid, Op::sin,      Op::cos,
                              Op::tan,   Op::asin,  Op::acos, Op::atan, Op::sinh,  Op::cosh,    Op::asinh,    Op::acosh,
                              Op::atanh, Op::atan2, Op::exp2, Op::log2, Op::hypot, Op::fmod,    Op::remainder};

/// One kernel that computes all pointwise ops of the type on x (and y), and the same graph.
void check_ops(DType t, int64_t int_range) {
  constexpr int64_t kN = 1000;
  Graph g;
  KernelBuilder b("ops");
  b.k.lanes = LaneAxis::outer;
  const Expr i = b.outer("i", Expr(kN));
  const ParamId px = b.param("x", ParamRole::input, t, {Expr(kN)}), py = b.param("y", ParamRole::input, t, {Expr(kN)});
  b.block(false);
  const InstId x = b.load(px, i), y = b.load(py, i);
  Builder gb(g);
  const ValueId gx = g.add_input("x", {t, {Expr(kN)}}), gy = g.add_input("y", {t, {Expr(kN)}});
  std::vector<Op> ops;
  std::vector<DType> out;
  const auto add = [&](Op op, bool two) {
    const ValueId v = two ? gb.binary(op, gx, gy) : gb.unary(op, gx);
    ops.push_back(op);
    out.push_back(g.type(v).dtype);
    g.outputs.push_back({std::string(op_name(op)), v, "", -1});
    const ParamId p = b.param("out", ParamRole::output, out.back(), {Expr(kN)});
    b.store(p, i, b.op(op, out.back(), two ? std::vector<InstId>{x, y} : std::vector<InstId>{x}));
  };
  for (Op op : ops_of(OpClass::unary, t)) add(op, false);
  for (Op op : ops_of(OpClass::binary, t)) add(op, true);

  const HostTensor hx = random_tensor(t, kN, 1, int_range), hy = random_tensor(t, kN, 2, int_range);
  const std::vector<HostTensor> want = interpret(g, {hx, hy}, {true});
  for (Isa isa : loop_isas()) {
    if (!runs_here(isa)) continue;
    const CompiledUnit lib(emit::cpu::unit_source({emit::cpu::emit_function(b.k, emit::cpu::kernel_spec(b.k, "ops"))}), isa);
    const auto fn = reinterpret_cast<aotc_kernel_fn>(lib.symbol("ops"));
    std::vector<HostTensor> got;
    std::vector<void*> ptr = {const_cast<std::byte*>(hx.bytes.data()), const_cast<std::byte*>(hy.bytes.data())};
    for (DType o : out) got.push_back({o, {kN}, std::vector<std::byte>(static_cast<size_t>(kN * dtype_bytes(o)))});
    for (HostTensor& h : got) ptr.push_back(h.bytes.data());
    volatile int32_t fault = 0;
    aotc_kargs args{ptr.data(), nullptr, nullptr, nullptr, 0, 1, &fault};
    fn(&args, 0, emit::cpu::loop_work(b.k).as_const().value());
    for (size_t o = 0; o < ops.size(); ++o) {
      OpCase c{ops[o], kRelative};
      for (const OpCase& u : kLoose)
        if (u.op == ops[o]) c = u;
      int wrong = 0;
      for (size_t e = 0; e < kN && wrong < 4; ++e) {
        const double a = element(hx, e), w = element(want[o], e), v = element(got[o], e);
        if (a < c.lo || a > c.hi) continue;
        const double rounded = t == DType::f32 && is_float(out[o]) ? static_cast<float>(w) : w;
        if (same_number(ops[o], rounded, v)) continue;
        const bool close = std::find(std::begin(kCloseOfF64), std::end(kCloseOfF64), ops[o]) != std::end(kCloseOfF64);
        const double least = t == DType::f64 ? 1e-300 : 1.2e-38, tolerance = t != DType::f64 ? c.relative : close ? 8e-16 : 1e-12;
        if (is_float(t) && v != w && std::abs(v - w) <= tolerance * std::max(std::abs(w), least) + (t == DType::f64 ? 0 : 1.5e-45))
          continue;
        ++wrong;
        FAIL_CHECK(dtype_name(t) << " " << op_name(ops[o]) << "(" << a << ", " << element(hy, e) << ") = " << v << ", want " << w << " on "
                                 << isa_name(isa));
      }
    }
  }
}

}  // namespace

TEST_CASE("pointwise ops of floats") {
  for (DType t : {DType::f32, DType::f64}) check_ops(t, 1);
}

TEST_CASE("pointwise ops of integers and bools") {
  for (DType t : {DType::i64, DType::i32, DType::i16, DType::i8, DType::u8, DType::boolean}) check_ops(t, 9);
}
