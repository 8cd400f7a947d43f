#include "pipeline/support.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "aotc/detail/library_abi.h"
#include "aotc/dtype.h"
#include "base/words.h"
#include "decompose/table.h"
#include "emit/cuda/code.h"
#include "forms/cpu/forms.h"
#include "forms/list.h"
#include "graph/op_table.h"
#include "kernels/cpu/catalog.h"

namespace aotc::pipeline {
namespace {

using nlohmann::json;

/// A kind of kernel: how its library entries begin, or "" where it is generated code.
struct Kind {
  const char* title;
  const char* entry;
};
constexpr Kind kKinds[] = {
    {"fused loops", ""},
    {"matrix products", "gemm"},
    {"convolutions", "conv"},
    {"attention", "attention"},
    {"recurrences", "recurrence"},
    {"sort", "sort"},
    {"topk", "topk"},
    {"scatter", "scatter"},
    {"index_put", "index_put"},
    {"assertions", "check"},
    {"rows of a table added to rows", "add_rows"},
    {"Fourier transforms", "fourier"},
    {"Cholesky factors", "cholesky"},
    {"LU factors", "lu"},
    {"QR factors", "qr"},
    {"singular values and vectors", "svd"},
    {"triangular systems", "solve_triangular"},
    {"what excludes what follows", "exclude"},
};
/// The first operator of whole tensors that has no row; those of the user have none.
constexpr Op untitled() {
  for (const OpInfo& o : kOps) {
    bool titled = o.cls != OpClass::opaque || o.op == Op::custom;
    for (const Kind& k : kKinds) titled = titled || k.entry == o.name;
    if (!titled) return o.op;
  }
  return kNoOp;
}
static_assert(Fits<untitled()>::value);

#define AOTC_X(name, value, text, size) static_cast<DType>(value),
constexpr DType kDtypes[] = {AOTC_DTYPE_LIST(AOTC_X)};
#undef AOTC_X

/// Whether some GPU form takes a kernel of this kind and element type; nothing else of it matters.
bool has_cuda_form(const loop::Kernel& kernel) {
  const SymTable syms;
  const Machine machine = machine_of(std::string("sm_90a"));
  for (const forms::Form* f : forms::forms_of(Arch::cuda))
    if (f->fits({kernel, syms, machine, {}})) return true;
  return false;
}

bool on_cuda(const Kind& kind, DType t) {
  const std::string_view entry = kind.entry;
  if (is_float8(t) && !entry.empty() && entry != "gemm") return false;  // the graph's type rules
  try {
    emit::cuda::c_type(t);
  } catch (const Diagnostic&) { return false; }
  if (entry.empty()) return true;
  if (entry == "gemm") {
    loop::MatmulKernel k;
    k.in = t;
    return has_cuda_form(k);
  }
  if (entry == "conv") {
    loop::ConvKernel k;
    k.in = t;
    return has_cuda_form(k);
  }
  if (entry == "attention") {
    loop::AttentionKernel k;
    k.dtype = t;
    return has_cuda_form(k);
  }
  loop::LibraryKernel library;
  library.algorithm = entry;
  for (int i = 0; i < 6; ++i) library.params.push({"x", loop::ParamRole::input, t, {}});  // as many as any kind has
  library.sizes.assign(AOTC_ATTN_SIZES, Expr(16));
  library.attrs = {{Attr::kind, std::string("pairs")}, {Attr::cell, std::string("lstm")}};  // of transforms, of recurrences
  return has_cuda_form(library);
}

bool on_cpu(const Kind& kind, DType t) {
  if (!*kind.entry) return t != DType::c64 && t != DType::c128;
  if (is_float8(t)) return kind.entry == std::string_view("gemm");  // as bfloat16 (passes/widen_float8.cpp)
  return kernels::find_kernel(fmt::format("aotc_{}_{}", kind.entry, forms::cpu::symbol_dtype(t)));
}

std::string joined(const json& list, const char* empty) {
  std::string s;
  for (const json& x : list) s += (s.empty() ? "" : ", ") + x.get<std::string>();
  return s.empty() ? empty : s;
}

}  // namespace

json support() {
  json all = {{"kernels", json::array()}, {"families", json::array()}};
  for (const Kind& kind : kKinds) {
    json row = {{"kind", kind.title}, {"cpu", json::array()}, {"cuda", json::array()}};
    for (const DType t : kDtypes) {
      if (on_cpu(kind, t)) row["cpu"].push_back(dtype_name(t));
      if (on_cuda(kind, t)) row["cuda"].push_back(dtype_name(t));
    }
    all["kernels"].push_back(std::move(row));
  }
  for (const decompose::Family& f : decompose::families()) {
    std::set<std::string_view> names, complex;
    for (const decompose::RuleRow& row : f.rules)
      each_word(row.overloads, [&](std::string_view overload) {
        names.insert(overload);
        if (decompose::find_complex_rule(overload)) complex.insert(overload);
      });
    all["families"].push_back({{"title", f.title}, {"kernels", f.kernels}, {"operators", names}, {"complex", complex}});
  }
  return all;
}

std::string support_markdown(const json& support) {
  size_t operators = 0;
  for (const json& f : support.at("families")) operators += f.at("operators").size();
  std::string t = fmt::format(
      "# Operators\n\nMade by `aotc ops --markdown` of the rule tables and the kernel library; the test `operators` holds it to them.\n\n"
      "{} overloads of ATen have a rule. Their in-place and `out` forms, and operators that LibTorch takes apart into these, need none of "
      "their own\n"
      "(`compiler/README.md`). Every operator works for the element types below of the kernels that it becomes, where PyTorch has it for "
      "that\n"
      "type; other types are cast as PyTorch promotes them. An overload in italics has complex tensors too, as pairs of reals.\n\n"
      "| kernels | CPU | GPU (`--cuda`) |\n|---|---|---|\n",
      operators);
  for (const json& k : support.at("kernels"))
    t += fmt::format("| {} | {} | {} |\n", k.at("kind").get<std::string>(), joined(k.at("cpu"), "none"), joined(k.at("cuda"), "none"));
  t += "\nA model with an operator whose kernels a target lacks is refused when it is built (exit code 4), with the operators' names.\n\n"
       "| family | beside fused loops | operators |\n|---|---|---|\n";
  for (const json& f : support.at("families")) {
    std::string names;
    for (const json& o : f.at("operators")) {
      std::string name = o.get<std::string>();
      const bool complex = std::find(f.at("complex").begin(), f.at("complex").end(), o) != f.at("complex").end();
      if (name.rfind("aten.", 0) == 0) name = name.substr(5);
      if (const size_t at = name.rfind(".default"); at != std::string::npos && at + 8 == name.size()) name.resize(at);
      names += fmt::format("{}{}`{}`{}", names.empty() ? "" : " ", complex ? "*" : "", name, complex ? "*" : "");
    }
    t += fmt::format("| {} | {} | {} |\n", f.at("title").get<std::string>(), f.at("kernels").get<std::string>(), names);
  }
  return t;
}

}  // namespace aotc::pipeline
