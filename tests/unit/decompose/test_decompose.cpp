// Rules over small programs made by hand: types, values (by the graph interpreter), views, in-place writes and refusals.
#include <catch2/catch.hpp>
#include <cstring>

#include "decompose/decompose.h"
#include "decompose/promote.h"
#include "dense_meta.h"
#include "graph/guard.h"
#include "graph/interp.h"

using namespace aotc;
using namespace aotc::import;

namespace {

struct ProgramMaker {
  Program p;
  void meta(const std::string& name, DType t, std::vector<Expr> dims) { p.tensors[name] = dense_meta(t, std::move(dims)); }
  void input(const std::string& name, DType t, std::vector<Expr> dims) {
    meta(name, t, std::move(dims));
    p.inputs.push_back({.kind = InputKind::user, .name = name});
  }
  void node(const std::string& target, std::vector<NamedArg> args, const std::string& result, DType t, std::vector<Expr> dims) {
    meta(result, t, std::move(dims));
    p.nodes.push_back({.name = result, .target = target, .args = std::move(args), .results = {TensorRef{result}}});
  }
  void output(const std::string& name) { p.outputs.push_back({.kind = OutputKind::user, .value = TensorRef{name}}); }
};

template <class E>
HostTensor host(DType t, std::vector<int64_t> dims, const std::vector<E>& v) {
  HostTensor h{t, std::move(dims), std::vector<std::byte>(v.size() * sizeof(E))};
  std::memcpy(h.bytes.data(), v.data(), h.bytes.size());
  return h;
}
template <class E>
std::vector<E> values(const HostTensor& h) {
  std::vector<E> v(h.bytes.size() / sizeof(E));
  std::memcpy(v.data(), h.bytes.data(), h.bytes.size());
  return v;
}

TensorRef ref(const char* name) { return {name}; }

}  // namespace

TEST_CASE("promotion follows PyTorch") {
  using decompose::promote_types;
  CHECK(promote_types(DType::u8, DType::i8) == DType::i16);
  CHECK(promote_types(DType::i64, DType::f16) == DType::f16);
  CHECK(promote_types(DType::f16, DType::bf16) == DType::f32);
  CHECK(promote_types(DType::boolean, DType::u8) == DType::u8);
  CHECK(promote_types(DType::f64, DType::c64) == DType::c128);

  Graph g;
  Builder b(g);
  const ValueId half = g.add_input("h", {DType::f16, {Expr(3)}}), zero_dim = g.add_input("z", {DType::f32, {}}),
                ints = g.add_input("i", {DType::i32, {Expr(3)}});
  CHECK(decompose::result_type(b, {half, zero_dim}) == DType::f16);  // a 0-dim tensor of the same category does not widen
  CHECK(decompose::result_type(b, {ints, zero_dim}) == DType::f32);
  decompose::Operand number;
  number.number.kind = decompose::Rule::Number::floating;
  const decompose::Operand ops[] = {{ints, {}}, number};
  CHECK(decompose::result_type(b, ops) == DType::f32);
  const decompose::Operand halves[] = {{half, {}}, number};
  CHECK(decompose::result_type(b, halves) == DType::f16);
}

TEST_CASE("operands broadcast over symbolic dims and integers divide to float32") {
  ProgramMaker m;
  const SymId s = m.p.syms.add({.name = "n", .min = 1, .max = 8});
  m.input("x", DType::i64, {Expr::symbol(s), Expr(2)});
  m.input("y", DType::i64, {Expr(2)});
  m.node("aten.div.Tensor", {{"self", ref("x")}, {"other", ref("y")}}, "d", DType::f32, {Expr::symbol(s), Expr(2)});
  m.output("d");
  const Graph g = decompose::decompose(m.p);
  const auto out = interpret(g, {host<int64_t>(DType::i64, {2, 2}, {1, 2, 3, 4}), host<int64_t>(DType::i64, {2}, {2, 4})});
  CHECK(values<float>(out.at(0)) == std::vector<float>{0.5f, 0.5f, 1.5f, 1.0f});
}

