// The scalar parts of device.cuh on the host, against the interpreter of graphs: every operator in every type that it takes, over the edges
// of the types, and every reducer.
// Rows of macros:
// clang-format off
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <set>

#include "graph/infer.h"
#include "graph/interp.h"
#include "graph/scalar.h"

namespace device {
#include "cuda/host.h"
#include "kernels/cuda/device.cuh"
}  // namespace device

using namespace aotc;

namespace {

template <class T>
constexpr DType kType = DType::boolean;
template <>
constexpr DType kType<device::u8> = DType::u8;
template <>
constexpr DType kType<device::i8> = DType::i8;
template <>
constexpr DType kType<short> = DType::i16;
template <>
constexpr DType kType<int> = DType::i32;
template <>
constexpr DType kType<device::i64> = DType::i64;
template <>
constexpr DType kType<device::f16> = DType::f16;
template <>
constexpr DType kType<device::bf16> = DType::bf16;
template <>
constexpr DType kType<float> = DType::f32;
template <>
constexpr DType kType<double> = DType::f64;

/// f.operator()<T>() for every element type.
template <class F>
void for_each_type(F f) {
  f.template operator()<bool>(), f.template operator()<device::u8>(), f.template operator()<device::i8>();
  f.template operator()<short>(), f.template operator()<int>(), f.template operator()<device::i64>();
  f.template operator()<device::f16>(), f.template operator()<device::bf16>();
  f.template operator()<float>(), f.template operator()<double>();
}

/// Values worth trying: the ends of the type, signs, zeros, infinities, NaN, what is near an integer, and some at random.
template <class T>
std::vector<T> edges() {
  std::vector<T> v;
  std::mt19937_64 rng(5);
  if constexpr (std::is_same_v<T, bool>) {
    return {false, true};
  } else if constexpr (std::is_integral_v<T>) {
    using L = std::numeric_limits<T>;
    for (int i : {-128, -9, -8, -7, -3, -2, -1, 0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 31, 32, 63, 64, 100, 127}) v.push_back(static_cast<T>(i));
    for (T x : {L::min(), L::max(), static_cast<T>(L::min() + 1), static_cast<T>(L::max() - 1), static_cast<T>(L::max() / 2)})
      v.push_back(x);
    for (int i = 0; i < 10; ++i) v.push_back(static_cast<T>(rng()));
  } else {
    const double kEdges[] = {0.0,    -0.0,  1.0,   -1.0,   2.0,   -2.0,   3.0,     -3.0,  0.5,    -0.5,     1.5,       -1.5,    2.5,
                             -2.5,   0.1,   -0.1,  0.3,    -0.7,  0.999,  -0.999,  7.25,  -7.25,  10.0,     -10.0,     12.5,    -12.5,
                             88.0,   -88.0, 100.0, -100.0, 127.5, -128.5, 255.0,   256.0, 1e3,    -1e3,     32767.0,   4.0e4,   -4.0e4,
                             65504., 1e-3,  -1e-3, 1e-7,   -1e-7, 6e-8,   2e9,     -2e9,  3e9,    -3e9,     9.0e18,    -9.3e18, 1e10,
                             1e30,   -1e30, 1e-30, -1e-30, 1e-40, 3.0e38, -3.0e38, 1e300, 1e-300, INFINITY, -INFINITY, NAN};
    for (double x : kEdges) v.push_back(T(static_cast<typename device::compute<T>::type>(x)));
    std::uniform_real_distribution<double> unit(-1, 1), wide(-40, 40);
    for (int i = 0; i < 12; ++i) v.push_back(T(static_cast<typename device::compute<T>::type>(i % 2 ? unit(rng) : wide(rng))));
  }
  return v;
}

template <class T>
HostTensor tensor(const std::vector<T>& v) {
  HostTensor t{kType<T>, {static_cast<int64_t>(v.size())}, {}};
  t.bytes.resize(v.size() * static_cast<size_t>(dtype_bytes(kType<T>)));
  for (size_t i = 0; i < v.size(); ++i) {
    const T x = v[i];
    std::memcpy(t.bytes.data() + i * sizeof(T), &x, sizeof(T));
  }
  return t;
}

double value(DType t, const std::byte* p) {
  double f;
  load_f64(t, p, &f, 1);
  return f;
}

/// How far the two may be apart, relative to what is right: roundings of the type, more where the operator is approximated.
double tolerance(Op op, DType t) {
  const double ulp = t == DType::f64 ? 2.3e-16 : t == DType::f32 ? 1.2e-7 : t == DType::f16 ? 1e-3 : 8e-3;
  const bool exact = op == Op::add || op == Op::sub || op == Op::mul || op == Op::div || op == Op::sqrt || op == Op::reciprocal;
  if (t != DType::f64) return exact ? 0.51 * ulp : 8 * ulp;
  return op == Op::digamma || op == Op::erfinv || op == Op::lgamma ? 1e-11 : exact ? 0 : 16 * ulp;
}

class Checker {
 public:
  /// One operator on tensors made of T (and the condition of where), result R.
  template <class R, class... In>
  void check(Op op, const std::vector<R>& got, const std::vector<In>&... in) {
    Graph g;
    Node n;
    n.op = op;
    std::vector<HostTensor> inputs = {tensor(in)...};
    for (const HostTensor& t : inputs) n.inputs.push_back(g.add_input("x", {t.dtype, {Expr(t.dims[0])}}));
    const TensorType result{kType<R>, {Expr(static_cast<int64_t>(got.size()))}};
    const NodeId id = g.add_node(n, {result});
    const DType of = inputs.back().dtype;
    seen_.insert({op, of});
    std::vector<const HostTensor*> pointers;
    for (const HostTensor& t : inputs) pointers.push_back(&t);
    const HostTensor want = interpret_node(g, g.nodes[id], pointers).at(0), is = tensor(got);
    const auto width = static_cast<size_t>(dtype_bytes(result.dtype));
    int shown = 0;
    for (size_t i = 0; i < got.size() && shown < 5; ++i) {
      const std::byte *a = want.bytes.data() + i * width, *b = is.bytes.data() + i * width;
      if (std::memcmp(a, b, width) == 0) continue;
      std::string where = fmt::format("{} {} of", op_name(op), dtype_name(of));
      for (const HostTensor& t : inputs) {
        const std::byte* p = t.bytes.data() + i * static_cast<size_t>(dtype_bytes(t.dtype));
        int64_t whole = 0;
        if (!is_float(t.dtype)) load_i64(t.dtype, p, &whole, 1);
        where += is_float(t.dtype) ? fmt::format(" {}", value(t.dtype, p)) : fmt::format(" {}", whole);
      }
      if (!is_float(result.dtype)) {
        int64_t x, y;
        load_i64(result.dtype, a, &x, 1), load_i64(result.dtype, b, &y, 1);
        FAIL_CHECK(where << " as " << dtype_name(result.dtype) << ": " << y << ", not " << x);
        ++shown;
        continue;
      }
      const double x = value(result.dtype, a), y = value(result.dtype, b);
      if (std::isnan(x) && std::isnan(y)) continue;
      // Zeros have signs, but where PyTorch's own kernels choose among both as they come.
      if (x == y && (x != 0 || op == Op::maximum || op == Op::minimum || std::signbit(x) == std::signbit(y))) continue;
      // Results below the normal numbers may be flushed; 16-bit types round a float that may be one rounding off.
      const double tiny = result.dtype == DType::f64 ? 1e-300 : result.dtype == DType::f16 ? 1.2e-7 : 1.2e-38;
      if (x != y && std::fabs(x - y) <= tolerance(op, result.dtype) * std::fabs(x) + tiny) continue;
      FAIL_CHECK(where << ": " << y << ", not " << x);
      ++shown;
    }
  }

