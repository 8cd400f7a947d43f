#include "precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "artifact.h"
#include "base/machine.h"
#include "compare.h"
#include "import/reference.h"
#include "pipeline/work_dir.h"
#include "samples.h"
#include "sizes.h"

namespace aotc::cli {
namespace {

constexpr int kSamples = 2;
constexpr double kShare = 0.9;             ///< of the bound: other inputs than the samples need some of it
constexpr double kFaster = 0.97;           ///< bf16 that takes more of float32's time than this is not worth a rounding
constexpr std::chrono::seconds kMost(60);  ///< that choices are tried for where not all may be bf16

using Flags = std::vector<bool>;  ///< by place: multiplies bf16

/// Sample inputs, and how far the artifact's outputs are from fp64 for a choice.
class Judge {
 public:
  Judge(const std::string& artifact, const import::Program& program, size_t places, double max_error, int threads)
      : artifact_(artifact), session_(artifact_, threads) {
    const auto accepted = [&](const std::map<SymId, int64_t>& sizes) {
      std::vector<HostTensor> inputs = import::make_shapes(program, sizes);
      inputs.push_back(asking(Flags(places)));
      return session_.accepts(inputs);
    };
    const auto truth = import::make_reference(program, {.f64 = true, .threads = threads});
    const auto bf16 = max_error > 0 ? nullptr : import::make_reference(program, {.threads = threads, .bf16 = true});
    uint64_t seed = 0;
    for (const auto& sizes : sample_sizes(program, {}, kSamples, accepted)) {
      const auto refusal = [&](std::vector<HostTensor> inputs) {
        inputs.push_back(asking(Flags(places)));
        session_.reset_states();
        session_.bind(inputs);
        const std::optional<Refusal> refused = session_.run_unless_refused();
        return refused ? std::optional(refused->why) : std::nullopt;
      };
      Sample s{draw_inputs(program, sizes, seed++, refusal), {}, {}};
      s.truth = truth->run(s.inputs);
      s.bounds.assign(s.truth.size(), max_error);
      if (bf16) {
        const std::vector<HostTensor> eager = bf16->run(s.inputs);
        for (size_t i = 0; i < eager.size(); ++i) s.bounds[i] = distance(eager[i], s.truth[i]).l2;
      }
      for (size_t i = 0; i < s.bounds.size(); ++i) s.bounds[i] += epsilon(s.truth[i].dtype);
      samples_.push_back(std::move(s));
    }
  }

  OutputError error(const Flags& flags) { return worst_error(session_, samples_, asking(flags)); }
  bool within(const Flags& flags) { return error(flags).share() <= kShare; }

 private:
  /// passes::kPrecisionInput, the input behind those of the signature.
  static HostTensor asking(const Flags& flags) {
    HostTensor f{DType::boolean, {static_cast<int64_t>(flags.size())}, {}};
    for (const bool b : flags) f.bytes.push_back(static_cast<std::byte>(b));
    return f;
  }

  Artifact artifact_;
  Session session_;
  std::vector<Sample> samples_;
};

/// The contractions that gain from bf16, those first that gain most for the error that they bring.
struct Candidate {
  size_t place;
  double gain_ns, error;
};

class Chooser {
 public:
  Chooser(Judge& judge, const std::vector<passes::PrecisionStep>& steps, pipeline::PrecisionOptions& to)
      : judge_(judge), steps_(steps), to_(to), end_(std::chrono::steady_clock::now() + kMost) {}

  Flags run() {
    Flags chosen(steps_.size());
    for (size_t i = 0; i < steps_.size(); ++i) {
      chosen[i] = steps_[i].bf16_ns < kFaster * steps_[i].f32_ns;
      to_.measured.push_back({std::numeric_limits<double>::quiet_NaN(), chosen[i] ? "faster" : "bf16 is not faster"});
    }
    const Flags fast = chosen;
    if (std::find(fast.begin(), fast.end(), true) != fast.end() && !judge_.within(chosen)) chosen = within_bound(fast);
    for (size_t i = 0; i < chosen.size(); ++i)
      if (fast[i] && !chosen[i]) to_.measured[i].why = "faster in bf16, but the error would pass the bound";
    const OutputError e = judge_.error(chosen);
    to_.error = e.l2, to_.bound = e.bound;
    return chosen;
  }