TEST_CASE("bounds are those of the archive's torch") {
  const auto clamped = [](const char* torch, NamedArg low, NamedArg high) {
    ProgramMaker m;
    m.p.torch_version = torch;
    m.input("x", DType::u8, {Expr(3)});
    m.node("aten.clamp.default", {{"self", ref("x")}, std::move(low), std::move(high)}, "y", DType::u8, {Expr(3)});
    m.output("y");
    return values<uint8_t>(interpret(decompose::decompose(m.p), {host<uint8_t>(DType::u8, {3}, {0, 5, 200})}).at(0));
  };
  const NamedArg low{"min", Expr(-20)}, high{"max", Expr(30)}, far{"max", Expr(300)};
  CHECK(clamped("2.15.0", low, high) == std::vector<uint8_t>{0, 5, 30});
  CHECK(clamped("2.13.0+cpu", low, high) == std::vector<uint8_t>{30, 30, 30});  // 236 to 30
  CHECK(clamped("2.15.1+cu132", low, far) == std::vector<uint8_t>{0, 5, 200});

  for (const char* torch : {"2.14.1", "2.15.0"}) {
    ProgramMaker m;
    m.p.torch_version = torch;
    m.input("x", DType::f16, {Expr(1)});
    m.node("aten.softshrink.default", {{"self", ref("x")}, {"lambd", 0.1}}, "y", DType::f16, {Expr(1)});
    m.output("y");
    const uint16_t x = 0xae67, y = torch[3] == '5' ? 0x8400 : 0x8266;  // -0.10003662: -2^-14, or -3.66e-5
    CHECK(values<uint16_t>(interpret(decompose::decompose(m.p), {host<uint16_t>(DType::f16, {1}, {x})}).at(0)).at(0) == y);
  }
}