  template <class T, class F>
  void unary(Op op, F f) {
    const std::vector<T> x = edges<T>();
    std::vector<decltype(f(x[0]))> got;
    for (const T v : x) got.push_back(f(v));
    check(op, got, x);
  }
  template <class T, class F>
  void binary(Op op, F f) {
    std::vector<T> x, y;
    const std::vector<T> all = edges<T>();
    for (const T a : all)
      for (const T b : all) x.push_back(a), y.push_back(b);
    std::vector<decltype(f(x[0], y[0]))> got;
    for (size_t i = 0; i < x.size(); ++i) got.push_back(f(x[i], y[i]));
    check(op, got, x, y);
  }

  /// Every scalar operator that takes the type was looked at.
  void complete() const {
    for (int i = 0; i < static_cast<int>(Op::reshape); ++i) {
      const Op op = static_cast<Op>(i);
      const OpClass c = op_class(op);
      if (c != OpClass::unary && c != OpClass::binary && c != OpClass::ternary) continue;
      for_each_type([&]<class T>() {
        Graph g;
        Node n;
        n.op = op;
        if (c == OpClass::ternary) n.inputs.push_back(g.add_input("c", {DType::boolean, {Expr(1)}}));
        for (int k = c == OpClass::unary ? 1 : 2; k > 0; --k) n.inputs.push_back(g.add_input("x", {kType<T>, {Expr(1)}}));
        const TensorType same{kType<T>, {Expr(1)}};
        try {
          infer_types(g, n, op == Op::cast || op == Op::bitcast ? &same : nullptr);
        } catch (const InternalError&) { return; }
        INFO(op_name(op) << " " << dtype_name(kType<T>));
        CHECK(seen_.count({op, kType<T>}));
      });
    }
  }