 private:
  /// As many of the best as stay within the bound, then any further one that does.
  Flags within_bound(const Flags& fast) {
    const std::vector<Candidate> order = by_worth(fast);
    const auto first = [&](size_t n) {
      Flags f(fast.size());
      for (size_t i = 0; i < n; ++i) f[order[i].place] = true;
      return f;
    };
    size_t low = 0, high = order.size();  // the first `low` do, the first `high` do not
    while (high - low > 1) {
      const size_t middle = (low + high) / 2;
      (judge_.within(first(middle)) ? low : high) = middle;
    }
    Flags chosen = first(low);
    for (size_t i = high; i < order.size() && std::chrono::steady_clock::now() < end_; ++i) {
      chosen[order[i].place] = true;
      if (!judge_.within(chosen)) chosen[order[i].place] = false;
    }
    return chosen;
  }

  std::vector<Candidate> by_worth(const Flags& fast) {
    const double base = judge_.error(Flags(fast.size())).l2;
    std::vector<Candidate> all;
    for (size_t i = 0; i < fast.size(); ++i) {
      if (!fast[i]) continue;
      Candidate c{i, steps_[i].f32_ns - steps_[i].bf16_ns, 0};
      if (std::chrono::steady_clock::now() < end_) {
        Flags alone(fast.size());
        alone[i] = true;
        const double e = judge_.error(alone).l2;
        c.error = to_.measured[i].error = std::sqrt(std::max(0.0, e * e - base * base));
      }
      all.push_back(c);
    }
    // Errors of steps add up in squares.
    std::stable_sort(all.begin(), all.end(),
                     [](const Candidate& a, const Candidate& b) { return a.gain_ns * b.error * b.error > b.gain_ns * a.error * a.error; });
    return all;
  }

  Judge& judge_;
  const std::vector<passes::PrecisionStep>& steps_;
  pipeline::PrecisionOptions& to_;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace

void choose_precision(pipeline::FrontOptions& options, const std::string& near, const pipeline::Events& events) {
  if (options.precision.mode != "auto") return;
  const auto phase = [&](const char* name) {
    if (events.phase) events.phase(name);
  };
  pipeline::FrontOptions quiet = options;
  quiet.print_ir_after.clear(), quiet.dump_dir.clear();
  quiet.precision.choose = [](size_t) { return passes::Precision::f32; };
  std::optional<pipeline::WorkDir> folder;
  std::optional<Judge> judge;  // for all parts: their contractions are the same
  size_t judged_places = 0;
  std::vector<pipeline::PrecisionOptions> precisions;
  for (const pipeline::FrontOptions& part : pipeline::parts_of(quiet)) {
    phase("precision: what may be bf16");
    const pipeline::Front front = pipeline::run_front(part, {});
    const size_t places = front.precisions.size();
    pipeline::PrecisionOptions& precision = precisions.emplace_back(options.precision);
    Flags chosen(places);
    if (places > 0) {
      if (!judge) {
        phase("precision: an artifact that asks");
        folder.emplace(near);
        if (events.work_dir) events.work_dir(folder->str());
        pipeline::BuildOptions probe;
        pipeline::FrontOptions& asks = probe.methods.front().front = quiet;
        asks.target = parse_cpu_target("native");
        asks.target.threads = usable_processors();
        asks.precision = {};
        asks.precision.choose = [](size_t) { return passes::Precision::asked; };
        probe.output = folder->file("asks.so");
        pipeline::build(probe, {});
        phase("precision: errors");
        judge.emplace(probe.output, pipeline::with_stored_weights(front.program, front.stored_weights), places, options.precision.max_error,
                      usable_processors());
        judged_places = places;
      }
      AOTC_CHECK(places == judged_places, "{} has {} contractions of float32, another part {}", part.target.str(), places, judged_places);
      chosen = Chooser(*judge, front.precisions, precision).run();
    }
    precision.choose = [chosen](size_t place) {
      return place < chosen.size() && chosen[place] ? passes::Precision::bf16 : passes::Precision::f32;
    };
  }
  options.part_precisions = std::move(precisions);
}

}  // namespace aotc::cli
