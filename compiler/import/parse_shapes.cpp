#include <algorithm>
#include <cmath>

#include "import/json.h"
#include "import/shapes.h"

namespace aotc::import {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 40;
constexpr size_t kMaxItems = 64;

void check_name(const std::string& name, const JsonRef& where) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto fine = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  if (name.empty() || name.size() > 64 || !letter(name[0]) || !std::all_of(name.begin(), name.end(), fine))
    throw where.fault(
        fmt::format("\"{}\" is not a name: letters, digits and _, at most 64, not beginning with a digit", name.substr(0, 80)));
}

int64_t size(const JsonRef& j, int64_t least) {
  int64_t v = 0;
  if (const Json& raw = j.raw(); raw.is_number_float() && raw.get<double>() == std::floor(raw.get<double>()) &&
                                 std::abs(raw.get<double>()) <= static_cast<double>(kMaxSize))
    v = static_cast<int64_t>(raw.get<double>());
  else
    v = j.integer();
  if (v < least || v > kMaxSize) throw j.fault(fmt::format("{} is not within {} to {}", v, least, kMaxSize));
  return v;
}

void check_count(const JsonRef& j) {
  if (j.size() > kMaxItems) throw j.fault(fmt::format("{} entries; at most {}", j.size(), kMaxItems));
}

DimSpec read_range(const JsonRef& j) {
  j.check_keys({"min", "max", "multiple_of", "tune"});
  DimSpec d;
  if (const auto v = j.member("min")) d.min = size(*v, 1);
  if (const auto v = j.member("max")) d.max = size(*v, 1);
  if (const auto v = j.member("multiple_of")) d.multiple_of = size(*v, 1);
  if (d.max && *d.max < d.min) throw j.fault(fmt::format("max {} is less than min {}", *d.max, d.min));
  if (d.max && *d.max / d.multiple_of * d.multiple_of < std::max<int64_t>(d.min, 1))
    throw j.fault(fmt::format("no multiple of {} lies between {} and {}", d.multiple_of, d.min, *d.max));
  if (const auto tune = j.member("tune")) {
    check_count(*tune);
    for (size_t i = 0, n = tune->size(); i < n; ++i) {
      const int64_t t = size(tune->at(i), 1);
      if (t < d.min || (d.max && t > *d.max) || t % d.multiple_of != 0)
        throw tune->at(i).fault(fmt::format("{} is not within the dimension's range", t));
      d.tune.push_back(t);
    }
  }
  return d;
}

}  // namespace

ShapesSpec parse_shapes(const std::string& text, const std::string& file_name) {
  const Json json = parse_json(text, file_name);
  const JsonRef root(json, file_name);
  root.check_keys({"dims", "inputs", "variants"});
  ShapesSpec spec;
  spec.file = file_name;
  if (const auto dims = root.member("dims"))
    for (const auto& [name, value] : dims->object().items()) {
      const JsonRef d = dims->member(name, value);
      check_name(name, d);
      spec.dims[name] = read_range(d);
    }
  if (const auto inputs = root.member("inputs"))
    for (const auto& [name, value] : inputs->object().items()) {
      const JsonRef in = inputs->member(name, value);
      in.check_keys({"shape"});
      const JsonRef shape = in["shape"];
      check_count(shape);
      std::vector<InputDim>& out = spec.inputs[name];
      for (size_t i = 0, n = shape.size(); i < n; ++i) {
        const JsonRef d = shape.at(i);
        if (d.raw().is_string()) {
          check_name(d.text(), d);
          out.emplace_back(d.text());
        } else {
          out.emplace_back(size(d, 0));
        }
      }
    }
  if (const auto variants = root.member("variants")) {
    check_count(*variants);
    for (size_t i = 0, n = variants->size(); i < n; ++i) {
      const JsonRef v = variants->at(i);
      VariantSpec& out = spec.variants.emplace_back();
      for (const auto& [name, value] : v.object().items()) {
        const JsonRef d = v.member(name, value);
        check_name(name, d);
        if (value.is_object()) {
          out[name] = read_range(d);
        } else {
          const int64_t s = size(d, 0);
          out[name] = {.min = s, .max = s};
        }
      }
    }
  }
  return spec;
}

}  // namespace aotc::import
