#pragma once
// Inputs and expected outputs in folders of .npy files: what a machine without LibTorch and without the archive runs an artifact on.
#include <string>
#include <vector>

#include "artifact.h"
#include "base/file.h"
#include "cli.h"
#include "judge.h"

namespace aotc::cli {

struct Stored {
  std::string inputs;    ///< NAME.npy an input
  std::string expected;  ///< NAME.npy an output; with NAME.eager.npy beside it the former is the truth of fp64, and
                         ///< references.json (references_file.h) says what is allowed
  Allowed allowed;
  int device = AOTC_DEVICE_DEFAULT, threads = 1;
  bool check_weights = false;
  uint64_t weights_budget = 0;
  std::string method;  ///< empty: the only one
};
/// --inputs, --device, --method and, `compares`, --expected and what Allowed has.
void add_stored(CLI::App& app, Stored& stored, bool compares, const std::string& more_of_inputs = "");

/// The file of a tensor of that name in a folder. kind: "" or ".eager".
std::string stored_file(const std::string& folder, const std::string& name, const char* kind = "");
/// What lies in its folders, for require_apart.
std::vector<NamedFile> stored_files(const Stored& stored);
/// An input's values. Throws Diagnostic: no such file, another type than the input's.
HostTensor read_input(const std::string& file, const Io& io);
/// Of all inputs.
std::vector<HostTensor> stored_inputs(const std::string& folder, const Artifact& artifact);

/// Runs the artifact on the stored inputs, its tensors on the device, and compares. Throws Diagnostic (bad_input) where the expected
/// outputs are those of another archive.
Verdict verify_stored(const std::string& path, const Stored& stored);

}  // namespace aotc::cli
