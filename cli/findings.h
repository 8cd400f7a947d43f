#pragma once
// What stands in the way of compiling a model, or may surprise its user, as data: for JSON and SARIF.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "cli.h"

namespace aotc::cli {

enum class Level { error, warning };

struct Finding {
  std::string rule;  ///< a row of rules()
  Level level = Level::error;
  std::string message;
  std::string node, op;       ///< of the exported graph, and its operator; or empty
  std::string source, place;  ///< "net.py:12 in forward: ..", "/home/me/net.py:12"; or empty
  std::string hint;           ///< what to do; or empty
  std::string file;           ///< archive or shapes.json
  std::string method, target;
};

/// What a failure is made of: each unsupported operator of it, each note of a target without kernels, else itself.
std::vector<Finding> findings_of(const Diagnostic& failure, const std::string& file, const std::string& method, const std::string& target);

/// Without what two targets say alike: the later one's target is added to the earlier one's.
std::vector<Finding> merged(const std::vector<Finding>& findings);

nlohmann::json findings_json(const std::vector<Finding>& findings);
std::string finding_text(const Finding& finding);

/// A log of SARIF 2.1.0 (OASIS): a result a finding. Files under `root` (the working folder) are named from there, as code hosts want it,
/// others by file: URIs; a finding without a line in the user's code is at the archive.
nlohmann::json sarif(const std::vector<Finding>& findings, const Common& common, const std::string& root);

}  // namespace aotc::cli
