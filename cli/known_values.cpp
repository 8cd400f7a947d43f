#include "known_values.h"

#include <fmt/format.h>

#include "import/bind_symbols.h"
#include "import/names.h"
#include "import/probes.h"
#include "import/reference.h"
#include "import/sym_text.h"
#include "stored.h"

namespace aotc::cli {

std::map<std::string, ConstData> with_states(std::map<std::string, ConstData> data, const Captured& run) {
  for (const auto& [name, content] : run.states) {
    const auto buffer = data.find(name);
    if (buffer == data.end() || buffer->second.type.dtype != content.dtype || buffer->second.bytes != content.bytes.size())
      throw Diagnostic(Loc{run.folder, "", "", ""}, fmt::format("state '{}' is no buffer of that type and size in the program", name))
          .note("--inputs " + run.folder + "/inputs takes the initial states");
    const auto own = std::make_shared<const std::vector<std::byte>>(content.bytes);
    buffer->second.data = own->data();
    buffer->second.keepalive = own;
  }
  return data;
}

KnownValues::KnownValues(import::Program program, std::vector<HostTensor> inputs)
    : program_(std::move(program)), inputs_(std::move(inputs)) {
  const std::map<SymId, int64_t> bound = import::bind_symbols(program_, inputs_);
  for (const auto& [name, symbol] : import::archive_symbols(program_))
    if (const auto it = bound.find(symbol); it != bound.end()) sizes_.emplace(name, it->second);
  for (const auto& [symbol, size] : bound) sizes_.emplace(program_.syms[symbol].name, size);
  size_t at = 0;
  for (const import::ProgramInput& in : program_.inputs)
    if (in.kind == import::InputKind::user) known_.emplace(in.name, inputs_.at(at++));
}

std::vector<HostTensor> KnownValues::of(const std::vector<std::string>& tensors) {
  import::Probes probes{{}, true};
  for (const std::string& name : tensors)
    if (!known_.count(name)) probes.tensors.push_back(name);
  if (!probes.tensors.empty()) {
    import::Program program = program_;
    import::add_probes(program, probes);
    const std::vector<HostTensor> values = import::make_reference(program, {})->run(inputs_);
    for (size_t i = 0; i < probes.tensors.size(); ++i) known_.emplace(probes.tensors[i], values.at(i));
  }
  std::vector<HostTensor> out;
  for (const std::string& name : tensors) out.push_back(known_.at(name));
  return out;
}

std::optional<int64_t> KnownValues::size(const std::string& expr) const {
  bool all = true;
  const Result<Expr> e = import::parse_sym_text(expr, program_.syms, [&](const std::string& symbol) {
    const auto it = sizes_.find(symbol);
    all = all && it != sizes_.end();
    return it == sizes_.end() ? Expr(1) : Expr(it->second);
  });
  return e && all ? e->as_const() : std::nullopt;
}

std::vector<HostTensor> inputs_from(const std::string& folder, const import::Program& program) {
  std::vector<HostTensor> inputs;
  for (const import::ProgramInput& in : program.inputs)
    if (in.kind == import::InputKind::user)
      inputs.push_back(read_input(stored_file(folder, in.name), {.name = in.name, .dtype = program.tensors.at(in.name).dtype}));
  return inputs;
}

}  // namespace aotc::cli