TEST_CASE("an in-place write through a view reaches the base and its other views") {
  ProgramMaker m;
  m.input("x", DType::f32, {Expr(2), Expr(2)});
  const auto clone = [&](const char* from, const char* to) {
    m.node("aten.clone.default", {{"self", ref(from)}, {"memory_format", NoneArg{}}}, to, DType::f32, {Expr(2), Expr(2)});
  };
  clone("x", "base");
  m.node("aten.select.int", {{"self", ref("base")}, {"dim", Expr(0)}, {"index", Expr(-1)}}, "row", DType::f32, {Expr(2)});
  m.node("aten.permute.default", {{"self", ref("base")}, {"dims", std::vector<Expr>{1, 0}}}, "turned", DType::f32, {Expr(2), Expr(2)});
  m.node("aten.mul_.Tensor", {{"self", ref("row")}, {"other", 10.0}}, "row_10", DType::f32, {Expr(2)});
  m.output("base");
  m.output("turned");
  m.output("row");
  m.output("x");
  const Graph g = decompose::decompose(m.p);
  const auto out = interpret(g, {host<float>(DType::f32, {2, 2}, {1, 2, 3, 4})});
  CHECK(values<float>(out.at(0)) == std::vector<float>{1, 2, 30, 40});
  CHECK(values<float>(out.at(1)) == std::vector<float>{1, 30, 2, 40});
  CHECK(values<float>(out.at(2)) == std::vector<float>{30, 40});
  CHECK(values<float>(out.at(3)) == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("a mutated buffer is a state, a mutated input an output that aliases it") {
  ProgramMaker m;
  m.input("x", DType::f32, {Expr(2)});
  static const float kInit[] = {5, 6};
  ConstData data{"cache", {DType::f32, {Expr(2)}}, nullptr, reinterpret_cast<const std::byte*>(kInit), sizeof kInit};
  m.p.data["cache"] = data;
  m.meta("b_cache", DType::f32, {Expr(2)});
  m.p.inputs.push_back({.kind = InputKind::buffer, .name = "b_cache", .target = "cache"});
  m.node("aten.add_.Tensor", {{"self", ref("b_cache")}, {"other", ref("x")}, {"alpha", Expr(1)}}, "sum", DType::f32, {Expr(2)});
  m.node("aten.zero_.default", {{"self", ref("x")}}, "zeroed", DType::f32, {Expr(2)});
  m.output("sum");
  m.p.outputs.push_back({.kind = OutputKind::buffer_mutation, .value = ref("b_cache"), .target = "cache"});
  m.p.outputs.push_back({.kind = OutputKind::user_input_mutation, .value = ref("x"), .target = "x"});
  const Graph g = decompose::decompose(m.p);
  REQUIRE(g.states.size() == 1);
  CHECK(g.states.raw()[0].updated == g.outputs.at(0).value);
  REQUIRE(g.outputs.size() == 2);
  CHECK(g.outputs[1].alias_input == 0);
  const auto out = interpret(g, {host<float>(DType::f32, {2}, {1, 2})});
  CHECK(values<float>(out.at(0)) == std::vector<float>{6, 8});
  CHECK(values<float>(out.at(1)) == std::vector<float>{0, 0});
}

TEST_CASE("everything unsupported is found in one go") {
  ProgramMaker m;
  m.input("x", DType::f32, {Expr(2)});
  m.node("aten.made_up.default", {{"self", ref("x")}}, "a", DType::f32, {Expr(2)});
  m.node("aten.relu.default", {{"self", ref("a")}}, "r", DType::f32, {Expr(2)});
  m.node("aten.dropout.default", {{"input", ref("r")}, {"p", 0.5}, {"train", true}}, "d", DType::f32, {Expr(2)});
  m.output("d");
  const auto missing = decompose::find_unsupported(m.p);
  REQUIRE(missing.size() == 2);
  CHECK(missing[0].node == "a");
  CHECK(missing[0].why == "no rule");
  CHECK(missing[1].overload == "aten.dropout.default");
  CHECK_THROWS_AS(decompose::decompose(m.p), Diagnostic);
}

TEST_CASE("an in-place operator whose rule refuses is named, and the walk goes on") {
  ProgramMaker m;
  m.input("x", DType::f32, {Expr(2)});
  m.node("aten.relu.default", {{"self", ref("x")}}, "r", DType::f32, {Expr(2)});
  m.node("aten.dropout_.default", {{"self", ref("r")}, {"p", 0.5}, {"train", true}}, "d", DType::f32, {Expr(2)});
  m.node("aten.made_up.default", {{"self", ref("d")}}, "a", DType::f32, {Expr(2)});
  m.output("a");
  const auto missing = decompose::find_unsupported(m.p);
  REQUIRE(missing.size() == 2);
  CHECK(missing[0].overload == "aten.dropout_.default");
  CHECK(missing[1].node == "a");
}

TEST_CASE("what has no rule comes with what can be done about it") {
  ProgramMaker m;
  m.input("x", DType::f32, {Expr(2)});
  struct Case {
    const char *target, *why, *hint;
  };
  const Case cases[] = {
      {"higher_order.cond", "torch.cond", "torch.where"},
      {"higher_order.while_loop", "while_loop", "counter"},
      {"higher_order.map_impl", "map", "torch.vmap"},
      {"higher_order.wrap_something", "region", "run_decompositions()"},
      {"mylib.foo.default", "custom operator", "run_decompositions()"},
      {"torchvision._deform_conv2d_backward.default", "custom operator", "ep.run_decompositions({op: fn})"},
      {"export.access_subclass_inner_tensor.default", "class of its own", "run_decompositions()"},
      {"aten.made_up.default", "no rule", "run_decompositions()"},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    const std::string name = "n" + std::to_string(i);
    m.node(cases[i].target, {{"0", ref("x")}}, name, DType::f32, {Expr(2)});
    m.output(name);
  }
  const auto missing = decompose::find_unsupported(m.p);
  REQUIRE(missing.size() == std::size(cases));
  for (size_t i = 0; i < std::size(cases); ++i) {
    INFO(cases[i].target);
    CHECK(missing[i].why.find(cases[i].why) != std::string::npos);
    CHECK(missing[i].hint.find(cases[i].hint) != std::string::npos);
  }
}

TEST_CASE("singular values are those of the longer side's columns, where it is known which side that is") {
  const auto program = [](const Expr& rows, const Expr& columns, SymTable* syms) {
    ProgramMaker m;
    if (syms) m.p.syms = *syms;
    m.input("a", DType::f64, {rows, columns});
    m.node("aten.linalg_svdvals.default", {{"A", ref("a")}}, "s", DType::f64, {min(rows, columns)});
    m.output("s");
    return std::move(m.p);
  };
  const auto out = interpret(decompose::decompose(program(2, 3, nullptr)), {host<double>(DType::f64, {2, 3}, {0, 3, 0, 4, 0, 0})});
  CHECK(values<double>(out.at(0)) == std::vector<double>{4, 3});
  SymTable syms;
  const SymId rows = syms.add({.name = "rows", .min = 1, .max = 8}), columns = syms.add({.name = "columns", .min = 1, .max = 8});
  const auto missing = decompose::find_unsupported(program(Expr::symbol(rows), Expr::symbol(columns), &syms));
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].why.find("more rows or more columns") != std::string::npos);
}

