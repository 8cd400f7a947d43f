#include "graph/custom_op.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace aotc {
namespace {

using Kind = CustomNumber::Kind;
using nlohmann::json;

constexpr std::string_view kKinds[] = {"none", "int", "real", "text", "ints", "reals"};

/// JSON has no infinities.
json real_json(double v) {
  if (std::isfinite(v)) return v;
  return std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf";
}
double real_of(const json& j) {
  if (j.is_number()) return j.get<double>();
  const std::string& s = j.get_ref<const std::string&>();
  AOTC_CHECK(s == "nan" || s == "inf" || s == "-inf", "'{}' is no number", s);
  return s == "nan" ? NAN : s == "inf" ? INFINITY : -INFINITY;
}

}  // namespace

std::string custom_numbers_text(const std::vector<CustomNumber>& numbers) {
  json all = json::array();
  for (const CustomNumber& n : numbers) {
    json values = json::array();
    for (const int64_t i : n.integers) values.push_back(i);
    for (const double d : n.reals) values.push_back(real_json(d));
    if (n.kind == Kind::text) values.push_back(n.text);
    json& row = all.emplace_back(json::array({kKinds[static_cast<size_t>(n.kind)], values}));
    if (n.first_size >= 0) row.push_back(n.first_size), row.push_back(n.sizes);
  }
  return all.dump();
}

std::vector<CustomNumber> parse_custom_numbers(const std::string& text) {
  std::vector<CustomNumber> numbers;
  try {
    for (const json& row : json::parse(text)) {
      CustomNumber n;
      const std::string& name = row.at(0).get_ref<const std::string&>();
      size_t kind = 0;
      while (kind < std::size(kKinds) && kKinds[kind] != name) ++kind;
      AOTC_CHECK(kind < std::size(kKinds), "'{}' is no kind of number", name);
      n.kind = static_cast<Kind>(kind);
      for (const json& v : row.at(1)) {
        if (n.kind == Kind::text)
          n.text = v.get<std::string>();
        else if (n.kind == Kind::real || n.kind == Kind::reals)
          n.reals.push_back(real_of(v));
        else
          n.integers.push_back(v.get<int64_t>());
      }
      if (row.size() > 2) n.first_size = row.at(2).get<int>(), n.sizes = row.at(3).get<int>();
      const size_t values = n.integers.size() + n.reals.size() + static_cast<size_t>(n.sizes);
      AOTC_CHECK(n.sizes >= 0 && ((n.kind != Kind::integer && n.kind != Kind::real) || values == 1), "a number of kind {} has {} values",
                 name, values);
      numbers.push_back(std::move(n));
    }
  } catch (const json::exception& e) { AOTC_CHECK(false, "numbers of a custom operator: {}", e.what()); }
  return numbers;
}

std::string custom_types_text(const std::vector<DType>& types) {
  std::string text;
  for (const DType t : types) text += (text.empty() ? "" : ",") + std::string(dtype_name(t));
  return text;
}

std::vector<DType> parse_custom_types(const std::string& text) {
  std::vector<DType> types;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const auto t = parse_dtype(std::string_view(text).substr(at, end - at));
    AOTC_CHECK(t, "'{}' is no element type", text.substr(at, end - at));
    types.push_back(*t);
    at = end + 1;
  }
  return types;
}

std::string custom_cuda_text(const CustomCuda& code) {
  return json{{"header", code.header}, {"binaries", code.binaries}, {"function", code.function}}.dump();
}

CustomCuda parse_custom_cuda(const std::string& text) {
  const json j = json::parse(text, nullptr, false);
  AOTC_CHECK(j.is_object() && j.size() == 3, "'{}' is no kernel for GPUs", text);
  return {j.at("header").get<std::string>(), j.at("binaries").get<std::vector<int64_t>>(), j.at("function").get<std::string>()};
}

constexpr std::string_view kCompiled = "// compiled ";

std::string compiled_text(const CustomCuda& code) { return std::string(kCompiled) + custom_cuda_text(code) + "\n"; }

std::optional<CustomCuda> parse_compiled_text(const std::string& text) {
  if (!text.starts_with(kCompiled)) return std::nullopt;
  return parse_custom_cuda(text.substr(kCompiled.size()));
}

}  // namespace aotc
