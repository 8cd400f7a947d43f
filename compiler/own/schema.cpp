// Descriptions beside the schemas of their operators.
#include <algorithm>

#include "import/torch_functions.h"
#include "own/description.h"

namespace aotc::own {
namespace {

using import::OpParam;
using import::OpSchema;
using import::ParamType;

Diagnostic unsupported(const Kernels& all, const Kernel& k, std::string why) {
  return Diagnostic(ExitCode::unsupported, all.at(k.path + ".schema"), fmt::format("{}: {}", k.op, why));
}

/// Arguments and results that kernels are not given.
void check_kinds(const Kernels& all, const Kernel& k, const OpSchema& s) {
  for (const OpParam& p : s.params) {
    if (p.written)
      throw unsupported(all, k, fmt::format("it writes its argument '{}'", p.name))
          .note(
              "a kernel of your own gives new tensors: return what is written, as in (Tensor x, ..) -> Tensor, and copy_ it in the model");
    if (!p.alias.empty())
      throw unsupported(all, k, fmt::format("its result may share the memory of '{}'", p.name)).note("give a new tensor");
    if (p.type == ParamType::tensor_list || p.type == ParamType::opt_tensor_list)
      throw unsupported(all, k, fmt::format("its argument '{}' is a list of tensors", p.name))
          .note("give each as an argument, or stack them");
    if (p.type == ParamType::other || p.type == ParamType::text_list || p.type == ParamType::layout || p.type == ParamType::device ||
        p.type == ParamType::memory_format)
      throw unsupported(all, k, fmt::format("its argument '{}' is of a type that kernels are not given", p.name))
          .note("expected Tensor, Tensor?, int, float, bool, str, ScalarType, Scalar, or lists of int, float, bool");
  }
  if (s.results.empty()) throw unsupported(all, k, "it has no result").note("a kernel of your own gives new tensors");
  for (const import::OpResult& r : s.results)
    if (r.type != ParamType::tensor) throw unsupported(all, k, "a result is no Tensor").note("return tensors, each a result of its own");
}

std::string tensors_of(const OpSchema& s) {
  std::string names;
  for (const OpParam& p : s.params)
    if (p.type == ParamType::tensor) names += (names.empty() ? "" : ", ") + p.name;
  return names.empty() ? "none" : names;
}

void check_tensor(const Kernels& all, const OpSchema& s, const std::string& name, const std::string& path) {
  const OpParam* p = s.find(name);
  if (!p || p->type != ParamType::tensor)
    throw Diagnostic(all.at(path), fmt::format("\"{}\" is no tensor argument of the operator", name.substr(0, 80)))
        .note("its tensor arguments: " + tensors_of(s));
}

void check_names(const Kernels& all, const Kernel& k, const OpSchema& s) {
  for (const auto& [name, rule] : k.inputs) check_tensor(all, s, name, k.path + ".inputs." + name);
  for (const Pointwise& e : k.pointwise)
    for (const Part& part : e.parts) {
      const OpParam* p = part.kind == Part::Kind::name ? s.find(part.name) : nullptr;
      if (part.kind != Part::Kind::name || (p && p->type != ParamType::text)) continue;
      throw Diagnostic(all.at(e.path), fmt::format("\"{}\" is no argument of the operator that an expression can hold", part.name))
          .note("the schema is " + k.schema);
    }
  for (const ResultRule& r : k.results) {
    if (!r.dtype_of.empty()) check_tensor(all, s, r.dtype_of, r.path + ".dtype_of");
    if (!r.shape_of.empty()) check_tensor(all, s, r.shape_of, r.path + ".shape_of");
  }
  if (!k.pointwise.empty()) return;
  // Where types are not stated a kernel would read others as its own.
  for (const OpParam& p : s.params)
    if (p.type == ParamType::tensor && !k.inputs.count(p.name))
      throw Diagnostic(all.at(k.path + ".inputs"), fmt::format("says nothing of the tensor argument '{}'", p.name))
          .note(fmt::format("which element types does the kernel take? \"inputs\": {{\"{}\": {{\"dtype\": \"float32\"}}}}", p.name));
}

}  // namespace

void check_schema(const Kernels& all, const Kernel& k, const OpSchema& s) {
  check_kinds(all, k, s);
  const size_t told = k.pointwise.empty() ? k.results.size() : k.pointwise.size();
  if (told != s.results.size())
    throw Diagnostic(all.at(k.path + (k.pointwise.empty() ? ".results" : ".pointwise")),
                     fmt::format("{} entries for the {} results of {}", told, s.results.size(), k.op));
  check_names(all, k, s);
}

void define_operators(const Kernels& all) {
  const import::TorchFunctions& torch = import::torch_functions();
  for (const Kernel& k : all.rows) {
    if (const Fit known = torch.define_operator(k.schema); !known)
      throw Diagnostic(all.at(k.path + ".schema"), known.why)
          .note("Python tells the schema: print(torch.ops.mylib.lookup.default._schema)");
    const std::optional<OpSchema> schema = torch.find_schema(k.target);
    AOTC_CHECK(schema, "{} was defined and is not there", k.target);
    check_schema(all, k, *schema);
  }
}

}  // namespace aotc::own