TEST_CASE("systems of any size are solved, long written-out eliminations refused with the limit") {
  const auto program = [](int64_t n) {
    ProgramMaker m;
    const SymId batch = m.p.syms.add({.name = "batch", .min = 1, .max = 8});
    m.input("a", DType::f32, {Expr::symbol(batch), Expr(n), Expr(n)});
    m.input("b", DType::f32, {Expr::symbol(batch), Expr(n), Expr(1)});
    m.node("aten.linalg_solve.default", {{"A", ref("a")}, {"B", ref("b")}, {"left", true}}, "x", DType::f32,
           {Expr::symbol(batch), Expr(n), Expr(1)});
    m.output("x");
    return m.p;
  };
  // The first matrix needs its rows exchanged, the second twice.
  const auto a = host<float>(DType::f32, {2, 3, 3}, {0, 2, 0, 4, 0, 0, 0, 0, 8, 0, 0, 1, 2, 0, 0, 0, 4, 0});
  const auto b = host<float>(DType::f32, {2, 3, 1}, {2, 4, 8, 3, 2, 4});
  const auto out = interpret(decompose::decompose(program(3)), {a, b});
  CHECK(values<float>(out.at(0)) == std::vector<float>{1, 1, 1, 1, 1, 3});
  CHECK(decompose::find_unsupported(program(200)).empty());
  ProgramMaker m;
  m.input("a", DType::f32, {Expr(200), Expr(200)});
  m.node("aten.linalg_lu_factor.default", {{"A", ref("a")}, {"pivot", false}}, "x", DType::f32, {Expr(200), Expr(200)});
  m.output("x");
  const auto missing = decompose::find_unsupported(m.p);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].why.find("up to 128") != std::string::npos);
}

TEST_CASE("Cholesky factors of any size say which minor is not positive, and solve") {
  ProgramMaker m;
  const SymId n = m.p.syms.add({.name = "n", .min = 1, .max = 4096});
  const Expr order = Expr::symbol(n);
  m.input("a", DType::f32, {Expr(2), order, order});
  m.input("b", DType::f32, {Expr(2), order, Expr(1)});
  for (const bool upper : {false, true}) {
    const std::string l = upper ? "u" : "l", x = upper ? "y" : "x";
    m.node("aten.linalg_cholesky.default", {{"self", ref("a")}, {"upper", upper}}, l, DType::f32, {Expr(2), order, order});
    m.node("aten.cholesky_solve.default", {{"self", ref("b")}, {"input2", ref(l.c_str())}, {"upper", upper}}, x, DType::f32,
           {Expr(2), order, Expr(1)});
    m.output(l);
    m.output(x);
  }
  const auto a = host<float>(DType::f32, {2, 2, 2}, {4, 2, 2, 10, 9, 3, 3, 1});
  const auto b = host<float>(DType::f32, {2, 2, 1}, {8, 22, 1, 1});
  const auto out = interpret(decompose::decompose(m.p), {a, b});
  for (const size_t first : {0u, 2u}) {
    const std::vector<float> factor = values<float>(out.at(first)), x = values<float>(out.at(first + 1));
    CHECK(std::vector<float>(factor.begin(), factor.begin() + 4) ==
          (first ? std::vector<float>{2, 1, 0, 3} : std::vector<float>{2, 0, 1, 3}));
    CHECK(std::vector<float>(x.begin(), x.begin() + 2) == std::vector<float>{1, 2});
    CHECK(std::isnan(factor[7]));  // 1 - 1 is not positive
  }
}

