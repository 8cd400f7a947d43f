// A product whose result is scaled per channel (LayerScale, batch norm, a gate that is a weight) is computed once, whatever the scale's
// form and however many follow: the scale goes into the weight, and nothing of the unscaled product stays for other passes to see.
#include <catch2/catch.hpp>

#include "graph/builder.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "passes/passes.h"

using namespace aotc;

namespace {

struct Net {
  Graph g;
  Builder b{g};
  int number = 0;
  ValueId weight(Exprs dims) {
    ConstData c;
    c.name = fmt::format("w{}", number++);
    c.type = {DType::f32, std::move(dims)};
    c.bytes = static_cast<size_t>(*c.type.bytes().as_const());
    auto data = std::make_shared<std::vector<float>>(c.bytes / sizeof(float));
    for (size_t i = 0; i < data->size(); ++i) (*data)[i] = 0.25f + static_cast<float>((i * 7 + static_cast<size_t>(number)) % 13);
    c.data = reinterpret_cast<const std::byte*>(data->data());
    c.keepalive = data;
    return b.constant(std::move(c));
  }
  /// A vector along dim d of v's dims.
  ValueId along(ValueId v, int d) {
    const Exprs dims = g.type(v).dims;
    Exprs one(dims.size(), Expr(1));
    const ValueId w = weight({dims[static_cast<size_t>(d)]});
    one[static_cast<size_t>(d)] = dims[static_cast<size_t>(d)];
    return b.expand(b.reshape(w, one), dims);
  }
  size_t products() const {
    size_t n = 0;
    for (const NodeId id : g.order) n += op_class(g.nodes[id].op) == OpClass::contraction;
    return n;
  }
};

/// A product of x with a weight; `channel`: its dim of channels.
struct Form {
  const char* name;
  Exprs input;
  ValueId (*make)(Net&, ValueId);
  int channel;
};

template <int rank>
ValueId conv(Net& n, ValueId x, int64_t groups, bool transposed) {
  const Ints ones(rank, 1), zeros(rank, 0);
  Exprs w = {transposed ? Expr(8) : Expr(12), transposed ? Expr(12 / groups) : Expr(8 / groups)};
  for (int i = 0; i < rank; ++i) w.push_back(3);
  std::map<Attr, AttrValue> attrs = {
      {Attr::stride, ones}, {Attr::padding, ones}, {Attr::padding_hi, ones}, {Attr::dilation, ones}, {Attr::groups, groups}};
  if (transposed) attrs[Attr::output_padding] = zeros;
  return n.b.make1(transposed ? Op::conv_transpose : Op::conv, {x, n.weight(w)}, attrs);
}

const Form kForms[] = {
    {"matmul",
     {6, 8},
     [](Net& n, ValueId x) {
       return n.b.matmul(x, n.weight({8, 12}), DType::f32);
     },
     1},
    {"linear",
     {6, 8},
     [](Net& n, ValueId x) {
       return n.b.matmul(x, n.b.transpose(n.weight({12, 8}), 0, 1), DType::f32);
     },
     1},
    {"batched",
     {3, 6, 8},
     [](Net& n, ValueId x) {
       return n.b.matmul(x, n.weight({3, 8, 12}), DType::f32);
     },
     2},
    {"conv1d", {2, 8, 9}, [](Net& n, ValueId x) { return conv<1>(n, x, 1, false); }, 1},
    {"conv2d", {2, 8, 9, 7}, [](Net& n, ValueId x) { return conv<2>(n, x, 1, false); }, 1},
    {"grouped conv2d", {2, 8, 9, 7}, [](Net& n, ValueId x) { return conv<2>(n, x, 4, false); }, 1},
    {"conv3d", {2, 8, 4, 3, 5}, [](Net& n, ValueId x) { return conv<3>(n, x, 1, false); }, 1},
    {"transposed conv2d", {2, 8, 5, 4}, [](Net& n, ValueId x) { return conv<2>(n, x, 1, true); }, 1},
    {"transposed grouped", {2, 8, 5, 4}, [](Net& n, ValueId x) { return conv<2>(n, x, 2, true); }, 1},
};

struct Scale {
  const char* name;
  ValueId (*apply)(Net&, ValueId, int channel);
};
const Scale kScales[] = {
    {"y * v", [](Net& n, ValueId y, int d) { return n.b.binary(Op::mul, y, n.along(y, d)); }},
    {"v * y", [](Net& n, ValueId y, int d) { return n.b.binary(Op::mul, n.along(y, d), y); }},
    {"y / v", [](Net& n, ValueId y, int d) { return n.b.binary(Op::div, y, n.along(y, d)); }},
    {"(y + b) * v", [](Net& n, ValueId y, int d) { return n.b.binary(Op::mul, n.b.binary(Op::add, y, n.along(y, d)), n.along(y, d)); }},
    {"(y - m) * s + b",
     [](Net& n, ValueId y, int d) {
       const ValueId c = n.b.binary(Op::sub, y, n.along(y, d));
       return n.b.binary(Op::add, n.b.binary(Op::mul, c, n.along(y, d)), n.along(y, d));
     }},
    {"(b - y) * v * w",
     [](Net& n, ValueId y, int d) {
       const ValueId c = n.b.binary(Op::sub, n.along(y, d), y);
       return n.b.binary(Op::mul, n.b.binary(Op::mul, c, n.along(y, d)), n.along(y, d));
     }},
};

size_t after_passes(Net& n) {
  passes::PassContext ctx;
  ctx.after = [](std::string_view name, const Graph& g, bool, double) { verify_live(g, name); };
  passes::run_passes(n.g, ctx);
  return n.products();
}

}  // namespace

