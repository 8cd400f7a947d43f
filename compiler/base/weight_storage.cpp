#include "base/weight_storage.h"

#include <fmt/format.h>

#include <utility>

#include "base/diagnostic.h"

namespace aotc {
namespace {

struct Kind {
  std::string_view name;
  int bits;
  bool float8;
  int64_t group;     ///< where none is given
  double max_error;  ///< so, too: what weights of language models lose in groups of 32, and a half more
};
constexpr Kind kKinds[] = {
    {"int8", 8, false, 32, 0.01}, {"int4", 4, false, 32, 0.15}, {"fp8", 8, true, 32, 0.04}, {"bf16", 16, false, 0, 0.005}};
constexpr int kBesideRows = 2;  ///< times the error: rows of int8 lose as much, and allow no groups
constexpr std::pair<std::string_view, int64_t> kGroups[] = {{"0", 0}, {"32", 32}, {"64", 64}, {"128", 128}};

const Kind* kind_of(const WeightStorage& w) {
  for (const Kind& r : kKinds)
    if (r.bits == w.bits && r.float8 == w.float8) return &r;
  return nullptr;
}

}  // namespace

std::string WeightStorage::str() const {
  const Kind* r = kind_of(*this);
  if (!r) return "as they are";
  if (bits == 16) return "bfloat16";
  return group ? fmt::format("{}, groups of {}", r->name, group)
               : fmt::format("{}, one scale a column{}", r->name, int8_rows ? ", times rows of int8" : "");
}

double WeightStorage::most_error() const {
  if (max_error > 0) return max_error;
  const Kind* r = kind_of(*this);
  return !r ? 0 : (int8_rows ? kBesideRows : 1) * r->max_error;
}

static int64_t parse_group(std::string_view group) {
  for (const auto& [text, size] : kGroups)
    if (text == group) return size;
  throw Diagnostic(ExitCode::usage, {}, fmt::format("--weight-group: '{}' is not known", group)).note("known: 0 (a column), 32, 64, 128");
}

WeightStorage parse_weight_storage(std::string_view name, std::string_view group, std::string_view activations) {
  if (!activations.empty() && activations != "int8")
    throw Diagnostic(ExitCode::usage, {}, fmt::format("--activations: '{}' is not known", activations)).note("known: int8");
  WeightStorage w;
  w.int8_rows = !activations.empty();
  if (name.empty() && !group.empty())
    throw Diagnostic(ExitCode::usage, {}, "--weight-group says how many values share a scale, but weights stay as they are")
        .note("give --weights int8, int4 or fp8, too");
  for (const Kind& r : kKinds)
    if (r.name == name) w.bits = r.bits, w.float8 = r.float8, w.group = w.int8_rows && r.bits == 8 ? 0 : r.group;
  if (!name.empty() && !w.any())
    throw Diagnostic(ExitCode::usage, {}, fmt::format("--weights: '{}' is not known", name)).note("known: int8, int4, fp8, bf16");
  if (!group.empty() && w.bits == 16)
    throw Diagnostic(ExitCode::usage, {}, "--weight-group: bfloat16 has no scales")
        .note("leave it out, or give --weights int8, int4 or fp8");
  if (!group.empty()) w.group = parse_group(group);
  if (w.int8_rows && (w.bits != 8 || w.float8 || w.group != 0)) {
    w.int8_rows = false;
    throw Diagnostic(ExitCode::usage, {},
                     fmt::format("--activations int8 multiplies weights of int8 with one scale a column; these are {}", w.str()))
        .note("give --weights int8, without --weight-group");
  }
  return w;
}

}  // namespace aotc
