#include "whole_errors.h"

#include <memory>
#include <optional>

#include "base/machine.h"
#include "compare.h"
#include "import/reference.h"
#include "samples.h"

namespace aotc::cli {
namespace {

using Sizes = std::map<SymId, int64_t>;

constexpr uint64_t kSamples = 3;

std::vector<Sample> draw(const import::Program& program, const Sizes& sizes, int threads) {
  const auto truth = import::make_reference(program, {.f64 = true, .threads = threads});
  const auto eager = import::make_reference(program, {.threads = threads});
  std::vector<Sample> samples;
  for (uint64_t seed = 0; seed < kSamples; ++seed) {
    Sample s{import::make_inputs(program, sizes, seed), {}, {}};
    s.truth = truth->run(s.inputs);
    const std::vector<HostTensor> got = eager->run(s.inputs);
    for (size_t i = 0; i < s.truth.size(); ++i) s.bounds.push_back(2 * compare(got[i], s.truth[i]).l2 + epsilon(got[i].dtype));
    samples.push_back(std::move(s));
  }
  return samples;
}

/// The input that picks the candidate by its size.
HostTensor picking(size_t candidate) { return {DType::boolean, {static_cast<int64_t>(candidate)}, std::vector<std::byte>(candidate)}; }

class Judge {
 public:
  explicit Judge(int threads) : threads_(threads > 0 ? threads : usable_processors()) {}

  Result<std::vector<search::WholeError>> operator()(const import::Program& program, const Sizes& sizes, const std::string& path,
                                                     size_t candidates) {
    using R = Result<std::vector<search::WholeError>>;
    std::vector<search::WholeError> out;
    try {
      if (!sizes_ || *sizes_ != sizes) samples_ = draw(program, sizes, threads_), sizes_ = sizes;
      const Artifact artifact(path);
      if (samples_.front().truth.size() != artifact.outputs().size()) return R::fail("the program updates states");
      Session session(artifact, threads_);
      for (size_t c = 0; c < candidates; ++c) {
        const OutputError e = worst_error(session, samples_, picking(c));
        out.push_back({e.l2, e.bound});
      }
    } catch (const Diagnostic& d) { return R::fail(d.message()); }
    return out;
  }

 private:
  int threads_;
  std::optional<Sizes> sizes_;
  std::vector<Sample> samples_;
};

}  // namespace

pipeline::JudgeFn whole_errors(int threads) {
  return [judge = std::make_shared<Judge>(threads)](const import::Program& program, const Sizes& sizes, const std::string& artifact,
                                                    size_t candidates) { return (*judge)(program, sizes, artifact, candidates); };
}

}  // namespace aotc::cli
