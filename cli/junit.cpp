#include "junit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "about.h"
#include "base/file.h"
#include "text_file.h"

namespace aotc::cli {
namespace {

/// `body`: the testcase elements.
std::string report_text(const std::string& artifact, const std::string& id, size_t tests, size_t failures, size_t errors, double seconds,
                        const std::string& body) {
  const std::string counts = fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.3f}\"", tests, failures, errors, seconds);
  const auto property = [](const char* name, const std::string& value) {
    return value.empty() ? "" : fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", name, xml_escaped(value));
  };
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"aotc verify\" {}>\n  <testsuite name=\"{}\" {} skipped=\"0\">\n    "
      "<properties>\n{}{}{}    </properties>\n{}  </testsuite>\n</testsuites>\n",
      counts, xml_escaped(artifact), counts, property("artifact", artifact), property("artifact_id", id),
      property("aotc_version", AOTC_VERSION), body);
}

/// "forward" and the like is the class, the output with its sizes the test.
std::string case_begin(const Row& r, const std::string& artifact) {
  const std::string stem = std::filesystem::path(artifact).stem().string();
  return fmt::format("    <testcase classname=\"{}\" name=\"{}\"", xml_escaped(r.method.empty() ? stem : stem + "." + r.method),
                     xml_escaped(fmt::format("{} [{}]", r.name, r.sizes)));
}

void write_rows(const std::string& path, const std::string& artifact, const std::string& id, const std::vector<Row>& rows, double seconds) {
  std::string body;
  for (const Row& r : rows) {
    const std::string text = xml_escaped(row_text(r));
    body += case_begin(r, artifact);
    if (r.pass)
      body += fmt::format(">\n      <system-out>{}</system-out>\n    </testcase>\n", text);
    else
      body += fmt::format(">\n      <failure type=\"aotc.verify\" message=\"{}\">{}</failure>\n    </testcase>\n",
                          xml_escaped(r.why.empty() ? fmt::format("error {:.3g}, limit {:.3g}", r.err_aotc, r.limit) : r.why), text);
  }
  const auto failures = static_cast<size_t>(std::count_if(rows.begin(), rows.end(), [](const Row& r) { return !r.pass; }));
  write_text_file(path, report_text(artifact, id, rows.size(), failures, 0, seconds, body));
}

void write_error(const std::string& path, const std::string& artifact, const std::string& what) {
  write_text_file(path, report_text(artifact, "", 1, 0, 1, 0,
                                    fmt::format("    <testcase classname=\"{}\" name=\"verify\">\n      <error type=\"aotc.verify\" "
                                                "message=\"{}\">{}</error>\n    </testcase>\n",
                                                xml_escaped(std::filesystem::path(artifact).stem().string()),
                                                xml_escaped(what.substr(0, what.find('\n'))), xml_escaped(what))));
}

}  // namespace

void add_junit(CLI::App& app, std::string& path) {
  add_option(app, "--junit", path, "also write the result as a JUnit report (FILE.xml), with a test per output and set of sizes");
}

int with_junit(const std::string& path, const std::string& artifact, const Common& common,
               const std::function<Verdict(const std::string&, const Common&)>& verify) {
  require_apart({{"--junit", path}}, {{"artifact", artifact}});
  if (!path.empty()) require_place_for_file(path);
  const auto start = std::chrono::steady_clock::now();
  Verdict v;
  try {
    v = verify(artifact, common);
  } catch (const std::exception& e) {
    if (!path.empty()) write_error(path, artifact, e.what());
    throw;
  }
  const ArtifactFile file(artifact);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!path.empty()) write_rows(path, artifact, artifact_id(file), v.rows, seconds);
  return report(v, common, about(common, file));
}

}  // namespace aotc::cli
