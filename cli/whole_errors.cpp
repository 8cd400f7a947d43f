#include "whole_errors.h"

#include <chrono>
#include <memory>

#include "base/machine.h"
#include "compare.h"
#include "import/reference.h"
#include "samples.h"

namespace aotc::cli {
namespace {

using Sizes = pipeline::WholeJudge::Sizes;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kSamples = 3;

double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

struct Drawn {
  std::vector<Sample> samples;
  double eager_s = 0;  ///< of all samples, and the comparison of its outputs
};

/// As many samples as `seconds` do for, at least one and at most kSamples.
Drawn draw(const import::Program& program, const Sizes& sizes, int threads, double seconds) {
  const auto start = Clock::now();
  const auto truth = import::make_reference(program, {.f64 = true, .threads = threads});
  const auto eager = import::make_reference(program, {.threads = threads});
  Drawn drawn;
  for (uint64_t seed = 0; seed < kSamples; ++seed) {
    const auto sample_start = Clock::now();
    Sample s{import::make_inputs(program, sizes, seed), {}, {}};
    s.truth = truth->run(s.inputs);
    const auto eager_start = Clock::now();
    const std::vector<HostTensor> got = eager->run(s.inputs);
    for (size_t i = 0; i < s.truth.size(); ++i) s.bounds.push_back(2 * distance(got[i], s.truth[i]).l2 + epsilon(got[i].dtype));
    drawn.eager_s += since(eager_start);
    drawn.samples.push_back(std::move(s));
    if (since(start) + since(sample_start) > seconds) break;
  }
  return drawn;
}

/// The input that picks the candidate by its size.
HostTensor picking(size_t candidate) { return {DType::boolean, {static_cast<int64_t>(candidate)}, std::vector<std::byte>(candidate)}; }

class Judge {
 public:
  Result<double> references(const import::Program& program, const Sizes& sizes, double seconds) {
    try {
      auto it = drawn_.find(sizes);
      if (it == drawn_.end()) it = drawn_.emplace(sizes, draw(program, sizes, threads_, seconds)).first;
      return it->second.eager_s;
    } catch (const Diagnostic& d) { return Result<double>::fail(d.message()); }
  }

  Result<std::vector<search::WholeError>> errors(const import::Program& program, const Sizes& sizes, const std::string& path,
                                                 size_t candidates, double seconds) {
    using R = Result<std::vector<search::WholeError>>;
    const auto start = Clock::now();
    if (const Result<double> ready = references(program, sizes, seconds / 2); !ready) return R::fail(ready.why());
    const std::vector<Sample>& samples = drawn_.at(sizes).samples;
    std::vector<search::WholeError> out;
    try {
      const Artifact artifact(path);
      if (samples.front().truth.size() != artifact.outputs().size()) return R::fail("the program updates states");
      Session session(artifact, threads_);
      for (size_t c = 0; c < candidates && (c == 0 || since(start) < seconds); ++c) {
        const OutputError e = worst_error(session, samples, picking(c));
        out.push_back({e.l2, e.bound, static_cast<int>(samples.size())});
      }
    } catch (const Diagnostic& d) { return R::fail(d.message()); }
    return out;
  }

 private:
  const int threads_ = usable_processors();
  std::map<Sizes, Drawn> drawn_;
};

}  // namespace

pipeline::WholeJudge whole_errors() {
  const auto judge = std::make_shared<Judge>();
  pipeline::WholeJudge out;
  out.references = [judge](const import::Program& program, const Sizes& sizes, double seconds) {
    return judge->references(program, sizes, seconds);
  };
  out.errors = [judge](const import::Program& program, const Sizes& sizes, const std::string& artifact, size_t candidates, double seconds) {
    return judge->errors(program, sizes, artifact, candidates, seconds);
  };
  return out;
}

}  // namespace aotc::cli
