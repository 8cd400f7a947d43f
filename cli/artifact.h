#pragma once
// A model.so as the command line uses it: opened through its C ABI, run on host tensors.
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "aotc/loader.h"
#include "graph/interp.h"
#include "options.h"
#include "search/device.h"

namespace aotc::cli {

struct IoDim {
  int64_t value, min, max;
  std::string symbol;
};  ///< value -1 when it varies
struct Io {
  std::string name;
  DType dtype;
  std::vector<IoDim> dims;
  int32_t alias_input = -1;
  std::vector<std::string>
      found;  ///< outputs: of each dim whose size a run finds in data what it is, "" of each other; empty: there is none
};

/// --check-weights, of the verbs that load an artifact.
void add_check_weights(CLI::App& app, bool& check_weights);
/// --weights, of the verbs that run an artifact.
void add_weights_file(CLI::App& app, std::string& weights);
/// --weights-budget, of the verbs that run an artifact. 0: not given.
void add_weights_budget(CLI::App& app, uint64_t& bytes);
/// --method, of the verbs that look at one method of an artifact.
void add_method(CLI::App& app, std::string& method);

/// One line about weights of few bits, from `stored_weights` of a report or of an artifact.
std::string stored_weights_text(const nlohmann::json& stored);
/// The same of `kv_cache`.
std::string stored_caches_text(const nlohmann::json& stored);

/// Whether the file is a shared object (by its first bytes). Throws Diagnostic where there is no regular file.
bool is_shared_object(const std::string& path);

/// The file alone: what it says of itself, on any machine. Nothing of it is loaded, no code of it runs. Sizes, code and tables are checked;
/// with check_weights every byte of it and of its weights file. Throws Diagnostic.
class ArtifactFile {
 public:
  explicit ArtifactFile(const std::string& path, bool check_weights = false);
  ArtifactFile(const ArtifactFile&) = delete;
  ArtifactFile& operator=(const ArtifactFile&) = delete;

  /// Of the artifact or, once one was chosen, of the method.
  const nlohmann::json& metadata() const;
  bool has_metadata() const { return metadata_ != nullptr; }  ///< false: of an earlier aotc, whose file does not say where it is
  /// Names of the methods; of an artifact older than methods "forward".
  std::vector<std::string> methods() const;
  /// From now on metadata() is the method's. Empty: the only one. Throws Diagnostic (usage) that lists them.
  void choose_method(const std::string& name);
  const std::string& method() const { return method_; }  ///< the one that was chosen
  int32_t method_index() const { return method_index_; }
  const std::string& path() const { return path_; }
  const aotc_seal& seal() const { return seal_; }
  double check_seconds() const { return check_seconds_; }  ///< that check_weights took

 protected:
  void set_metadata(const std::string& text);

 private:
  void check_weights_file() const;
  std::string path_;
  aotc_seal seal_ = {};
  double check_seconds_ = 0;
  std::shared_ptr<const nlohmann::json> metadata_;  ///< null: the file does not say where it is
  std::string method_;
  int32_t method_index_ = 0;
};

/// The shared object, loaded once its file was checked; with or without the device that it runs on. Throws Diagnostic.
class LoadedArtifact : public ArtifactFile {
 public:
  explicit LoadedArtifact(const std::string& path, bool check_weights = false);
  ~LoadedArtifact() { aotc_library_close(&library_); }

  const aotc_api& api() const { return *library_.api; }
  /// Throws Diagnostic when status is not AOTC_STATUS_OK: "what: message".
  void check(aotc_status status, const char* what) const;

 private:
  aotc_library library_ = {};
};

/// The shared object, its model and one of its methods. Throws Diagnostic with the artifact's own message. Contexts must go first.
class Artifact : public LoadedArtifact {
 public:
  /// method: as choose_method. device: AOTC_DEVICE_DEFAULT, AOTC_DEVICE_HOST or a GPU's number. flags: AOTC_MODEL_*. weights: a file of
  /// weights for the artifact; empty: its own. weights_budget: as aotc_model_options.
  explicit Artifact(const std::string& path, const std::string& method = {}, bool check_weights = false,
                    int32_t device = AOTC_DEVICE_DEFAULT, uint32_t flags = 0, const std::string& weights = {}, uint64_t weights_budget = 0);
  ~Artifact();

  aotc_model* model() const { return model_; }
  aotc_model_info info() const;
  const std::vector<Io>& inputs() const { return inputs_; }
  const std::vector<Io>& outputs() const { return outputs_; }

 private:
  std::vector<Io> describe(int32_t kind) const;
  aotc_model* model_ = nullptr;
  std::vector<Io> inputs_, outputs_;
};

struct Refusal {
  aotc_status status;
  std::string why;
};

/// One context with outputs of its own, which runs the artifact's method. Bind inputs once, run many times. With a device its tensors lie
/// there and runs are queued on its stream.
class Session {
 public:
  /// flags: AOTC_CONTEXT_*
  Session(const Artifact& artifact, int threads, uint32_t flags = 0, search::Device* device = nullptr);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Sizes the outputs for these inputs (borrowed until the next bind).
  void bind(const std::vector<HostTensor>& inputs);
  /// Whether the model takes inputs of these shapes; their data are not looked at.
  bool accepts(const std::vector<HostTensor>& inputs) const;
  void run();  ///< throws Diagnostic when the artifact refuses
  /// As run and wait; the artifact's status and message where the model refuses these inputs: an assertion of its own fails, or an index is
  /// out of range.
  std::optional<Refusal> run_unless_refused();
  /// Binds these inputs and runs: the artifact's status, whichever it is, and its message unless that is AOTC_STATUS_OK.
  Refusal attempt(const std::vector<HostTensor>& inputs);
  void wait();  ///< for what was queued; throws as run
  /// Of the sizes that the latest run found.
  const std::vector<HostTensor>& outputs();
  /// The current content of every state of the method, in its metadata's order.
  std::vector<HostTensor> states() const;
  void reset_states();
  /// By name. Throws Diagnostic where the artifact has none of that name, type and shape.
  void write_states(const std::map<std::string, HostTensor>& states);
  aotc_context_info info() const;
  /// Steps of the latest run; needs AOTC_CONTEXT_PROFILE.
  std::vector<aotc_profile_step> profile() const;

 private:
  aotc_status output_bounds(const std::vector<aotc_tensor>& in, const std::vector<int64_t*>& shapes) const;
  aotc_status run_method();
  aotc_status size_outputs();  ///< for in_
  void take_outputs();
  const Artifact& artifact_;
  search::Device* device_;
  aotc_context* context_ = nullptr;
  std::vector<aotc_tensor> in_, out_;
  std::vector<HostTensor> outputs_;  ///< as large as they can be
  std::vector<HostTensor> found_;    ///< of the latest run, where it finds sizes
};

}  // namespace aotc::cli
