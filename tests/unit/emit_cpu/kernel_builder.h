#pragma once
// Hand-made LoopKernels, and a scalar evaluator of them that knows nothing of the emitter.
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "loop/loop.h"

namespace aotc::test {

using namespace loop;

class KernelBuilder {
 public:
  LoopKernel k;
  explicit KernelBuilder(std::string name) { k.name = std::move(name); }

  Expr shape(const std::string& name, int64_t min = 0, int64_t max = kInf) {
    SymInfo i;
    i.name = name;
    i.min = min;
    i.max = max;
    return Expr::symbol(k.syms.add(i));
  }
  Expr var(std::vector<LoopVar>& in, const std::string& name, const Expr& extent) {
    SymInfo i;
    i.name = name;
    i.kind = SymKind::loop;
    i.extent = extent;
    if (const auto c = extent.as_const()) i.max = *c - 1;
    const SymId s = k.syms.add(i);
    in.push_back({s, extent});
    return Expr::symbol(s);
  }
  Expr outer(const std::string& name, const Expr& extent) { return var(k.outer, name, extent); }
  Expr inner(const std::string& name, const Expr& extent) { return var(k.inner, name, extent); }
  ParamId param(const std::string& name, ParamRole role, DType t, Exprs dims) {
    Param p;
    p.name = name;
    p.role = role;
    p.dtype = t;
    p.dims = std::move(dims);
    return k.params.push(p);
  }
  void block(bool over_inner) { k.blocks.push_back({over_inner, {}}); }
  InstId add(Inst i) {
    const InstId id = k.insts.push(std::move(i));
    k.blocks.back().insts.push_back(id);
    return id;
  }
  InstId load(ParamId p, Expr index, InstId mask = kNone<InstId>, double other = 0) {
    Inst i;
    i.kind = InstKind::load;
    i.dtype = k.params[p].dtype;
    i.param = p;
    i.index = std::move(index);
    i.mask = mask;
    i.imm_f = other;
    i.imm_i = static_cast<int64_t>(other);
    return add(i);
  }
  void store(ParamId p, Expr index, InstId x, InstId mask = kNone<InstId>) {
    Inst i;
    i.kind = InstKind::store;
    i.dtype = k.insts[x].dtype;
    i.param = p;
    i.index = std::move(index);
    i.args = {x};
    i.mask = mask;
    add(i);
  }
  InstId op(Op o, DType t, std::vector<InstId> args) {
    Inst i;
    i.op = o;
    i.dtype = t;
    i.args = std::move(args);
    return add(i);
  }
  InstId constant(DType t, double x) {
    Inst i;
    i.kind = InstKind::constant;
    i.dtype = t;
    i.imm_f = x;
    i.imm_i = is_float(t) ? 0 : static_cast<int64_t>(x);
    return add(i);
  }
  InstId index(Expr e) {
    Inst i;
    i.kind = InstKind::index;
    i.dtype = DType::i64;
    i.index = std::move(e);
    return add(i);
  }
  InstId reduce(ReduceKind kind, DType t, InstId x, bool scan = false) {
    Inst i;
    i.kind = scan ? InstKind::scan : InstKind::reduce;
    i.reduce_kind = kind;
    i.dtype = t;
    i.args = {x};
    return add(i);
  }
  void check(InstId x) {
    Inst i;
    i.kind = InstKind::check;
    i.dtype = DType::boolean;
    i.args = {x};
    add(i);
  }
  Expr bind(InstId x, const std::string& name, const Expr& extent) {
    SymInfo i;
    i.name = name;
    i.kind = SymKind::value;
    i.extent = extent;
    const SymId s = k.syms.add(i);
    k.insts[x].bind = s;
    return Expr::symbol(s);
  }
};

struct Scalar {
  double f = 0;
  int64_t i = 0;
};

/// Buffers of the evaluator: every element as a Scalar.
struct Memory {
  std::vector<std::vector<Scalar>> params;
  bool fault = false;
};

double float_op(Op op, const std::vector<Scalar>& a);
void evaluate(const LoopKernel& k, const std::map<std::string, int64_t>& sizes, Memory& m);

}  // namespace aotc::test
