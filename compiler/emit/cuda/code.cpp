#include "emit/cuda/code.h"

#include <algorithm>
#include <cmath>

#include "graph/scalar.h"
#include "sym/c_text.h"

namespace aotc::emit::cuda {

using loop::Inst;
using loop::InstId;
using loop::InstKind;
using loop::ParamId;

std::string function_name(const std::string& kernel) { return kernel + "_kernel"; }

std::string_view c_type(DType t) {
  switch (t) {
    case DType::boolean: return "bool";
    case DType::u8: return "u8";
    case DType::i8: return "i8";
    case DType::i16: return "short";
    case DType::i32: return "int";
    case DType::i64: return "i64";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::f8e4m3fn: return "e4m3fn";
    case DType::f8e5m2: return "e5m2";
    case DType::f32: return "float";
    case DType::f64: return "double";
    default: break;
  }
  throw Diagnostic(ExitCode::unsupported, {}, fmt::format("{} values are not supported in CUDA kernels", dtype_name(t)));
}

std::string float_text(double v, DType t) {
  const bool f32 = t != DType::f64;
  if (std::isnan(v)) return f32 ? "__int_as_float(0x7fc00000)" : "__longlong_as_double(0x7ff8000000000000ll)";
  if (std::isinf(v))
    return fmt::format("{}{}", v < 0 ? "-" : "", f32 ? "__int_as_float(0x7f800000)" : "__longlong_as_double(0x7ff0000000000000ll)");
  if (f32) return fmt::format("{:a}f", static_cast<float>(v));
  return fmt::format("{:a}", v);
}

namespace {

std::string int_text(int64_t v) { return v == INT64_MIN ? "(-9223372036854775807ll - 1)" : fmt::format("{}ll", v); }

std::string constant_text(const Inst& i) {
  if (is_bool(i.dtype)) return i.imm_i != 0 ? "true" : "false";
  if (is_float(i.dtype)) {
    const std::string v = float_text(i.imm_f, compute_type(i.dtype));
    return is_half(i.dtype) || is_float8(i.dtype) ? fmt::format("{}({})", c_type(i.dtype), v) : v;
  }
  return fmt::format("{}({})", c_type(i.dtype), int_text(i.imm_i));
}

}  // namespace

std::string c_expr(const Expr& e, const SymTable& syms, const std::function<std::string(SymId)>& name_of) {
  return c_text(e, syms, {"floordiv", "floormod", "imin", "imax", "LL", "narrow_div", "narrow_mod"}, name_of);
}

Names::Names(const loop::LoopKernel& kernel, const std::vector<SymId>& size_symbols)
    : kernel_(kernel), rounded_products_(loop::products_to_round(kernel)) {
  for (SymId s : size_symbols) symbols_[s] = fmt::format("s{}", idx(s));
  for (const auto* vars : {&kernel.outer, &kernel.inner})
    for (const loop::LoopVar& v : *vars) symbols_[v.sym] = fmt::format("at{}", idx(v.sym));
  for (uint32_t i = 0; i < kernel.insts.size(); ++i) {
    const Inst& inst = kernel.insts[static_cast<InstId>(i)];
    // Places are computed in 64 bits.
    if (inst.bind != kNone<SymId>) symbols_[inst.bind] = inst.dtype == DType::i64 ? fmt::format("v{}", i) : fmt::format("i64(v{})", i);
  }
}

std::string Names::symbol(SymId s) const {
  auto it = symbols_.find(s);
  AOTC_CHECK(it != symbols_.end(), "symbol {} of kernel {} has no C name", kernel_.syms[s].name, kernel_.name);
  return it->second;
}
std::string Names::expr(const Expr& e) const {
  return c_expr(kernel_.syms.simplify(e), kernel_.syms, [this](SymId s) { return symbol(s); });
}
std::string Names::param(ParamId p) const { return fmt::format("p{}", idx(p)); }
std::string Names::inst(InstId i) const { return fmt::format("v{}", idx(i)); }

bool is_arg(ReduceKind kind) { return kind == ReduceKind::argmax || kind == ReduceKind::argmin; }

DType combined_type(const loop::LoopKernel& k, const Inst& i) {
  if (is_arg(i.reduce_kind)) return k.insts[i.args.at(0)].dtype;
  const bool rounds = i.reduce_kind == ReduceKind::sum || i.reduce_kind == ReduceKind::prod || i.reduce_kind == ReduceKind::logsumexp;
  if (i.kind != InstKind::scan || !is_float(i.dtype) || !rounds) return i.dtype;
  return is_half(i.dtype) ? DType::f32 : DType::f64;
}

std::string reducer(const loop::LoopKernel& k, const Inst& i) {
  struct Row {
    ReduceKind kind;
    const char* pattern;
  };
  static constexpr Row kRows[] = {
      {ReduceKind::sum, "ReduceSum<{}>"},
      {ReduceKind::prod, "ReduceProd<{}>"},
      {ReduceKind::max, "ReduceMax<{}>"},
      {ReduceKind::min, "ReduceMin<{}>"},
      {ReduceKind::argmax, "ReduceArg<{}, true>"},
      {ReduceKind::argmin, "ReduceArg<{}, false>"},
      {ReduceKind::logsumexp, "ReduceLogSumExp<{}>"},
  };
  const DType value = combined_type(k, i);
  const std::string_view last = i.kind == InstKind::scan && is_arg(i.reduce_kind) ? "Last" : "";
  for (const Row& r : kRows)
    if (r.kind == i.reduce_kind) return std::string(last) + fmt::format(fmt::runtime(r.pattern), c_type(value));
  throw Diagnostic(ExitCode::unsupported, {}, fmt::format("a {} reduction is not supported in CUDA kernels", reduce_name(i.reduce_kind)));
}

/// A float32 sum, difference or product of float16 numbers that is rounded to float16, in the type's own instruction; empty: it is
/// something else. What it takes is named in `insts`.
static std::string in_own_type(const std::vector<InstId>& insts, InstId id, const Names& names) {
  const loop::LoopKernel& k = names.kernel();
  const Inst& cast = k.insts[id];
  if (cast.op != Op::cast || cast.dtype != DType::f16) return {};
  const Inst& i = k.insts[cast.args.at(0)];
  if (i.kind != InstKind::op || i.dtype != DType::f32 || (i.op != Op::add && i.op != Op::sub && i.op != Op::mul)) return {};
  const auto named = [&](InstId a) { return std::find(insts.begin(), insts.end(), a) != insts.end(); };
  std::string args;
  for (InstId a : i.args) {
    const Inst& arg = k.insts[a];
    args += args.empty() ? "" : ", ";
    if (arg.kind == InstKind::constant && round_to(DType::f16, arg.imm_f) == arg.imm_f)
      args += fmt::format("f16({})", float_text(arg.imm_f, DType::f32));
    else if (arg.kind == InstKind::op && arg.op == Op::cast && k.insts[arg.args[0]].dtype == DType::f16 && named(a) && named(arg.args[0]))
      args += names.inst(arg.args[0]);
    else
      return {};
  }
  return fmt::format("op_{}({})", op_name(i.op), args);
}

std::string code_of(const std::vector<InstId>& insts, const Names& names, const AccessRules& rules, int indent) {
  const loop::LoopKernel& k = names.kernel();
  const std::string pad(static_cast<size_t>(indent), ' ');
  std::string out;
  auto place = [&](InstId id) {
    const Inst& i = k.insts[id];
    const std::string wide = rules.wide ? rules.wide(id) : std::string();
    if (!wide.empty()) return wide;
    const std::string special = rules.place(i.param, i.index);
    return special.empty() ? fmt::format("{}[{}]", names.param(i.param), names.expr(i.index)) : special;
  };
  for (InstId id : insts) {
    const Inst& i = k.insts[id];
    const std::string v = names.inst(id);
    const std::string declare = fmt::format("{}const {} {} = ", pad, c_type(i.dtype), v);
    switch (i.kind) {
      case InstKind::op: {
        std::string args;
        for (InstId a : i.args) args += (args.empty() ? "" : ", ") + names.inst(a);
        std::string other = rules.op ? rules.op(id) : std::string();
        if (other.empty()) other = in_own_type(insts, id, names);
        if (!other.empty())
          out += declare + other + ";\n";
        else if (i.op == Op::cast || i.op == Op::bitcast)
          out += fmt::format("{}op_{}<{}>({});\n", declare, op_name(i.op), c_type(i.dtype), args);
        else
          out += fmt::format("{}{}({});\n", declare, names.is_rounded_product(id) ? "rounded_product" : fmt::format("op_{}", op_name(i.op)),
                             args);
        break;
      }
      case InstKind::constant: out += declare + constant_text(i) + ";\n"; break;
      case InstKind::index: out += fmt::format("{}const i64 {} = {};\n", pad, v, names.expr(i.index)); break;
      case InstKind::load:
        if (i.mask == kNone<InstId>)
          out += declare + place(id) + ";\n";
        else
          out += fmt::format("{}{} ? {} : {};\n", declare, names.inst(i.mask), place(id), constant_text(i));
        break;
      case InstKind::store: {
        std::string condition = rules.store_guard;
        if (i.mask != kNone<InstId>) condition += (condition.empty() ? "" : " && ") + names.inst(i.mask);
        out += fmt::format("{}{}{} = {};\n", pad, condition.empty() ? "" : "if (" + condition + ") ", place(id), names.inst(i.args.at(0)));
        break;
      }
      case InstKind::check: out += fmt::format("{}if (!{}) *a.fault = 1;\n", pad, names.inst(i.args.at(0))); break;
      case InstKind::reduce:
      case InstKind::scan: out += pad + rules.reduce(id) + "\n"; break;
    }
  }
  return out;
}

}  // namespace aotc::emit::cuda
