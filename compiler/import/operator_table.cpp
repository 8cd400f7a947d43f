#include "import/operator_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/dtype.h"

namespace aotc::import {
namespace {

using Json = nlohmann::json;

/// Exact, and of infinities and NaN, too, which JSON lacks.
Json real_json(double d) { return fmt::format("{:a}", d); }
double real_of(const Json& j) { return std::strtod(j.get_ref<const std::string&>().c_str(), nullptr); }

template <class Range, class F>
Json list_json(const Range& range, const F& element) {
  Json out = Json::array();
  for (const auto& e : range) out.push_back(element(e));
  return out;
}

/// Of a default; none where it has no form.
struct DefaultJson {
  using Out = std::optional<Json>;
  static Out tagged(const char* kind, Json value) { return Json{{kind, std::move(value)}}; }

  Out operator()(const NoneArg&) const { return Json(nullptr); }
  Out operator()(bool b) const { return Json(b); }
  Out operator()(const std::string& s) const { return Json(s); }
  Out operator()(const Expr& e) const { return e.is_const() ? Out(Json(*e.as_const())) : std::nullopt; }
  Out operator()(double d) const { return tagged("real", real_json(d)); }
  Out operator()(const std::complex<double>& c) const { return tagged("complex", Json::array({real_json(c.real()), real_json(c.imag())})); }
  Out operator()(DType d) const { return tagged("dtype", std::string(dtype_name(d))); }
  Out operator()(const DeviceArg& d) const { return tagged("device", d.text); }
  Out operator()(const LayoutArg& l) const { return tagged("layout", l.text); }
  Out operator()(const MemoryFormatArg& m) const { return tagged("memory_format", m.text); }
  Out operator()(const std::vector<Expr>& v) const {
    if (!std::all_of(v.begin(), v.end(), [](const Expr& e) { return e.is_const(); })) return std::nullopt;
    return tagged("ints", list_json(v, [](const Expr& e) { return Json(*e.as_const()); }));
  }
  Out operator()(const std::vector<double>& v) const { return tagged("reals", list_json(v, real_json)); }
  Out operator()(const std::vector<bool>& v) const {
    return tagged("bools", list_json(v, [](bool b) { return Json(b); }));
  }
  Out operator()(const std::vector<std::string>& v) const { return tagged("texts", v); }
  Out operator()(const TensorList& v) const { return v.empty() ? tagged("tensors", 0) : std::nullopt; }
  Out operator()(const OptTensorList& v) const { return v.empty() ? tagged("opt_tensors", 0) : std::nullopt; }
  template <class T>
  Out operator()(const T&) const {
    return std::nullopt;
  }
};

template <class T, class F>
Arg list_of(const Json& j, const F& element) {
  std::vector<T> out;
  for (const Json& e : j) out.push_back(element(e));
  return out;
}

/// How a tagged default is read.
struct DefaultKind {
  const char* name;
  Arg (*read)(const Json& value);
};
constexpr DefaultKind kDefaultKinds[] = {
    {"real", [](const Json& j) -> Arg { return real_of(j); }},
    {"complex", [](const Json& j) -> Arg { return std::complex<double>(real_of(j.at(0)), real_of(j.at(1))); }},
    {"dtype", [](const Json& j) -> Arg { return parse_dtype(j.get_ref<const std::string&>()).value(); }},
    {"device", [](const Json& j) -> Arg { return DeviceArg{j.get<std::string>()}; }},
    {"layout", [](const Json& j) -> Arg { return LayoutArg{j.get<std::string>()}; }},
    {"memory_format", [](const Json& j) -> Arg { return MemoryFormatArg{j.get<std::string>()}; }},
    {"ints", [](const Json& j) -> Arg { return list_of<Expr>(j, [](const Json& e) { return Expr(e.get<int64_t>()); }); }},
    {"reals", [](const Json& j) -> Arg { return list_of<double>(j, real_of); }},
    {"bools", [](const Json& j) -> Arg { return list_of<bool>(j, [](const Json& e) { return e.get<bool>(); }); }},
    {"texts", [](const Json& j) -> Arg { return j.get<std::vector<std::string>>(); }},
    {"tensors", [](const Json&) -> Arg { return TensorList{}; }},
    {"opt_tensors", [](const Json&) -> Arg { return OptTensorList{}; }},
};

/// Throws where the value has no such form.
Arg default_of(const Json& j) {
  if (j.is_null()) return NoneArg{};
  if (j.is_boolean()) return j.get<bool>();
  if (j.is_string()) return j.get<std::string>();
  if (j.is_number_integer()) return Expr(j.get<int64_t>());
  for (const DefaultKind& k : kDefaultKinds)
    if (j.is_object() && j.contains(k.name)) return k.read(j.at(k.name));
  throw std::invalid_argument("a default of no known kind");
}

ParamType type_named(const Json& j) {
  for (int t = 0; t <= static_cast<int>(ParamType::other); ++t)
    if (param_type_name(static_cast<ParamType>(t)) == j.get_ref<const std::string&>()) return static_cast<ParamType>(t);
  throw std::invalid_argument("no type of a parameter");
}

/// What is left out is false or empty.
OpParam param_of(const Json& j) {
  OpParam p{.name = j.at("name"), .type = type_named(j.at("type"))};
  p.optional = j.contains("optional"), p.written = j.contains("written");
  if (j.contains("alias")) p.alias = j.at("alias");
  if (j.contains("default")) p.fallback = default_of(j.at("default"));
  return p;
}

std::string_view key_of(std::string_view line) { return line.substr(0, line.find('\t')); }

/// A release's operators are the same whatever its local part ("+cpu"); others are told apart by theirs.
std::string header_line(const std::string& aotc_version, const std::string& torch_version) {
  const std::string release = torch_version.substr(0, torch_version.find('+'));
  const bool released = release.find_first_not_of("0123456789.") == release.npos;
  return fmt::format("# operators of LibTorch {} for aotc {}", released ? release : torch_version, aotc_version);
}

}  // namespace

std::optional<std::string> schema_text(const OpSchema& schema) {
  Json params = Json::array(), results = Json::array();
  for (const OpParam& p : schema.params) {
    Json j = {{"name", p.name}, {"type", param_type_name(p.type)}};
    if (p.optional) j["optional"] = true;
    if (p.written) j["written"] = true;
    if (!p.alias.empty()) j["alias"] = p.alias;
    if (p.fallback) {
      std::optional<Json> fallback = std::visit(DefaultJson{}, *p.fallback);
      if (!fallback) return std::nullopt;
      j["default"] = std::move(*fallback);
    }
    params.push_back(std::move(j));
  }
  for (const OpResult& r : schema.results) {
    Json j = {{"type", param_type_name(r.type)}};
    if (!r.alias.empty()) j["alias"] = r.alias;
    results.push_back(std::move(j));
  }
  return Json{{"params", std::move(params)}, {"results", std::move(results)}}.dump();
}

std::optional<OpSchema> parse_schema(std::string_view text) {
  try {
    const Json j = Json::parse(text);
    OpSchema out;
    for (const Json& p : j.at("params")) out.params.push_back(param_of(p));
    for (const Json& r : j.at("results")) out.results.push_back({type_named(r.at("type")), r.value("alias", "")});
    return out;
  } catch (const std::exception&) {  // a damaged file
    return std::nullopt;
  }
}

std::string operator_table_text(const std::string& aotc_version, const std::string& torch_version,
                                const std::vector<NamedSchema>& schemas) {
  std::vector<std::string> lines;
  for (const NamedSchema& s : schemas)
    if (const std::optional<std::string> text = schema_text(s.schema)) lines.push_back(s.target + '\t' + *text + '\n');
  std::sort(lines.begin(), lines.end(), [](const std::string& a, const std::string& b) { return key_of(a) < key_of(b); });
  std::string out = header_line(aotc_version, torch_version) + '\n';
  for (const std::string& line : lines) out += line;
  return out;
}

OperatorTable::OperatorTable(std::string text, const std::string& aotc_version, const std::string& torch_version) : text_(std::move(text)) {
  const std::string_view all = text_;
  size_t end = all.find('\n');
  if (torch_version.empty() || end == all.npos || all.substr(0, end) != header_line(aotc_version, torch_version)) return;
  for (size_t begin = end + 1; (end = all.find('\n', begin)) != all.npos; begin = end + 1) lines_.push_back(all.substr(begin, end - begin));
}

std::optional<OpSchema> OperatorTable::find(std::string_view target) const {
  const auto at =
      std::lower_bound(lines_.begin(), lines_.end(), target, [](std::string_view line, std::string_view t) { return key_of(line) < t; });
  if (at == lines_.end() || key_of(*at) != target) return std::nullopt;
  return parse_schema(at->substr(std::min(at->size(), target.size() + 1)));
}

}  // namespace aotc::import
