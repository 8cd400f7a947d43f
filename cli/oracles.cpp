#include "oracles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "graph/interp_detail.h"
#include "sizes.h"

namespace aotc::cli {
namespace {

/// A state that holds keys or values in 8 bits.
struct Cache {
  DType dtype;         ///< of the program's buffer
  std::string scales;  ///< the state of these, or empty
};
std::map<std::string, Cache> caches_of(const nlohmann::json& metadata) {
  std::map<std::string, Cache> out;
  if (metadata.contains("kv_cache"))
    for (const nlohmann::json& s : metadata["kv_cache"].at("states"))
      out[s.at("name").get<std::string>()] = {*parse_dtype(s.at("dtype").get<std::string>()), s.value("scales", "")};
  return out;
}

/// What the bytes stand for, in the program's type.
HostTensor numbers_of(const HostTensor& bytes, const HostTensor* scales, DType dtype) {
  HostTensor out{dtype, bytes.dims, {}};
  out.bytes.resize(bytes.bytes.size() * static_cast<size_t>(dtype_bytes(dtype)));
  std::vector<double> x(bytes.bytes.size());
  const size_t row = bytes.dims.empty() ? 1 : static_cast<size_t>(std::max<int64_t>(1, bytes.dims.back()));
  if (!scales) x = interp::as_f64(bytes);
  for (size_t i = 0; scales && i < x.size(); ++i) {
    float by;
    std::memcpy(&by, scales->bytes.data() + i / row * sizeof by, sizeof by);
    x[i] = static_cast<float>(static_cast<int8_t>(bytes.bytes[i])) * by;
  }
  interp::set_f64(out, x);
  return out;
}

}  // namespace

Results results_of(Session& session, const Artifact& artifact) {
  Results r;
  for (const Io& io : artifact.outputs()) r.names.push_back(io.name);
  r.tensors = session.outputs();
  std::vector<HostTensor> states = session.states();
  const nlohmann::json& rows = artifact.metadata().at("states");
  const std::map<std::string, Cache> caches = caches_of(artifact.metadata());
  std::set<std::string> scales;
  std::map<std::string, size_t> place;
  for (size_t i = 0; i < states.size(); ++i) place[rows.at(i).at("name").get<std::string>()] = i;
  for (const auto& [name, c] : caches) scales.insert(c.scales);
  for (size_t i = 0; i < states.size(); ++i) {
    if (!rows.at(i).value("updated", true)) continue;  // the caller's to change
    const auto name = rows.at(i).at("name").get<std::string>();
    if (scales.count(name)) continue;
    if (const auto c = caches.find(name); c != caches.end())
      states[i] = numbers_of(states[i], c->second.scales.empty() ? nullptr : &states[place.at(c->second.scales)], c->second.dtype);
    r.names.push_back("state " + name);
    r.tensors.push_back(std::move(states[i]));
  }
  return r;
}

Oracles::Oracles(const import::Program& archive, const Artifact& artifact, int threads, std::optional<double> max_loss)
    : artifact_(artifact.path()), program_(as_built(archive, artifact.metadata())), promise_(promise_of(artifact.metadata())) {
  if (max_loss) promise_.max_loss = *max_loss;
  import::ReferenceOptions options{.threads = threads, .caches = stored_caches(artifact.metadata())};
  options.caches_float8 = promise_.cache && artifact.metadata().at("kv_cache").at("as") == "fp8";
  const auto with = [&](auto set) {
    import::ReferenceOptions own = options;
    set(own);
    return import::make_reference(program_, own);
  };
  eager_ = with([](auto&) {});
  truth_ = with([](auto& own) { own.f64 = true; });
  if (promise_.weights || promise_.cache) original_ = import::make_reference(archive, {true, threads});
  if (promise_.bf16 && promise_.max_error == 0) bf16_ = with([](auto& own) { own.bf16 = true; });
  const std::vector<std::string> int8_rows = int8_row_weights(artifact.metadata());
  if (!int8_rows.empty()) int8_ = with([&](auto& own) { own.int8_rows = int8_rows, own.row_errors = &lost_; });
}

std::vector<Row> Oracles::judge(const std::string& sizes, const std::vector<HostTensor>& inputs, const Results& got,
                                const std::vector<HostTensor>& want, const Allowed& allowed) {
  const std::vector<HostTensor> exact = truth_->run(inputs);
  const std::vector<HostTensor> rounded = bf16_ ? bf16_->run(inputs) : std::vector<HostTensor>();
  const std::vector<HostTensor> of_int8 = int8_ ? int8_->run(inputs) : std::vector<HostTensor>();
  if (got.tensors.size() != want.size() || exact.size() != want.size())
    throw Diagnostic(Loc{artifact_, "", "", ""},
                     fmt::format("has {} outputs and states; the archive has {}", got.tensors.size(), want.size()))
        .note("was the artifact built from this archive?");
  const std::vector<HostTensor> unrounded = original_ ? original_->run(inputs) : std::vector<HostTensor>{};
  std::vector<Row> rows;
  for (size_t i = 0; i < want.size(); ++i) {
    const HostTensor& g = got.tensors[i];
    Bound bound = bound_of(want[i], bf16_ ? &rounded.at(i) : nullptr, int8_ ? &of_int8.at(i) : nullptr, exact[i], promise_);
    if (promise_.cache) bound.limit += distance(exact[i], unrounded[i]).l2;
    rows.push_back(cli::judge(got.names[i], sizes, g, want[i], exact[i], bound, promise_));
    judge_by(rows.back(), g, want[i], exact[i], allowed);
    if (original_) judge_loss(rows.back(), g, unrounded[i], promise_);
  }
  return rows;
}

std::map<std::string, double> Oracles::row_errors() const {
  std::map<std::string, double> out;
  for (const auto& [weight, e] : lost_) out[weight] = e.all > 0 ? std::sqrt(e.lost / e.all) : 0;
  return out;
}

}  // namespace aotc::cli
