#include "sizes.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "graph/guard.h"
#include "import/other_inputs.h"
#include "import/read_archive.h"
#include "import/shapes.h"
#include "import/shared_storage.h"
#include "import/torch_library.h"
#include "pipeline/pipeline.h"

namespace aotc::cli {
namespace {

constexpr int64_t kLargestSample = 512;               // for dims without a maximum
constexpr int kDraws = 16;                            // for each sample
constexpr int kAttempts = 64;                         // to draw inputs that the model takes
constexpr std::chrono::seconds kPatience(60);         // for all of them
constexpr int64_t kLargestTensor = int64_t{1} << 25;  // elements, of any value of the program, where dims without a maximum can be less

/// Symbols that occur in the program's inputs: the free ones.
std::set<SymId> free_symbols(const import::Program& program) {
  std::set<SymId> out;
  for (const import::ProgramInput& in : program.inputs) {
    if (in.kind != import::InputKind::user) continue;
    auto it = program.tensors.find(in.name);
    if (it == program.tensors.end()) continue;
    for (const Expr& d : it->second.sizes)
      for (SymId s : d.symbols()) out.insert(s);
  }
  return out;
}

int64_t clamp_to(const SymInfo& s, int64_t v) {
  v = std::clamp(v, s.min, s.max == kInf ? std::max(s.min, kLargestSample) : s.max);
  v -= v % s.multiple_of;
  return v < s.min ? v + s.multiple_of : v;
}

int64_t given_or(const std::map<std::string, int64_t>& given, const SymInfo& s, int64_t otherwise) {
  auto it = given.find(s.name);
  if (it == given.end()) return otherwise;
  if (it->second < s.min || it->second > s.max || it->second % s.multiple_of != 0)
    throw Diagnostic(
        ExitCode::usage, {},
        fmt::format("--dim {}={}: allowed are {} to {}{}", s.name, it->second, s.min, s.max == kInf ? "any" : std::to_string(s.max),
                    s.multiple_of > 1 ? fmt::format(", multiples of {}", s.multiple_of) : ""));
  return it->second;
}

void check_names(const import::Program& program, const std::map<std::string, int64_t>& given) {
  std::set<std::string> names;
  for (SymId s : free_symbols(program)) names.insert(program.syms[s].name);
  check_dims(given, names);
}

/// The largest value's elements.
int64_t largest_tensor(const import::Program& program, const std::map<SymId, int64_t>& sizes) {
  const auto value_of = [&](SymId s) -> std::optional<int64_t> {
    auto it = sizes.find(s);
    return it == sizes.end() ? std::nullopt : std::optional(it->second);
  };
  int64_t most = 0;
  for (const auto& [name, tensor] : program.tensors) {
    double elements = 1;
    for (const Expr& d : tensor.sizes) elements *= static_cast<double>(std::max<int64_t>(d.try_eval(value_of).value_or(1), 0));
    most = std::max(most, static_cast<int64_t>(std::min(elements, 0x1p62)));
  }
  return most;
}

/// Halves what was not given of the dims without a maximum, the largest first, until every value of the program is of a moderate size.
void make_moderate(const import::Program& program, const std::map<std::string, int64_t>& given, std::map<SymId, int64_t>& sizes) {
  while (largest_tensor(program, sizes) > kLargestTensor) {
    int64_t* most = nullptr;
    for (auto& [s, v] : sizes) {
      const SymInfo& info = program.syms[s];
      if (info.max == kInf && !given.count(info.name) && clamp_to(info, v / 2) < v && (!most || v > *most)) most = &v;
    }
    if (!most) return;
    for (auto& [s, v] : sizes)
      if (&v == most) v = clamp_to(program.syms[s], v / 2);
  }
}

/// These sizes, or others near them, at which the archive's conditions hold; those given stay.
std::optional<std::map<SymId, int64_t>> fitting(const import::Program& program, const std::map<std::string, int64_t>& given,
                                                const std::map<SymId, int64_t>& sizes) {
  std::set<SymId> fixed;
  for (const auto& [s, value] : sizes)
    if (given.count(program.syms[s].name)) fixed.insert(s);
  // Conditions on numbers that a run finds in data are its own.
  std::vector<ShapeGuard> guards = program.guards;
  std::erase_if(guards, [&](const ShapeGuard& q) {
    std::set<SymId> used = q.a.symbols();
    used.merge(q.b.symbols());
    return std::any_of(used.begin(), used.end(), [&](SymId s) { return sizes.count(s) == 0; });
  });
  return sizes_near(program.syms, guards, sizes, fixed);
}

}  // namespace

Against against(const std::string& pt2, const ArtifactFile& artifact) {
  // Of an archive with several programs, the one of the method's name.
  const std::string program = import::programs_of(pt2).size() > 1 ? artifact.method() : "";
  Against out{import::read_archive(pt2, program), {}};
  for (const std::string& doubt : {import::untried_archive(out.program.torch_version), import::untried_libtorch()})
    if (!doubt.empty()) fmt::print(stderr, "aotc: warning: {}\n", doubt);
  const nlohmann::json meta = artifact.metadata();
  if (meta.contains("source") && meta["source"].at("id") != out.program.source_id)
    out.doubt = fmt::format("{} is not the archive that {} was built from (its id is {}; this one has {})", pt2, artifact.path(),
                            meta["source"]["id"].get<std::string>(), out.program.source_id);
  try {
    std::optional<import::ShapesSpec> spec;
    if (meta.contains("shapes") && meta["shapes"].is_string() && !meta["shapes"].get<std::string>().empty())
      spec = import::parse_shapes(meta["shapes"].get<std::string>(), "shapes.json of " + artifact.path());
    import::apply_shapes(out.program, spec);
  } catch (Diagnostic& d) {
    if (!out.doubt.empty()) d.note(out.doubt);
    throw;
  }
  return out;
}

auto as_built(const import::Program& archive, const nlohmann::json& metadata) -> import::Program {
  import::Program program = archive;
  // Memory that states share is one state: which they are hangs on those that the caller asked for, too.
  for (const nlohmann::json& state : metadata.at("states")) {
    const auto name = state.at("name").get<std::string>();
    for (import::ProgramInput& in : program.inputs)
      if (!in.target.empty() && (in.target == name || in.target + ".storage" == name)) in.is_state = true;
  }
  import::share_states(program);
  if (!metadata.contains("stored_weights")) return program;
  return pipeline::with_stored_weights(program, pipeline::stored_weights_of(metadata["stored_weights"]));
}

std::vector<std::string> stored_caches(const nlohmann::json& metadata) {
  std::vector<std::string> names;
  if (metadata.contains("kv_cache"))
    for (const nlohmann::json& s : metadata["kv_cache"].at("states")) names.push_back(s.at("name").get<std::string>());
  return names;
}

std::vector<std::string> int8_row_weights(const nlohmann::json& metadata) {
  std::vector<std::string> names;
  if (!metadata.contains("stored_weights")) return names;
  const passes::StoredWeights stored = pipeline::stored_weights_of(metadata["stored_weights"]);
  if (stored.storage.int8_rows)
    for (const passes::RoundedConstant& r : stored.rounded) names.push_back(r.name);
  return names;
}

std::map<SymId, int64_t> choose_sizes(const import::Program& program, const std::map<std::string, int64_t>& given) {
  check_names(program, given);
  std::map<SymId, int64_t> out;
  for (SymId s : free_symbols(program)) {
    const SymInfo& info = program.syms[s];
    out[s] = given_or(given, info, clamp_to(info, info.tune.empty() ? 8 : info.tune.front()));
  }
  return fitting(program, given, out).value_or(out);
}

namespace {

/// What `value` says of each symbol that was not given, or near it, so that the archive's conditions hold.
std::optional<std::map<SymId, int64_t>> sizes_by(const import::Program& program, const std::map<std::string, int64_t>& given,
                                                 const std::function<int64_t(const SymInfo&)>& value) {
  std::map<SymId, int64_t> sizes;
  for (const SymId s : free_symbols(program)) {
    const SymInfo& info = program.syms[s];
    sizes[s] = given_or(given, info, clamp_to(info, value(info)));
  }
  make_moderate(program, given, sizes);
  return fitting(program, given, sizes);
}
int64_t least(const SymInfo& s) { return s.min; }
int64_t largest(const SymInfo& s) { return clamp_to(s, kLargestSample); }

}  // namespace

std::vector<std::map<SymId, int64_t>> range_ends(const import::Program& program, const std::map<std::string, int64_t>& given) {
  std::vector<std::map<SymId, int64_t>> out;
  const auto example = [](const SymInfo& s) { return s.exported.value_or(s.min); };
  for (const std::function<int64_t(const SymInfo&)>& value : {std::function<int64_t(const SymInfo&)>(least), {largest}, {example}})
    if (const auto fit = sizes_by(program, given, value); fit && std::find(out.begin(), out.end(), *fit) == out.end()) out.push_back(*fit);
  return out;
}

std::vector<std::map<SymId, int64_t>> sample_sizes(const import::Program& program, const std::map<std::string, int64_t>& given, int n,
                                                   const std::function<bool(const std::map<SymId, int64_t>&)>& accepted) {
  check_names(program, given);
  const std::set<SymId> symbols = free_symbols(program);
  std::vector<std::map<SymId, int64_t>> out;
  std::mt19937_64 random(20);
  const auto drawn = [&](const SymInfo& s) { return std::uniform_int_distribution<int64_t>(s.min, std::max(s.min, largest(s)))(random); };
  // Conditions of the operators are known to the artifact alone: sizes that it refuses are drawn again.
  for (int i = 0; i < n * kDraws && out.size() < static_cast<size_t>(n); ++i) {
    const auto fit = i == 0   ? sizes_by(program, given, least)
                     : i == 1 ? sizes_by(program, given, largest)
                              : sizes_by(program, given, drawn);
    if (!fit || !accepted(*fit)) continue;
    if (std::find(out.begin(), out.end(), *fit) == out.end() || symbols.empty()) out.push_back(*fit);
    if (i >= n && !out.empty() && symbols.size() == given.size()) break;
  }
  if (out.empty())
    throw Diagnostic(ExitCode::failed, {}, "no sizes were found that the artifact takes").note("give them with --dim NAME=SIZE");
  return out;
}

std::vector<HostTensor> draw_inputs(const import::Program& program, const std::map<SymId, int64_t>& sizes, uint64_t seed,
                                    const std::function<std::optional<std::string>(const std::vector<HostTensor>&)>& refusal) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  std::optional<std::string> first;
  int attempt = 0;
  for (; attempt < kAttempts && (attempt == 0 || std::chrono::steady_clock::now() < end); ++attempt) {
    std::vector<HostTensor> inputs = import::make_inputs(program, sizes, seed, attempt);
    const std::optional<std::string> why = refusal(inputs);
    if (!why) return inputs;
    if (!first) first = why;
  }
  throw Diagnostic(ExitCode::failed, Loc{program.file, "", "", ""},
                   fmt::format("the model accepts none of {} random sets of inputs ({}): {}", attempt, sizes_text(program, sizes), *first))
      .note("give verify inputs that it takes: --inputs DIR, with NAME.npy for each");
}

std::string sizes_text(const import::Program& program, const std::map<SymId, int64_t>& sizes) {
  std::string text;
  for (const auto& [s, v] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : " ", program.syms[s].name, v);
  return text.empty() ? "fixed shapes" : text;
}

}  // namespace aotc::cli
