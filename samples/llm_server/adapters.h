#pragma once
// LoRA adapters (../llm/adapters.py): what PEFT saved, in rows of the artifact's states. Each has a name that requests call it by.
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace llm {

/// A linear layer that the artifact has adapters for; the names of its states are model.PATH.lora_a and model.PATH.lora_b.
struct AdaptedLayer {
  std::string path;
  int64_t in = 0, out = 0, rank = 0;
};

/// One row of a state, in float32.
struct AdapterRow {
  std::string state;
  std::vector<float> values;
};

/// Reads adapter_config.json and adapter_model.safetensors of a folder. A row for both states of every layer, zeros where the adapter
/// leaves the layer alone: a [in, rank], b [rank, out], which holds the scale. Throws std::runtime_error that names the file and what does
/// not fit.
std::vector<AdapterRow> read_adapter(const std::string& folder, const std::vector<AdaptedLayer>& layers);

/// A row that holds an adapter for as long as a request may use it.
struct Adapter {
  std::string name;
  int64_t row = 0;      ///< of the states; 0: none
  uint64_t serial = 0;  ///< no two of a process have the same; what a slot's cache holds depends on it
};
using AdapterPtr = std::shared_ptr<const Adapter>;

/// Names and rows. Any thread.
class Adapters {
 public:
  /// Writes rows of the states; throws std::runtime_error. Called by the thread that loads.
  using Write = std::function<void(int64_t row, const std::vector<AdapterRow>&)>;
  Adapters(int64_t count, std::vector<AdaptedLayer> layers, Write write);

  /// Throws std::runtime_error: the name is taken, no row is free, or the folder does not fit.
  void load(const std::string& name, const std::string& folder);
  /// False: there is none. Requests that have it keep it; its row is free when the last has ended.
  bool unload(const std::string& name);
  AdapterPtr find(const std::string& name) const;  ///< or null
  std::vector<std::string> names() const;
  int64_t count() const { return count_; }

 private:
  struct Rows;
  const int64_t count_;
  const std::vector<AdaptedLayer> layers_;
  const Write write_;
  std::shared_ptr<Rows> rows_;  ///< outlives this where requests do
  mutable std::mutex mutex_;
  std::map<std::string, AdapterPtr> by_name_;
};

}  // namespace llm
