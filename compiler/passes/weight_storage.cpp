#include "passes/weight_storage.h"

#include <fmt/format.h>

#include <cmath>

#include "base/diagnostic.h"

namespace aotc::passes {
namespace {

struct Row {
  std::string_view name;
  int bits;
  int64_t group;  ///< where none is given
};
constexpr Row kRows[] = {{"int8", 8, 0}, {"int4", 4, 32}, {"bf16", 16, 0}};
constexpr std::pair<std::string_view, int64_t> kGroups[] = {{"0", 0}, {"32", 32}, {"64", 64}, {"128", 128}};

}  // namespace

std::string WeightStorage::str() const {
  for (const Row& r : kRows)
    if (r.bits == bits && bits == 16) return "bfloat16";
  for (const Row& r : kRows)
    if (r.bits == bits)
      return group ? fmt::format("{}, groups of {}", r.name, group)
                   : fmt::format("{}, one scale a column{}", r.name, int8_rows ? ", times rows of int8" : "");
  return "as they are";
}

WeightStorage parse_weight_storage(std::string_view name, std::string_view group) {
  if (name.empty()) {
    if (group.empty()) return {};
    throw Diagnostic(ExitCode::usage, {}, "--weight-group says how many values share a scale, but weights stay as they are")
        .note("give --weights int8 or int4, too");
  }
  for (const Row& r : kRows) {
    if (r.name != name) continue;
    if (group.empty()) return {r.bits, r.group};
    if (r.bits == 16)
      throw Diagnostic(ExitCode::usage, {}, "--weight-group: bfloat16 has no scales").note("leave it out, or give --weights int8 or int4");
    for (const auto& [text, size] : kGroups)
      if (text == group) return {r.bits, size};
    throw Diagnostic(ExitCode::usage, {}, fmt::format("--weight-group: '{}' is not known", group)).note("known: 0 (a column), 32, 64, 128");
  }
  throw Diagnostic(ExitCode::usage, {}, fmt::format("--weights: '{}' is not known", name)).note("known: int8, int4, bf16");
}

bool parse_activations(std::string_view activations, const WeightStorage& weights) {
  if (activations.empty()) return false;
  if (activations != "int8")
    throw Diagnostic(ExitCode::usage, {}, fmt::format("--activations: '{}' is not known", activations)).note("known: int8");
  if (weights.bits != 8 || weights.group != 0)
    throw Diagnostic(ExitCode::usage, {},
                     fmt::format("--activations int8 multiplies weights of int8 with one scale a column; these are {}", weights.str()))
        .note("give --weights int8, without --weight-group");
  return true;
}

int64_t StoredWeights::bytes_before() const {
  int64_t n = 0;
  for (const StoredWeight& w : weights) n += 4 * w.elems;
  return n;
}
int64_t StoredWeights::bytes() const {
  int64_t n = 0;
  for (const StoredWeight& w : weights) n += w.bytes;
  return n;
}
double StoredWeights::error() const {
  double sum = 0, elems = 0;
  for (const StoredWeight& w : weights) {
    sum += w.error * w.error * static_cast<double>(w.elems);
    elems += static_cast<double>(w.elems);
  }
  return elems > 0 ? std::sqrt(sum / elems) : 0;
}

}  // namespace aotc::passes
