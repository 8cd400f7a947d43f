#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "about.h"
#include "ci_verbs.h"
#include "findings.h"
#include "front_options.h"
#include "text_file.h"

namespace aotc::cli {
namespace {

/// What goes on to be found after a failure of this kind; other failures are of the command line or the machine.
bool is_finding(const Diagnostic& d) { return d.code() == ExitCode::unsupported || d.code() == ExitCode::bad_input; }

struct Checked {
  std::vector<Finding> findings;
  int code = 0;
  std::vector<std::string> targets;

  void failed(const Diagnostic& d, const std::string& file, const std::string& method, const std::string& target) {
    if (!is_finding(d)) throw d;
    for (Finding& f : findings_of(d, file, method, target)) findings.push_back(std::move(f));
    code = std::max(code, static_cast<int>(d.code()));
  }
};

/// Everything before code is emitted, for one method and target.
void check_part(const pipeline::MethodOptions& m, const pipeline::FrontOptions& options, Checked& out) {
  const std::string target = options.target.str();
  if (std::find(out.targets.begin(), out.targets.end(), target) == out.targets.end()) out.targets.push_back(target);
  try {
    const pipeline::Front front = pipeline::run_front(options, {});
    for (const std::string& line : front.narrowed) {
      Finding f;
      f.rule = "sizes-of-archive", f.level = Level::warning, f.message = line, f.file = options.model, f.method = m.name, f.target = target;
      out.findings.push_back(std::move(f));
    }
    plan::Decisions decisions;
    pipeline::make_plans(front, options.target, &decisions);
  } catch (const Diagnostic& d) { out.failed(d, options.model, m.name, target); }
}

}  // namespace

Run add_check(CLI::App& app) {
  auto o = std::make_shared<FrontArgs>();
  auto path = std::make_shared<std::string>();
  o->add_to(app, true);
  add_option(app, "--sarif", *path, "write the findings as SARIF 2.1.0, which code hosts show at the lines of the model's code");
  return [o, path](const Common& common) {
    Checked checked;
    try {
      for (const pipeline::MethodOptions& m : o->methods())
        for (const pipeline::FrontOptions& part : pipeline::parts_of(m.front)) check_part(m, part, checked);
    } catch (const Diagnostic& d) { checked.failed(d, o->model(), "", ""); }  // of an archive that cannot be opened
    checked.findings = merged(checked.findings);
    if (!path->empty()) write_text_file(*path, sarif(checked.findings, common, std::filesystem::current_path().string()).dump(1) + "\n");
    if (common.json) {
      print_result({{"compiles", checked.code == 0}, {"targets", checked.targets}, {"findings", findings_json(checked.findings)}},
                   about(common));
    } else if (!common.quiet) {
      for (const Finding& f : checked.findings) fmt::print("{}", finding_text(f));
      if (checked.code == 0) fmt::print("{} can be compiled for {}\n", fmt::join(o->models, ", "), fmt::join(checked.targets, ", "));
    }
    return checked.code;
  };
}

}  // namespace aotc::cli