namespace {

/// A parameter, buffer or constant of two floats.
void weight(ProgramMaker& m, InputKind kind, const std::string& name, const float* data, const std::string& target, bool is_state = false) {
  m.p.data[target] = {target, {DType::f32, {Expr(2)}}, nullptr, reinterpret_cast<const std::byte*>(data), 2 * sizeof(float)};
  m.meta(name, DType::f32, {Expr(2)});
  m.p.inputs.push_back({.kind = kind, .name = name, .target = target, .is_state = is_state});
}

}  // namespace

TEST_CASE("batch norm in training writes its running statistics") {
  static const float kMean[] = {1, 2}, kVar[] = {1, 3};
  for (const bool training : {true, false}) {
    ProgramMaker m;
    m.input("x", DType::f32, {Expr(2), Expr(2)});
    weight(m, InputKind::buffer, "b_mean", kMean, "mean");
    weight(m, InputKind::buffer, "b_var", kVar, "var");
    const std::vector<NamedArg> args = {
        {"input", ref("x")},    {"weight", NoneArg{}}, {"bias", NoneArg{}}, {"running_mean", ref("b_mean")}, {"running_var", ref("b_var")},
        {"training", training}, {"momentum", 0.5},     {"eps", 0.0},        {"cudnn_enabled", false}};
    m.node("aten.batch_norm.default", args, "y", DType::f32, {Expr(2), Expr(2)});
    m.output("y");
    for (const char* target : {"mean", "var"})
      if (training)
        m.p.outputs.push_back({.kind = OutputKind::buffer_mutation, .value = TensorRef{std::string("b_") + target}, .target = target});
    const Graph g = decompose::decompose(m.p);
    CHECK(g.states.size() == (training ? 2 : 0));
    const auto out = interpret(g, {host<float>(DType::f32, {2, 2}, {1, 0, 3, 8})});
    if (!training) {
      CHECK(values<float>(out.at(0))[0] == 0.0f);
      continue;
    }
    CHECK(values<float>(out.at(0)) == std::vector<float>{-1, -1, 1, 1});
    CHECK(values<float>(out.at(1)) == std::vector<float>{1.5f, 3});      // halfway to the means 2 and 4
    CHECK(values<float>(out.at(2)) == std::vector<float>{1.5f, 17.5f});  // and to the unbiased variances 2 and 32
  }
}

TEST_CASE("parameters that are states keep their names, and tied ones are one") {
  static const float kShared[] = {2, 3}, kOther[] = {5, 7};
  ProgramMaker m;
  m.input("x", DType::f32, {Expr(2)});
  weight(m, InputKind::parameter, "p_a", kShared, "a", true);
  weight(m, InputKind::parameter, "p_b", kShared, "b", true);
  weight(m, InputKind::parameter, "p_c", kOther, "c");
  m.node("aten.mul.Tensor", {{"self", ref("x")}, {"other", ref("p_a")}}, "xa", DType::f32, {Expr(2)});
  m.node("aten.mul.Tensor", {{"self", ref("xa")}, {"other", ref("p_b")}}, "xab", DType::f32, {Expr(2)});
  m.node("aten.mul.Tensor", {{"self", ref("xab")}, {"other", ref("p_c")}}, "y", DType::f32, {Expr(2)});
  m.p.outputs.push_back({.kind = OutputKind::loss, .value = ref("y")});
  m.p.outputs.push_back({.kind = OutputKind::parameter_gradient, .value = ref("xab"), .target = "c"});
  const Graph g = decompose::decompose(m.p);
  REQUIRE(g.states.size() == 1);
  CHECK(g.states.raw()[0].name == "a");
  CHECK(g.states.raw()[0].updated == kNone<ValueId>);
  CHECK(g.outputs.at(0).name == "loss");
  CHECK(g.outputs.at(1).name == "grad_c");
  CHECK(g.outputs.at(1).gradient_of == "c");
  const auto out = interpret(g, {host<float>(DType::f32, {2}, {1, 10})});
  CHECK(values<float>(out.at(0)) == std::vector<float>{20, 630});
}

