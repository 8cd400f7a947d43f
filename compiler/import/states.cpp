#include "import/states.h"

#include <algorithm>
#include <set>

#include "import/shared_storage.h"

namespace aotc::import {
namespace {

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] != '*') return !name.empty() && name[0] == pattern[0] && matches(pattern.substr(1), name.substr(1));
  for (size_t i = 0; i <= name.size(); ++i)
    if (matches(pattern.substr(1), name.substr(i))) return true;
  return false;
}

bool can_be_state(const ProgramInput& in) { return in.kind == InputKind::parameter || in.kind == InputKind::buffer; }

}  // namespace

void choose_states(Program& p, const StateChoice& choice) {
  for (const std::string& name : choice.names) {
    if (std::any_of(p.inputs.begin(), p.inputs.end(), [&](const ProgramInput& in) { return can_be_state(in) && matches(name, in.target); }))
      continue;
    std::string known;
    for (const ProgramInput& in : p.inputs)
      if (can_be_state(in) && known.size() < 400) known += (known.empty() ? "" : ", ") + in.target;
    throw Diagnostic(ExitCode::usage, Loc{.file = p.file}, fmt::format("no parameter or buffer is named '{}'", name))
        .note(known.empty() ? "the model has none" : "it has " + known + (known.size() < 400 ? "" : ", ..."));
  }
  std::set<std::pair<const std::byte*, size_t>> memory;
  for (ProgramInput& in : p.inputs) {
    if (!can_be_state(in)) continue;
    in.is_state = (choice.all_parameters && in.kind == InputKind::parameter) ||
                  std::find(choice.shared.begin(), choice.shared.end(), in.target) != choice.shared.end() ||
                  std::any_of(choice.names.begin(), choice.names.end(), [&](const std::string& n) { return matches(n, in.target); });
    if (const ConstData& d = p.data.at(in.target); in.is_state && d.bytes > 0) memory.emplace(d.data, d.bytes);
  }
  for (ProgramInput& in : p.inputs) {
    if (!can_be_state(in)) continue;
    const ConstData& d = p.data.at(in.target);
    if (memory.count({d.data, d.bytes})) in.is_state = true;
  }
  if (!choice.empty()) share_states(p);
}

}  // namespace aotc::import