 private:
  std::set<std::pair<Op, DType>> seen_;
};

template <class T>
constexpr bool kFloat = device::is_floating<T>::value;
template <class T>
constexpr bool kInt = std::is_integral_v<T> && !std::is_same_v<T, bool>;

/// OperandTypes, for a type of device code.
template <class T>
constexpr bool any = true;
template <class T>
constexpr bool real = true;
template <class T>
constexpr bool numeric = kFloat<T> || kInt<T>;
template <class T>
constexpr bool floats = kFloat<T>;
template <class T>
constexpr bool ints = kInt<T>;
template <class T>
constexpr bool bools = std::is_same_v<T, bool>;
template <class T>
constexpr bool ints_or_bool = kInt<T> || bools<T>;

}  // namespace

// Every row of ops.def with one or two operands and a result type of its own; cast, bitcast and where follow below.
#define AOTC_CHECK_nullary(...)
#define AOTC_CHECK_ternary(...)
#define AOTC_CHECK_view(...)
#define AOTC_CHECK_cat(...)
#define AOTC_CHECK_index(...)
#define AOTC_CHECK_reduce(...)
#define AOTC_CHECK_scan(...)
#define AOTC_CHECK_contraction(...)
#define AOTC_CHECK_opaque(...)
#define AOTC_CHECK_unary(id, operands, result, cost) AOTC_CHECK_unary_##result(id, operands)
#define AOTC_CHECK_unary_given(id, operands)
#define AOTC_CHECK_unary_same(id, operands) if constexpr (operands<T>) c.unary<T>(Op::id, [](T x) { return device::op_##id(x); });
#define AOTC_CHECK_unary_boolean(id, operands) AOTC_CHECK_unary_same(id, operands)
#define AOTC_CHECK_binary(id, operands, result, cost) if constexpr (operands<T>) c.binary<T>(Op::id, [](T x, T y) { return device::op_##id(x, y); });

TEST_CASE("device code computes what the interpreter does") {
  Checker c;
  for_each_type([&]<class T>() {
#define AOTC_OP(id, name, cls, ...) AOTC_CHECK_##cls(id __VA_OPT__(,) __VA_ARGS__)
#include "graph/ops.def"
#undef AOTC_OP
    const std::vector<T> x = edges<T>();
    std::vector<bool> condition;
    std::vector<T> y(x.rbegin(), x.rend()), chosen;
    for (size_t i = 0; i < x.size(); ++i) {
      condition.push_back(i % 3 == 0);
      chosen.push_back(device::op_where<T>(i % 3 == 0, x[i], y[i]));
    }
    c.check(Op::where, chosen, condition, x, y);
    for_each_type([&]<class To>() {
      c.unary<T>(Op::cast, [](T v) { return device::op_cast<To>(v); });
      if constexpr (sizeof(To) == sizeof(T) && !std::is_same_v<To, bool>)
        c.unary<T>(Op::bitcast, [](T v) { return device::op_bitcast<To>(v); });
    });
  });
  c.complete();
}

TEST_CASE("index arithmetic of device code rounds as expressions do") {
  const std::vector<device::i64> v = {-1000000007, -64, -9, -8, -7, -1, 0, 1, 2, 7, 8, 9, 63, 1000000007};
  for (device::i64 a : v)
    for (device::i64 b : v) {
      CHECK(device::imin(a, b) == std::min(a, b));
      CHECK(device::imax(a, b) == std::max(a, b));
      if (b == 0) continue;
      CHECK(device::floordiv(a, b) == *floordiv(Expr(int64_t{a}), Expr(int64_t{b})).as_const());
      CHECK(device::floormod(a, b) == *mod(Expr(int64_t{a}), Expr(int64_t{b})).as_const());
      if (a < 0 || b < 0) continue;
      CHECK(device::narrow_div(a, b) == a / b);
      CHECK(device::narrow_mod(a, b) == a % b);
    }
}

