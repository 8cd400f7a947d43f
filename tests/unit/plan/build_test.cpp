#include <catch2/catch.hpp>

#include "plan/build.h"
#include "plan/reuse.h"
#include "plan/text.h"

using namespace aotc;
using namespace aotc::loop;

namespace {

/// A module over x : float32[batch, 1024] made of kernels "out[f] = f(in[f], ..)"; f is the flattened index.
struct Net {
  Graph g;
  Module m;
  SymId batch;
  TensorType type;
  Net() {
    SymInfo s;
    s.name = "batch", s.min = 1, s.max = 64;
    batch = g.syms.add(s);
    m.syms = g.syms;
    type = {DType::f32, {Expr::symbol(batch), 1024}};
  }
  BufferId buffer(BufferKind kind, uint32_t index = 0) {
    Buffer b;
    b.name = fmt::format("t{}", m.buffers.size());
    b.kind = kind, b.type = type, b.index = index;
    if (kind == BufferKind::input) g.add_input(b.name, type);
    if (kind == BufferKind::output) g.outputs.push_back({b.name, ValueId{0}, "", -1});
    return m.buffers.push(b);
  }
  /// shift: the first input is read one element further on, so that nothing may be overwritten.
  KernelId pointwise(size_t inputs, bool shift) {
    LoopKernel k;
    k.name = fmt::format("k{}", m.kernels.size());
    k.syms = m.syms;
    SymInfo v;
    v.name = "f", v.kind = SymKind::loop, v.extent = type.elems();
    const SymId f = k.syms.add(v);
    k.inner = {{f, *v.extent}};
    Block block;
    block.over_inner = true;
    InstId last{};
    for (size_t i = 0; i < inputs; ++i) {
      Inst load;
      load.kind = InstKind::load;
      load.param = k.params.push({"in", ParamRole::input, DType::f32, type.dims});
      load.index = Expr::symbol(f);
      if (shift && i == 0) load.index = mod(Expr::symbol(f) + 1, *v.extent);
      block.insts.push_back(last = k.insts.push(load));
    }
    Inst store;
    store.kind = InstKind::store;
    store.param = k.params.push({"out", ParamRole::output, DType::f32, type.dims});
    store.index = Expr::symbol(f);
    store.args = {last};
    block.insts.push_back(k.insts.push(store));
    k.blocks = {block};
    return m.kernels.push(k);
  }
  BufferId call(std::vector<BufferId> in, BufferId out, bool shift = false) {
    const KernelId k = pointwise(in.size(), shift);
    in.push_back(out);
    m.calls.push_back({k, in, "call"});
    return out;
  }
  BufferId temp() { return buffer(BufferKind::temp); }
};

const plan::PlannedBuffer& planned(const plan::Plan& p, BufferId b) {
  for (const auto& x : p.buffers)
    if (x.buffer == b) return x;
  FAIL("not planned");
  return *p.buffers.begin();
}

}  // namespace

TEST_CASE("a chain of pointwise kernels runs in one buffer, a shifted read does not") {
  for (bool shift : {false, true}) {
    Net n;
    const BufferId x = n.buffer(BufferKind::input), a = n.temp(), b = n.temp(), c = n.temp(), y = n.buffer(BufferKind::output);
    n.call({x}, a);
    n.call({a}, b, shift);
    n.call({b, x}, c, shift);
    n.call({c}, y);
    const plan::PlanSet s = plan::build_plans(n.g, n.m, {});
    const plan::Plan& p = s.plans.at(0);
    INFO(plan::print(s));
    CHECK(p.arena_bytes == Expr::symbol(n.batch) * 4096 * (shift ? 2 : 1));
    CHECK(p.arena_bytes_max == p.live_bytes_max);
    CHECK(planned(p, b).in_place_of.has_value() == !shift);
    CHECK(p.sum_bytes_max == 3 * 64 * 4096);
    CHECK(plan::may_overwrite(n.m.kernels[n.m.calls[1].kernel], ParamId{0}, ParamId{1}) == !shift);
  }
}

TEST_CASE("an input's new content is written when the input is no longer read") {
  for (bool late_read : {false, true}) {
    Net n;
    const BufferId x = n.buffer(BufferKind::input), y = n.buffer(BufferKind::output), z = n.buffer(BufferKind::output, 1);
    n.m.buffers[y].alias_input = 0;
    n.call({x}, y);
    n.call({late_read ? x : y}, z);
    const plan::Plan p = plan::build_plans(n.g, n.m, {}).plans.at(0);
    CHECK(p.steps.size() == (late_read ? 3 : 2));
    CHECK(planned(p, y).place == (late_read ? plan::Place::arena : plan::Place::output));
    if (late_read) CHECK(p.steps[2].kind == plan::StepKind::copy);
  }
}

TEST_CASE("states are updated in place where that is safe") {
  for (bool shift : {false, true}) {
    Net n;
    n.type.dims = {8, 64};
    const BufferId old = n.buffer(BufferKind::state), now = n.buffer(BufferKind::state_out), y = n.buffer(BufferKind::output);
    n.g.states.push({"cache", n.type, kNone<ConstId>, kNone<ValueId>, kNone<ValueId>});
    n.call({old}, now, shift);
    n.call({now}, y);
    const plan::PlanSet s = plan::build_plans(n.g, n.m, {});
    CHECK(planned(s.plans[0], now).place == (shift ? plan::Place::state_next : plan::Place::state));
    CHECK(s.state_initial == std::vector<int>{-1});
  }
}

TEST_CASE("variants narrow the sizes") {
  Net n;
  const BufferId x = n.buffer(BufferKind::input), a = n.temp(), y = n.buffer(BufferKind::output);
  n.call({x}, a);
  n.call({a}, y, true);
  plan::PlanOptions o;
  o.variants = {{{n.batch, 1, 1, 1}}, {{n.batch, 2, 64, 2}}, {}};
  const plan::PlanSet s = plan::build_plans(n.g, n.m, o);
  REQUIRE(s.plans.size() == 3);
  CHECK(s.plans[0].name == "batch=1");
  CHECK(s.plans[1].name == "batch in [2, 64] by 2");
  CHECK(s.plans[2].name == "default");
  CHECK(s.plans[0].arena_bytes.is(4096));
  CHECK(s.plans[0].steps[0].work.is_const());
}
