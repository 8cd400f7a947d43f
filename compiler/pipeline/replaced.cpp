#include "pipeline/replaced.h"

#include <algorithm>
#include <vector>

#include "base/diagnostic.h"
#include "decompose/decompose.h"
#include "graph/text.h"

namespace aotc::pipeline {
namespace {

bool overlap(const ConstData& a, const ConstData& b) { return a.data < b.data + b.bytes && b.data < a.data + a.bytes; }

/// The names of the tensor that has this one.
std::vector<std::string> names_of(const import::Program& p, const std::string& name) {
  const ConstData& own = p.data.at(name);
  std::vector<std::string> names = {name};
  for (const auto& [other, c] : p.data) {
    if (other == name || !overlap(own, c)) continue;
    if (c.data != own.data || c.type != own.type)
      throw Diagnostic(Loc{.file = p.file}, fmt::format("'{}' shares its memory with '{}', which has another shape", name, other))
          .note("export the model with the values that it should have");
    names.push_back(other);
  }
  return names;
}

void replace(import::Program& p, const import::ProgramInput& in, const ConstData& to) {
  const TensorType type = p.data.at(in.target).type;
  if (!decompose::exchangeable(in, type))
    throw Diagnostic(Loc{.file = p.file}, fmt::format("'{}' belongs to the program and keeps its values", in.target))
        .note("floating-point parameters, and floating-point buffers that are saved with the model and have a dimension, may have others");
  if (to.type != type)
    throw Diagnostic(Loc{.file = to.name}, fmt::format("is {}, and '{}' is {}", print(to.type, p.syms), in.target, print(type, p.syms)));
  for (const std::string& name : names_of(p, in.target)) {
    ConstData& c = p.data.at(name);
    c.keepalive = to.keepalive, c.data = to.data;
    for (import::SharedStorage& s : p.storages) std::erase(s.targets, name);
  }
}

}  // namespace

void replace_data(import::Program& program, const std::map<std::string, ConstData>& replaced) {
  for (const import::ProgramInput& in : program.inputs)
    if (const auto it = replaced.find(in.target); it != replaced.end() && program.data.count(in.target)) replace(program, in, it->second);
}

}  // namespace aotc::pipeline