TEST_CASE("a quotient by a row's divisor is within a rounding of the division") {
  for (float a : edges<float>())
    for (float b : edges<float>()) {
      const float want = a / b, got = device::op_div_by(a, device::reciprocal_of(b));
      if (want == got || (std::isnan(want) && std::isnan(got)) || std::fabs(want) < 1.2e-38f) continue;
      INFO(a << " / " << b << ": " << got << ", not " << want);
      CHECK(std::fabs(got - want) <= 2.4e-7f * std::fabs(want));
    }
}

namespace {

/// Combines the values in the order of a block's tree and of one thread's loop; compares with the interpreter's reduction.
template <class R, class T>
void check_reducer(ReduceKind kind, const std::vector<T>& all) {
  constexpr bool kArg = requires(typename R::V v) { v.index; };
  std::mt19937 rng(3);
  for (size_t count : {size_t{1}, size_t{2}, size_t{5}, size_t{32}, size_t{77}}) {
    for (int round = 0; round < 12; ++round) {
      std::vector<T> x;
      for (size_t i = 0; i < count; ++i) x.push_back(all[rng() % all.size()]);
      auto item = [&](size_t i) {
        if constexpr (kArg)
          return typename R::V{x[i], static_cast<device::i64>(i)};
        else
          return x[i];
      };
      typename R::V parts[8] = {R::init(), R::init(), R::init(), R::init(), R::init(), R::init(), R::init(), R::init()};
      for (size_t i = 0; i < count; ++i) parts[i % 8] = R::combine(parts[i % 8], item(i));
      for (int m = 4; m; m /= 2)
        for (int i = 0; i < m; ++i) parts[i] = R::combine(parts[i], parts[i + m]);
      Graph g;
      Node n;
      n.op = Op::reduce;
      n.attrs = {{Attr::kind, std::string(reduce_name(kind))}, {Attr::dims, Ints{0}}};
      const HostTensor in = tensor(x);
      n.inputs.push_back(g.add_input("x", {in.dtype, {Expr(in.dims[0])}}));
      const DType result = kArg ? DType::i64 : in.dtype;
      const NodeId id = g.add_node(n, {{result, {}}});
      const HostTensor want = interpret_node(g, g.nodes[id], {&in}).at(0);
      INFO(reduce_name(kind) << " of " << count << " " << dtype_name(in.dtype));
      if constexpr (kArg) {
        int64_t w;
        load_i64(DType::i64, want.bytes.data(), &w, 1);
        CHECK(parts[0].index == w);
      } else {
        const HostTensor got = tensor(std::vector<T>{parts[0]});
        if (!is_float(result)) {
          CHECK(got.bytes == want.bytes);
          continue;
        }
        const double w = value(result, want.bytes.data()), is = value(result, got.bytes.data());
        const bool sums = kind == ReduceKind::sum || kind == ReduceKind::prod;
        if (sums && !(std::fabs(w) < 1e30)) continue;  // the order decides what overflows
        CHECK((w == is || (std::isnan(w) && std::isnan(is)) ||
               (sums && std::fabs(w - is) <= (is_half(result) ? 0.3 : 1e-5) * std::max(1.0, std::fabs(w)))));
      }
    }
  }
}

}  // namespace

TEST_CASE("reducers of device code: sums, products, extremes and their places, NaN and ties") {
  for_each_type([&]<class T>() {
    std::vector<T> all = edges<T>(), few;
    for (int v : {0, 1, 1, 2, 1, 0}) {
      if constexpr (kFloat<T>)
        few.push_back(T(static_cast<typename device::compute<T>::type>(v)));
      else
        few.push_back(static_cast<T>(v));
    }
    check_reducer<device::ReduceMax<T>>(ReduceKind::max, all);
    check_reducer<device::ReduceMin<T>>(ReduceKind::min, all);
    check_reducer<device::ReduceArg<T, true>>(ReduceKind::argmax, all);
    check_reducer<device::ReduceArg<T, false>>(ReduceKind::argmin, all);
    check_reducer<device::ReduceArg<T, true>>(ReduceKind::argmax, few);
    check_reducer<device::ReduceArg<T, false>>(ReduceKind::argmin, few);
    if constexpr (kFloat<T> || kInt<T>) {
      check_reducer<device::ReduceSum<T>>(ReduceKind::sum, few);
      check_reducer<device::ReduceProd<T>>(ReduceKind::prod, few);
    }
  });
}