TEST_CASE("a number that Python computes from sizes is computed by the graph") {
  ProgramMaker m;
  const Expr n = Expr::symbol(m.p.syms.add({.name = "n", .min = 1, .max = 8}));
  m.input("x", DType::f32, {n});
  m.p.nodes.push_back(
      {.name = "half", .target = "operator.truediv", .args = {{"0", n}, {"1", Expr(2)}}, .results = {SymbolicArg{"half", "(n/2)"}}});
  m.p.nodes.push_back({.name = "inverse",
                       .target = "operator.truediv",
                       .args = {{"0", 1.0}, {"1", SymbolicArg{"half", "(n/2)"}}},
                       .results = {SymbolicArg{"inverse", "1/(n/2)"}}});
  m.node("aten.mul.Tensor", {{"self", ref("x")}, {"other", SymbolicArg{"inverse", "1/(n/2)"}}}, "y", DType::f32, {n});
  m.node("aten.pow.Tensor_Scalar", {{"self", ref("x")}, {"exponent", SymbolicArg{"half", "(n/2)"}}}, "z", DType::f32, {n});
  m.output("y");
  m.output("z");
  const auto out = interpret(decompose::decompose(m.p), {host<float>(DType::f32, {4}, {1, 2, 3, 4})});
  CHECK(values<float>(out.at(0)) == std::vector<float>{0.5f, 1, 1.5f, 2});
  CHECK(values<float>(out.at(1)) == std::vector<float>{1, 4, 9, 16});

  m.node("aten.mul.Tensor", {{"self", ref("x")}, {"other", SymbolicArg{"unknown", "exp(n)"}}}, "w", DType::f32, {n});
  m.output("w");
  const auto missing = decompose::find_unsupported(m.p);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].why.find("exp(n)") != std::string::npos);
}