TEST_CASE("a scaled product is one product") {
  for (const Form& f : kForms)
    for (const Scale& s : kScales) {
      INFO(f.name << ", " << s.name);
      Net n;
      const ValueId x = n.g.add_input("x", {DType::f32, f.input});
      n.g.outputs.push_back({"y", s.apply(n, f.make(n, x), f.channel), "", -1});
      CHECK(after_passes(n) == 1);
    }
}

TEST_CASE("scaled products after one another, and beside one another, are as many as there are layers") {
  for (const Scale& s : kScales)
    for (const int64_t depth : {2, 4}) {
      INFO(s.name << ", " << depth << " layers");
      Net chain;
      ValueId x = chain.g.add_input("x", {DType::f32, {6, 8}});
      for (int64_t i = 0; i < depth; ++i) {
        const ValueId w = chain.b.transpose(chain.weight({8, 8}), 0, 1);
        const ValueId scaled = s.apply(chain, chain.b.matmul(x, w, DType::f32), 1);
        x = chain.b.binary(Op::add, x, chain.b.unary(Op::tanh, scaled));  // a residual block
      }
      chain.g.outputs.push_back({"y", x, "", -1});
      CHECK(after_passes(chain) == static_cast<size_t>(depth));

      // Products of one input may become one, never more than there were, and no wider than their weights together.
      Net beside;
      const ValueId in = beside.g.add_input("x", {DType::f32, {6, 8}});
      for (int64_t i = 0; i < depth; ++i) {
        const ValueId w = beside.b.transpose(beside.weight({12, 8}), 0, 1);
        beside.g.outputs.push_back({fmt::format("y{}", i), s.apply(beside, beside.b.matmul(in, w, DType::f32), 1), "", -1});
      }
      CHECK(after_passes(beside) == 1);
      for (const NodeId id : beside.g.order)
        if (beside.g.nodes[id].op == Op::matmul) CHECK(beside.g.type(beside.g.nodes[id].outputs[0]).dims[1].is(12 * depth));
    }
}

TEST_CASE("the verifier tells a pass that leaves a node behind") {
  Graph g = parse_graph("graph @g\ninput %x : float32[4]\n%0 = exp(%x) : float32[4]\n%1 = tanh(%x) : float32[4] @left\noutput %0\n", "g");
  CHECK_NOTHROW(verify(g, "test"));
  CHECK_THROWS_WITH(verify_live(g, "test"), Catch::Matchers::Contains("@left") && Catch::Matchers::Contains("test"));
  passes::PassContext ctx;
  passes::run_pass(*passes::find_pass("simplify"), g, ctx);
  CHECK(g.order.size() == 1);
}
