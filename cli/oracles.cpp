#include "oracles.h"

#include <fmt/format.h>

#include <cmath>

#include "sizes.h"

namespace aotc::cli {

Results results_of(Session& session, const Artifact& artifact) {
  Results r;
  for (const Io& io : artifact.outputs()) r.names.push_back(io.name);
  r.tensors = session.outputs();
  std::vector<HostTensor> states = session.states();
  const nlohmann::json& rows = artifact.metadata().at("states");
  for (size_t i = 0; i < states.size(); ++i) {
    if (!rows.at(i).value("updated", true)) continue;  // the caller's to change
    r.names.push_back("state " + rows.at(i).at("name").get<std::string>());
    r.tensors.push_back(std::move(states[i]));
  }
  return r;
}

Oracles::Oracles(const import::Program& archive, const Artifact& artifact, int threads, std::optional<double> max_loss)
    : artifact_(artifact.path()), program_(as_built(archive, artifact.metadata())), promise_(promise_of(artifact.metadata())) {
  if (max_loss) promise_.max_loss = *max_loss;
  eager_ = import::make_reference(program_, {false, threads});
  truth_ = import::make_reference(program_, {true, threads});
  if (artifact.metadata().contains("stored_weights")) original_ = import::make_reference(archive, {true, threads});
  if (promise_.bf16 && promise_.max_error == 0) bf16_ = import::make_reference(program_, {.threads = threads, .bf16 = true});
  const std::vector<std::string> int8_rows = int8_row_weights(artifact.metadata());
  if (!int8_rows.empty()) int8_ = import::make_reference(program_, {.threads = threads, .int8_rows = int8_rows, .row_errors = &lost_});
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
    const Bound bound = bound_of(want[i], bf16_ ? &rounded.at(i) : nullptr, int8_ ? &of_int8.at(i) : nullptr, exact[i], promise_);
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
