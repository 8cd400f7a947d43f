#pragma once
// A run that an artifact wrote (AOTC_CAPTURE, ../runtime/README.md): the folder with run.json.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "graph/interp.h"

namespace aotc::cli {

struct Captured {
  std::string folder, artifact, method;
  std::string id;                     ///< of the artifact; empty: a model that was linked into a program
  std::optional<std::string> status;  ///< its name; nullopt: the run did not end
  std::string message;
  int32_t device = -1;
  int threads = 1;
  uint32_t flags = 0;            ///< AOTC_CONTEXT_*
  uint64_t weights_version = 0;  ///< above 0: the weights had been swapped
  std::vector<HostTensor> inputs;
  std::map<std::string, HostTensor> states;   ///< before the run
  std::map<std::string, HostTensor> outputs;  ///< of a run that succeeded
};

/// Whether the folder is a captured run's.
bool is_captured(const std::string& folder);
/// Throws Diagnostic where it is not what an artifact writes.
Captured read_captured(const std::string& folder);
/// All files of it, that no command writes over them. option: what names the folder.
std::vector<NamedFile> captured_files(const std::string& option, const std::string& folder);

}  // namespace aotc::cli
