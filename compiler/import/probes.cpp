#include "import/probes.h"

#include <fmt/format.h>

#include <map>

#include "base/diagnostic.h"
#include "import/aliases.h"

namespace aotc::import {
namespace {

/// As `of`, dense.
TensorMeta dense(TensorMeta of) {
  Expr stride = 1;
  of.storage_offset = 0;
  of.strides.resize(of.sizes.size());
  for (size_t d = of.sizes.size(); d-- > 0;) {
    of.strides[d] = stride;
    stride = stride * of.sizes[d];
  }
  return of;
}

}  // namespace

void add_probes(Program& p, const Probes& probes) {
  if (probes.alone) std::erase_if(p.outputs, [](const ProgramOutput& o) { return !is_mutation(o.kind); });
  std::map<std::string, size_t> defined;  // by which node
  for (size_t i = 0; i < p.nodes.size(); ++i)
    for (const std::string& name : result_names(p.nodes[i])) defined.emplace(name, i);
  std::map<size_t, std::vector<PNode>> behind;  // a node; p.nodes.size(): before all
  std::vector<ProgramOutput> outputs;
  for (const std::string& tensor : probes.tensors) {
    const auto meta = p.tensors.find(tensor);
    if (meta == p.tensors.end()) throw Diagnostic(Loc{.file = p.file}, fmt::format("the program has no tensor '{}'", tensor));
    const auto at = defined.find(tensor);
    PNode copy;
    copy.name = "probe_of_" + tensor;
    copy.target = "aten.clone.default";
    copy.args = {{"self", TensorRef{tensor}, false}, {"memory_format", MemoryFormatArg{"contiguous"}, false}};
    copy.results = {TensorRef{copy.name}};
    if (at != defined.end()) {
      const PNode& node = p.nodes[at->second];
      copy.source = node.source, copy.place = node.place, copy.path = node.path, copy.module_path = node.module_path;
    }
    p.tensors.emplace(copy.name, dense(meta->second));
    outputs.push_back({OutputKind::user, TensorRef{copy.name}, "", fmt::format("['{}']", copy.name)});
    behind[at == defined.end() ? p.nodes.size() : at->second].push_back(std::move(copy));
  }
  std::vector<PNode> nodes = std::move(behind[p.nodes.size()]);
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    nodes.push_back(std::move(p.nodes[i]));
    if (const auto it = behind.find(i); it != behind.end())
      for (PNode& copy : it->second) nodes.push_back(std::move(copy));
  }
  p.nodes = std::move(nodes);
  size_t place = 0;
  while (place < p.outputs.size() && !is_mutation(p.outputs[place].kind)) ++place;
  p.outputs.insert(p.outputs.begin() + static_cast<std::ptrdiff_t>(place), outputs.begin(), outputs.end());
}

std::vector<size_t> results_of(const Program& p) {
  std::vector<size_t> places;
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    const Arg& v = p.outputs[i].value;
    if (!std::holds_alternative<NoneArg>(v) && !std::holds_alternative<std::string>(v)) places.push_back(i);
  }
  return places;
}

std::vector<Operand> operands_of(const PNode& node) {
  std::vector<Operand> out;
  for (const NamedArg& a : node.args) {
    if (const auto* t = std::get_if<TensorRef>(&a.value)) out.push_back({a.name, t->name});
    if (const auto* l = std::get_if<TensorList>(&a.value))
      for (size_t i = 0; i < l->size(); ++i) out.push_back({fmt::format("{}.{}", a.name, i), (*l)[i].name});
    if (const auto* l = std::get_if<OptTensorList>(&a.value))
      for (size_t i = 0; i < l->size(); ++i)
        if ((*l)[i]) out.push_back({fmt::format("{}.{}", a.name, i), (*l)[i]->name});
  }
  return out;
}

}  // namespace aotc::import
