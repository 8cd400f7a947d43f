// Conditions of an archive on the sizes of its inputs.
#include "graph/guard.h"
#include "import/size_conditions.h"
#include "import/sym_eval.h"
#include "import/sym_parse.h"
#include "import/sym_text.h"
#include "support.h"

using namespace aotc;
using namespace aotc::import;
using namespace aotc::import::test;
using Catch::Matchers::Contains;

namespace {

/// x [s0, s1], y [s1, 7]; s0 from 2, s1 from 0.
struct Model {
  Program p;
  Json archive, graph_module = Json::object();
  Model() {
    const Expr a = Expr::symbol(p.syms.add({.name = "s0", .min = 2})), b = Expr::symbol(p.syms.add({.name = "s1"}));
    p.tensors["x"] = {.sizes = {a, b}};
    p.tensors["y_k_0"] = {.sizes = {b, 7}};
    p.inputs = {{.kind = InputKind::user, .name = "x", .tree_path = "args[0]"},
                {.kind = InputKind::user, .name = "y_k_0", .tree_path = "kwargs['y']['k'][0]"}};
    graph_module["module_call_graph"] =
        Json::parse(R"([{"fqn": "", "signature": {"in_spec": "", "out_spec": "", "forward_arg_names": ["x", "y"]}}])");
  }
  void read(const std::string& text) {
    archive["guards_code"] = Json::array({text});
    const JsonRef m(archive, "model.json"), gm(graph_module, "model.json");
    read_guards_code(m, gm, p.syms, p);
  }
  bool hold(int64_t s0, int64_t s1) const {
    return guards_hold(p.guards, [&](SymId s) { return std::optional(idx(s) == 0 ? s0 : s1); });
  }
};

/// The guards that are made of a text hold exactly where Python finds it true.
void agrees(const std::string& text) {
  Model m;
  m.read(text);
  INFO(text);
  REQUIRE(m.p.open_conditions.empty());
  const Result<SymNode> tree = parse_sym(text);
  REQUIRE(tree);
  for (int64_t s0 = 2; s0 < 24; ++s0)
    for (int64_t s1 = 0; s1 < 40; ++s1) {
      const Truth t = evaluate_condition(*tree, [&](const std::string& source) -> std::optional<int64_t> {
        if (source == "L['x'].size()[0]") return s0;
        if (source == "L['x'].size()[1]" || source == "L['y']['k'][0].size()[0]") return s1;
        return std::nullopt;
      });
      INFO(s0 << " " << s1);
      REQUIRE(t != Truth::unknown);
      REQUIRE(m.hold(s0, s1) == (t == Truth::yes));
    }
}

}  // namespace

TEST_CASE("guards of export hold exactly where Python's do") {
  for (const char* text : {
           "3*((1 + L['x'].size()[1]) // 3) >= L['x'].size()[1]",
           "2*(L['x'].size()[1] // 2) < 1 + L['x'].size()[1]",
           "((1 + L['x'].size()[1]) // 3) != 1",
           "(L['x'].size()[0] % 3) == 1 and L['x'].size()[1] > 5",
           "(L['x'].size()[0] % 3) == 1 or L['x'].size()[1] > 5 or L['x'].size()[0] == L['x'].size()[1]",
           "not (L['x'].size()[0] == 4) and not (L['x'].size()[1] > 5 or L['x'].size()[1] < 2)",
           "(L['x'].size()[1] % (L['x'].size()[1] // 4)) == 0",
           "(L['x'].size()[1]*L['x'].size()[0]) == (4*L['x'].size()[0]*(L['x'].size()[1] // 4))",
           "max(1, L['x'].size()[1] // 3) == min(L['x'].size()[0], L['x'].size()[1], 5)",
           "torch.sym_max(1, L['x'].size()[1] // 3) == torch.sym_min(L['x'].size()[0], torch.sym_min(L['x'].size()[1], 5))",
           "torch.sym_not(8*torch.sym_max(1, L['x'].size()[0] // 4) > 8)",
           "torch.sym_int(L['x'].size()[1] / 2) == 3",
           "math.trunc(0.5 + (L['x'].size()[1] / 2)) == 3",
           "math.floor(1.5*torch.sym_float(L['x'].size()[1])) >= 7",
           "math.ceil(L['x'].size()[1] / 3) == 4",
           "(-1)*L['y']['k'][0].size()[0] <= -3",
           "abs(L['x'].size()[1] - 10) <= L['x'].size()[0]",
           "L['x'].size()[0]**2 > L['x'].size()[1] - -3",
           "And(Ne(L['x'].size()[0], 3), Gt(L['x'].size()[1], 4))",
       })
    agrees(text);
}

