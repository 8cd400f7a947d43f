#include "findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "decompose/decompose.h"

namespace aotc::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct RuleText {
  const char *id, *text;
};
constexpr RuleText kRules[] = {
    {"unsupported-operator", "An operator, or this use of it, cannot be compiled."},
    {"unsupported-model", "The model as a whole, or a kernel of it, cannot be compiled for this target."},
    {"bad-input", "The archive or shapes.json is malformed or inconsistent."},
    {"sizes-of-archive", "An operator takes sizes from the archive's ranges: the artifact accepts fewer than the program."},
};

const char* level_text(Level l) { return l == Level::error ? "error" : "warning"; }

std::string message_with_notes(const Diagnostic& d) {
  std::string text = d.message();
  for (const std::string& n : d.notes()) text += "; " + n;
  return text;
}

/// "/home/me/net.py:12" as a path and a line, 0: there is none.
std::pair<std::string, int> path_and_line(const std::string& place) {
  const size_t colon = place.rfind(':');
  if (colon == std::string::npos || colon == 0) return {"", 0};
  const std::string number = place.substr(colon + 1);
  const bool digits =
      !number.empty() && number.size() < 9 && std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  return {place.substr(0, colon), digits ? std::stoi(number) : 0};
}

/// Bytes that a URI's path may not hold are %XX (RFC 3986).
std::string escaped(const std::string& path) {
  std::string out;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

json artifact_location(const std::string& path, const std::string& root) {
  const fs::path whole = (fs::path(root) / path).lexically_normal(), within = whole.lexically_relative(root);
  const bool below = !within.empty() && *within.begin() != "..";
  if (below) return {{"uri", escaped(within.generic_string())}, {"uriBaseId", "%SRCROOT%"}};
  return {{"uri", "file://" + escaped(whole.generic_string())}};
}

json location(const Finding& f, const std::string& root) {
  const auto [path, line] = path_and_line(f.place);
  json physical = {{"artifactLocation", artifact_location(path.empty() ? f.file : path, root)}};
  if (line > 0) physical["region"] = {{"startLine", line}};
  json out = {{"physicalLocation", physical}};
  if (!f.node.empty()) out["logicalLocations"] = json::array({{{"name", f.node}, {"kind", "element"}}});
  return out;
}

}  // namespace

std::vector<Finding> findings_of(const Diagnostic& failure, const std::string& file, const std::string& method, const std::string& target) {
  std::vector<Finding> out;
  Finding one;
  one.file = failure.loc().file.empty() ? file : failure.loc().file;
  one.method = method, one.target = target;
  if (const auto* operators = dynamic_cast<const decompose::UnsupportedOperators*>(&failure)) {
    for (const decompose::Unsupported& u : operators->all()) {
      Finding f = one;
      f.rule = "unsupported-operator", f.message = fmt::format("{}: {}", u.overload, u.why), f.hint = u.hint;
      f.node = u.node, f.op = u.overload, f.source = u.source, f.place = u.place;
      out.push_back(std::move(f));
    }
    return out;
  }
  one.rule = failure.code() == ExitCode::unsupported ? "unsupported-model" : "bad-input";
  one.message = message_with_notes(failure), one.node = failure.loc().node, one.source = failure.loc().source;
  if (!failure.loc().path.empty()) one.message = failure.loc().path + ": " + one.message;
  return {one};
}

std::vector<Finding> merged(const std::vector<Finding>& findings) {
  std::vector<Finding> out;
  for (const Finding& f : findings) {
    const auto same = std::find_if(out.begin(), out.end(), [&](const Finding& o) {
      return o.rule == f.rule && o.message == f.message && o.node == f.node && o.file == f.file && o.method == f.method &&
             o.place == f.place;
    });
    if (same == out.end())
      out.push_back(f);
    else if (same->target != f.target)
      same->target += ", " + f.target;
  }
  return out;
}

json findings_json(const std::vector<Finding>& findings) {
  json out = json::array();
  for (const Finding& f : findings) {
    json row = {{"rule", f.rule}, {"level", level_text(f.level)}, {"message", f.message},
                {"file", f.file}, {"method", f.method},           {"target", f.target}};
    for (const auto& [key, text] :
         {std::pair("node", &f.node), {"operator", &f.op}, {"source", &f.source}, {"place", &f.place}, {"hint", &f.hint}})
      if (!text->empty()) row[key] = *text;
    out.push_back(std::move(row));
  }
  return out;
}

std::string finding_text(const Finding& f) {
  std::string text = fmt::format("{}: {}: {}", f.place.empty() ? f.file : f.place, level_text(f.level), f.message);
  if (!f.node.empty()) text += fmt::format(" (node {})", f.node);
  text += fmt::format(" [{}]", f.rule);
  if (!f.source.empty()) text += "\n  from " + f.source;
  if (!f.hint.empty()) text += "\n  " + f.hint;
  return text + "\n";
}

json sarif(const std::vector<Finding>& findings, const Common& common, const std::string& root) {
  json rules = json::array(), results = json::array();
  for (const RuleText& r : kRules) rules.push_back({{"id", r.id}, {"shortDescription", {{"text", r.text}}}});
  for (const Finding& f : findings) {
    const auto rule = std::find_if(std::begin(kRules), std::end(kRules), [&](const RuleText& r) { return f.rule == r.id; });
    json result = {{"ruleId", f.rule}, {"ruleIndex", rule - std::begin(kRules)}, {"level", level_text(f.level)}};
    result["message"] = {{"text", f.hint.empty() ? f.message : f.message + "; " + f.hint}};
    result["locations"] = json::array({location(f, root)});
    // What stays the same when lines move: what code hosts know a finding again by.
    result["partialFingerprints"] = {{"aotc/v1", fmt::format("{}:{}:{}:{}", f.rule, f.method, f.node, f.op)}};
    result["properties"] = {{"method", f.method}, {"target", f.target}};
    results.push_back(std::move(result));
  }
  const json driver = {{"name", common.program}, {"version", AOTC_VERSION}, {"rules", rules}};
  const json run = {{"tool", {{"driver", driver}}},
                    {"columnKind", "utf16CodeUnits"},
                    {"originalUriBaseIds", {{"%SRCROOT%", {{"uri", "file://" + escaped(root) + "/"}}}}},
                    {"results", results}};
  return {{"$schema", "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"},
          {"version", "2.1.0"},
          {"runs", json::array({run})}};
}

}  // namespace aotc::cli