TEST_CASE("a gradient has the sizes that its operator gives its input") {
  const auto ints = [](std::initializer_list<int64_t> v) {
    std::vector<Expr> e;
    for (const int64_t i : v) e.emplace_back(i);
    return e;
  };
  const auto sizes = [&](const Expr& n) { return std::vector<Expr>{Expr(1), Expr(2), n}; };
  struct Case {
    const char *target, *gradient, *input;  ///< names of the arguments; input null: sizes instead
    int64_t n, m;                           ///< sizes of the input and of the gradient that belong together
    std::vector<Expr> between, behind;      ///< other dims: of both before the last one, of the gradient behind it
    std::vector<NamedArg> args;
  };
  const auto conv = [&](bool transposed, int64_t extra) {
    return std::vector<NamedArg>{{"weight", ref("w")},
                                 {"bias_sizes", NoneArg{}},
                                 {"stride", ints({2})},
                                 {"padding", ints({1})},
                                 {"dilation", ints({1})},
                                 {"transposed", transposed},
                                 {"output_padding", ints({extra})},
                                 {"groups", Expr(1)}};
  };
  const std::vector<NamedArg> windows = {{"kernel_size", ints({1, 3})}, {"stride", ints({1, 2})}, {"padding", ints({0, 1})}};
  const auto with = [](std::vector<NamedArg> args, const std::vector<NamedArg>& more) {
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  const std::vector<Case> cases = {
      {"aten.avg_pool2d_backward.default",
       "grad_output",
       "self",
       8,
       5,
       {Expr(4)},
       {},
       with(windows, {{"ceil_mode", true}, {"count_include_pad", true}, {"divisor_override", NoneArg{}}})},
      {"aten.max_pool2d_with_indices_backward.default",
       "grad_output",
       "self",
       10,
       5,
       {Expr(4)},
       {},
       with(windows, {{"dilation", ints({1, 1})}, {"ceil_mode", false}, {"indices", ref("at")}})},
      {"aten.reflection_pad1d_backward.default", "grad_output", "self", 5, 8, {}, {}, {{"padding", ints({1, 2})}}},
      {"aten.slice_backward.default",
       "grad_output",
       nullptr,
       8,
       4,
       {},
       {},
       {{"dim", Expr(2)}, {"start", Expr(1)}, {"end", Expr(INT64_MAX)}, {"step", Expr(2)}}},
      {"aten.unfold_backward.default", "grad_in", nullptr, 9, 4, {}, {Expr(3)}, {{"dim", Expr(2)}, {"size", Expr(3)}, {"step", Expr(2)}}},
      {"aten.convolution_backward.default", "grad_output", "input", 9, 5, {}, {}, conv(false, 0)},
      {"aten.convolution_backward.default", "grad_output", "input", 5, 10, {}, {}, conv(true, 1)},
  };
  for (const Case& c : cases) {
    INFO(c.target);
    ProgramMaker m;
    const SymId in = m.p.syms.add({.name = "n", .min = 4, .max = 64}), out = m.p.syms.add({.name = "m", .min = 4, .max = 64});
    std::vector<Expr> from = sizes(Expr::symbol(in)), to = sizes(Expr::symbol(out));
    for (std::vector<Expr>* dims : {&from, &to}) dims->insert(dims->begin() + 2, c.between.begin(), c.between.end());
    to.insert(to.end(), c.behind.begin(), c.behind.end());
    m.input("x", DType::f32, from);
    m.input("g", DType::f32, to);
    m.input("at", DType::i64, to);
    m.input("w", DType::f32, {Expr(2), Expr(2), Expr(3)});
    std::vector<NamedArg> args = c.args;
    args.push_back({c.gradient, ref("g")});
    args.push_back(c.input ? NamedArg{c.input, ref("x")} : NamedArg{"input_sizes", from});
    m.node(c.target, args, "y", DType::f32, from);
    m.output("y");
    const Graph g = decompose::decompose(m.p);
    const auto takes = [&](int64_t n, int64_t size) {
      return guards_hold(g.guards, [&](SymId s) { return std::optional(g.syms[s].name == "n" ? n : size); });
    };
    CHECK(takes(c.n, c.m));
    CHECK_FALSE(takes(c.n, c.m + 1));
    CHECK_FALSE(takes(c.n + 7, c.m));
  }
}

TEST_CASE("archives that contradict themselves are refused with a reason") {
  const auto refused = [](const char* target, std::vector<NamedArg> args, const char* why) {
    ProgramMaker m;
    m.input("x", DType::f32, {Expr(2), Expr(3)});
    m.node(target, std::move(args), "y", DType::f32, {Expr(3)});
    m.output("y");
    CHECK_THROWS_WITH(decompose::decompose(m.p), Catch::Contains(why));
  };
  refused("aten.pad.default",
          {{"self", ref("x")}, {"pad", std::vector<Expr>(8, Expr(1))}, {"mode", std::string("constant")}, {"value", NoneArg{}}},
          "8 amounts");
  refused("aten.expand.default", {{"self", ref("x")}, {"size", std::vector<Expr>{Expr(3)}}, {"implicit", false}}, "2 dims repeated as 1");
}

TEST_CASE("rows of maps are rows only within them") {
  const auto map = [](ProgramMaker& m, const char* name, std::vector<NamedArg> args, const char* result) {
    PNode n{.name = result ? result : name, .target = std::string("torch._functorch.predispatch.") + name, .args = std::move(args)};
    n.results = {result ? Arg(TensorRef{result}) : Arg(NoneArg{})};
    m.p.nodes.push_back(std::move(n));
  };
  const auto program = [&](bool ended) {
    ProgramMaker m;
    m.input("x", DType::f32, {Expr(2), Expr(3)});
    map(m, "_vmap_increment_nesting", {{"0", Expr(2)}, {"1", std::string("error")}}, nullptr);
    m.meta("row", DType::f32, {Expr(3)});
    map(m, "_add_batch_dim", {{"0", ref("x")}, {"1", Expr(0)}, {"2", Expr(1)}}, "row");
    if (ended) map(m, "_vmap_decrement_nesting", {}, nullptr);
    m.node("aten.sum.default", {{"self", ref("row")}, {"dtype", NoneArg{}}}, "sum", DType::f32, {});
    m.meta("y", DType::f32, {Expr(2)});
    map(m, "_remove_batch_dim", {{"0", ref("sum")}, {"1", Expr(1)}, {"2", Expr(2)}, {"3", Expr(0)}}, "y");
    m.output("y");
    return m.p;
  };
  const Graph g = decompose::decompose(program(false));
  CHECK(values<float>(interpret(g, {host<float>(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6})})[0]) == std::vector<float>{6, 15});
  CHECK_THROWS_WITH(decompose::decompose(program(true)), Catch::Contains("operators cannot be compiled"));
}