TEST_CASE("guards name the inputs' sizes, by all paths to an input") {
  for (const char* source : {"L['y']['k'][0]", "L['flat_args'][1]", "L['y_k_0']", "L['y_k'][0]"}) {
    Model m;
    m.read(fmt::format("{}.size()[0] % 2 == 0", source));
    REQUIRE(m.p.guards.size() == 1);
    CHECK_THAT(m.p.guards[0].why, Contains("y_k_0.size()[0] % 2 == 0"));
    CHECK(m.hold(2, 4));
    CHECK_FALSE(m.hold(2, 5));
  }
  Model dense;
  dense.read("L['x'].stride()[0] == 12");
  CHECK(dense.hold(3, 12));
  CHECK_FALSE(dense.hold(12, 3));
}

TEST_CASE("a guard that cannot be read is an error with its text") {
  const auto why = [](const std::string& text) {
    Model m;
    return refusal([&] { m.read(text); });
  };
  for (const char* text : {"L['x'].size()[0] ==", "L['z'].size()[0] == 3", "L['x'].size()[9] == 3", "L['x'].dtype == 3",
                           "L['x'].size()[0] = 3", "1 < L['x'].size()[0] < 5", "__import__('os').system('x')"}) {
    CHECK_THAT(why(text), Contains("guard") && Contains(text) && Contains("$.guards_code[0]"));
  }
  CHECK_THAT(why(std::string(200, '(') + "1" + std::string(200, ')') + " == 1"), Contains("deeper"));
  CHECK_THAT(why(std::string(70000, ' ')), Contains("65536"));
  std::string product = "L['x'].size()[0]";
  for (int i = 0; i < 3000; ++i) product += "//2";
  CHECK_THAT(why(product + " == 1"), Contains("factors"));
}

TEST_CASE("a guard that no expression can say is decided by the sizes that are left") {
  const std::string text = "math.trunc(torch.sym_float(L['x'].size()[0]) ** 0.5) == 3";
  {
    Model m;
    m.read(text);
    REQUIRE(m.p.open_conditions.size() == 1);
    decide_conditions(m.p);
    CHECK(m.p.open_conditions.empty());
    CHECK((m.p.syms[SymId{0}].min == 9 && m.p.syms[SymId{0}].max == 15));
  }
  {  // a size to tune for says which run of sizes is meant
    Model m;
    m.p.syms.edit(SymId{0}).max = 500;
    m.p.syms.edit(SymId{0}).tune = {7};
    m.read("0.1*L['x'].size()[0] < 0.75 or 0.1*L['x'].size()[0] > 2.05");
    decide_conditions(m.p);
    CHECK((m.p.syms[SymId{0}].min == 2 && m.p.syms[SymId{0}].max == 7));
  }
  {  // rounded as Python rounds
    Model m;
    m.p.syms.edit(SymId{0}).min = 40;
    m.read("math.trunc(49*(L['x'].size()[0] / 49)) == L['x'].size()[0] - 1");
    decide_conditions(m.p);
    CHECK(m.p.syms[SymId{0}].max < (int64_t{1} << 21));
  }
  {
    Model m;
    m.read("math.trunc(0.1234567*L['x'].size()[0]) == 0.5");
    CHECK_THAT(refusal([&] { decide_conditions(m.p); }), Contains("met by no size of s0") && Contains("x.size()[0]"));
  }
  {
    Model m;
    m.read("math.sin(L['x'].size()[0]) < 0.5");
    CHECK_THAT(refusal([&] { decide_conditions(m.p); }), Contains("cannot be made a guard") && Contains("shapes.json"));
  }
  {  // two symbols: true everywhere, or an error
    Model m;
    m.p.syms.edit(SymId{0}).max = 30;
    m.p.syms.edit(SymId{1}).max = 30;
    m.read("torch._sym_sqrt(L['x'].size()[0]*L['x'].size()[1]) <= 30.0");
    m.read("torch._sym_sqrt(L['x'].size()[0]*L['x'].size()[1]) <= 29.9");
    CHECK_THAT(refusal([&] { decide_conditions(m.p); }), Contains("29.9"));
  }
}

