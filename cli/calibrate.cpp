#include "pipeline/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "about.h"
#include "base/file.h"
#include "cache_options.h"
#include "cli.h"
#include "peaks.h"
#include "progress.h"
#include "text_file.h"

namespace aotc::cli {
namespace {

using Measured = pipeline::Calibration::Measured;

struct Options {
  pipeline::CalibrateOptions calibrate;
  CacheArgs cache;
  std::string output;
};

std::vector<std::string> cpu_names() {
  std::vector<std::string> names;
  for (const std::string_view name : uarch_names())
    if (!parse_uarch(fmt::format("like {}\n", name), "").is_gpu) names.emplace_back(name);
  return names;
}

/// Whether half a vector takes half the time: products of 256 bits are nearly as many a ns as those of 512. Nothing without AVX-512.
std::vector<Measured> halves() {
  const std::vector<Isa> isas = native_isas();
  if (std::find(isas.begin(), isas.end(), Isa::avx512) == isas.end()) return {};
  constexpr double kMuchFaster = 1.4;  // between one time and two times as many
  constexpr uint64_t kInCache = 64 << 10;
  double whole = 0, half = 0;
  for (int turn = 0; turn < 4; ++turn) {  // other work makes them fewer and never more
    whole = std::max(whole, measure_cpu(1, "avx512", kInCache).operations);
    half = std::max(half, measure_cpu(1, "avx2", kInCache).operations);
  }
  return {{"halves_vectors", whole < kMuchFaster * half ? 1.0 : 0.0,
           fmt::format("{:.3g} multiply-adds of float32 a ns by instructions of 512 bits, {:.3g} by those of 256", whole, half)}};
}

/// Of the last minute; below 0: not known.
double load() {
  std::ifstream in("/proc/loadavg");
  double one = 0;
  return in >> one ? one : -1;
}

std::string load_text(double load) { return load < 0 ? "unknown" : fmt::format("{:.2f}", load); }

std::string today() {
  char text[16];
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  return gmtime_r(&now, &day) && std::strftime(text, sizeof text, "%Y-%m-%d", &day) ? text : "an unknown day";
}

std::string number_text(double value) { return fmt::format("{}", value); }

std::string file_text(const pipeline::Calibration& c, const std::string& like, double load) {
  std::string text = fmt::format(
      "# {}, {}: measured by aotc {} on {}, one thread; the machine's load was {} on {} processors.\n"
      "# What each number is: compiler/base/uarch_cpu.def and uarch_both.def of aotc. What does not stand here is as in {}.\n"
      "like {}\n",
      c.machine.model, c.machine.name(), AOTC_VERSION, today(), load_text(load), usable_processors(), like, like);
  std::string how;
  for (const Measured& m : c.measured) {
    if (m.how != how) text += fmt::format("\n# {}\n", m.how);
    how = m.how;
    text += fmt::format("{} {}\n", m.name, number_text(m.value));
  }
  if (!c.left.empty()) text += "\n# Not measured:\n";
  for (const pipeline::Calibration::Left& l : c.left) text += fmt::format("#   {}: {}\n", l.name, l.why.substr(0, l.why.find('\n')));
  return text;
}

nlohmann::json result_of(const pipeline::Calibration& c, const std::string& like, double load, double seconds) {
  const Uarch known = parse_uarch(fmt::format("like {}\n", like), "");
  nlohmann::json j = {{"machine", {{"model", c.machine.model}, {"code", c.machine.name()}, {"processors", usable_processors()}}},
                      {"like", like},
                      {"seconds", seconds},
                      {"numbers", nlohmann::json::array()},
                      {"not_measured", nlohmann::json::array()}};
  if (load >= 0) j["machine"]["load"] = load;
  for (const Measured& m : c.measured)
    j["numbers"].push_back({{"name", m.name}, {"value", m.value}, {"instead_of", number_of(known, m.name)}, {"how", m.how}});
  for (const pipeline::Calibration::Left& l : c.left) j["not_measured"].push_back({{"name", l.name}, {"why", l.why}});
  return j;
}

}  // namespace

Run add_calibrate(CLI::App& app) {
  auto o = std::make_shared<Options>();
  add_option(app, "-o,--output", o->output, "path of the data file; default: stdout");
  add_option(
      app, "--like", o->calibrate.like,
      "the microarchitecture whose numbers take the place of those that are not measured; default: what aotc assumes of this machine")
      .one_of(cpu_names());
  add_option(app, "-j,--jobs", o->calibrate.jobs, "parallel compiles; default: all processors").not_negative();
  o->cache.add_to(app);
  return [o](const Common& common) {
    const std::vector<Isa> isas = native_isas();
    if (isas.empty())
      throw Diagnostic(ExitCode::unsupported, {}, "this machine has no AVX2 with FMA and F16C, the least that aotc makes code for");
    pipeline::CalibrateOptions options = o->calibrate;
    if (options.like.empty()) options.like = uarch_of(isas.back()).name;
    options.cache = o->cache.get();
    if (!o->output.empty()) require_place_for_file(o->output);
    const double load_before = load();
    const auto start = std::chrono::steady_clock::now();
    pipeline::Calibration c;
    watched(common.quiet || common.json, [&](const pipeline::Events& events) { c = pipeline::calibrate(options, halves(), events); });
    const std::string text = file_text(c, options.like, load_before);
    parse_uarch(text, "calibrate");  // what is written can be read
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!o->output.empty()) write_text_file(o->output, text);
    if (common.json) {
      nlohmann::json j = result_of(c, options.like, load_before, seconds);
      j["text"] = text;
      if (!o->output.empty()) j["file"] = o->output;
      print_result(j, about(common));
    } else if (o->output.empty()) {
      fmt::print("{}", text);
    } else if (!common.quiet) {
      fmt::print("{}\n  {} numbers measured in {:.0f} s at a load of {}, the others are those of {}\n", o->output, c.measured.size(),
                 seconds, load_text(load_before), options.like);
    }
    return 0;
  };
}

}  // namespace aotc::cli