TEST_CASE("sizes are found where guards hold") {
  Model m;
  m.read("(L['x'].size()[0] % 3) == 1 and L['x'].size()[1] == 2*L['x'].size()[0] + 5");
  const SymId a{0}, b{1};
  const auto near = sizes_near(m.p.syms, m.p.guards, {{a, 100}, {b, 3}});
  REQUIRE(near);
  CHECK(m.hold(near->at(a), near->at(b)));
  const auto fixed = sizes_near(m.p.syms, m.p.guards, {{a, 10}, {b, 25}}, {b});
  REQUIRE(fixed);
  CHECK((fixed->at(a) == 10 && fixed->at(b) == 25));
  CHECK_FALSE(sizes_near(m.p.syms, m.p.guards, {{a, 10}, {b, 26}}, {a, b}));
}

TEST_CASE("what a guard says about one symbol becomes its range") {
  SymTable t;
  const Expr s = Expr::symbol(t.add({.name = "s", .min = 1})), u = Expr::symbol(t.add({.name = "u"}));
  using K = ShapeGuard::Kind;
  CHECK(narrow_ranges(t, {{K::le, 0, s * 2 - 7, ""}, {K::le, s * 3, 100, ""}, {K::divisible, s, 4, ""}, {K::le, s, u, ""}}));
  CHECK((t[SymId{0}].min == 4 && t[SymId{0}].max == 33 && t[SymId{0}].multiple_of == 4));
  CHECK((t[SymId{1}].min == 0 && t[SymId{1}].max == kInf));
  CHECK_FALSE(narrow_ranges(t, {{K::eq, s, 5, ""}}));
}

TEST_CASE("a size that a guard keeps within one block becomes that block when it is rounded up") {
  SymTable t;
  const Expr s = Expr::symbol(t.add({.name = "s", .min = 1})), up = s + mod(-s, 16);
  CHECK(narrow_ranges(t, {{ShapeGuard::Kind::eq, floordiv(up, 16), 1, ""}}));
  CHECK(t[SymId{0}].max == 16);
  CHECK(t.simplify(up).is(16));
}

TEST_CASE("a remainder that a guard keeps at 0 makes the symbol a multiple, also of the negated or scaled symbol") {
  SymTable t;
  const Expr s = Expr::symbol(t.add({.name = "s", .min = 1})), u = Expr::symbol(t.add({.name = "u", .min = 1}));
  using K = ShapeGuard::Kind;
  CHECK(narrow_ranges(
      t, {{K::le, mod(-s, 4), 0, ""}, {K::eq, mod(u * 4 + 6, 6), 0, ""}, {K::le, mod(u, 7) * -1, 0, ""}, {K::divisible, u + 1, 5, ""}}));
  CHECK((t[SymId{0}].multiple_of == 4 && t[SymId{1}].multiple_of == 3));
  CHECK(t.simplify(s + mod(-s, 4)) == s);
  const Expr v = Expr::symbol(t.add({.name = "v", .min = 1})), up = v + mod(-v, 8);
  CHECK(narrow_ranges(t, {{K::eq, v, floordiv(up, floordiv(up, 8)) * floordiv(up, 8), ""}}));
  CHECK(t[SymId{2}].multiple_of == 8);
}

TEST_CASE("a guard that no size within the ranges meets is found") {
  SymTable t;
  const Expr s = Expr::symbol(t.add({.name = "s", .min = 2, .max = 40})), u = Expr::symbol(t.add({.name = "u", .min = 1, .max = 30}));
  const Expr any = Expr::symbol(t.add({.name = "any"}));
  using K = ShapeGuard::Kind;
  const auto none = [&](std::vector<ShapeGuard> guards) {
    const ShapeGuard* g = met_by_none(t, guards);
    return g ? guard_text(*g, t) : "";
  };
  CHECK(none({{K::eq, s * u, 37, ""}}).empty());
  CHECK(none({{K::eq, s * u, 41, ""}}) == "s*u == 41");
  CHECK(none({{K::eq, mod(s, 7), 5, ""}, {K::eq, mod(s, 14), 12, ""}}).empty());
  CHECK(none({{K::eq, mod(s, 7), 5, ""}, {K::eq, mod(s, 14), 13, ""}}) == "mod(s, 7) == 5");
  CHECK(none({{K::eq, mod(any, 7), 5, ""}, {K::eq, any * 2, u * 2 + 1, ""}}).empty());  // too many to try
}
