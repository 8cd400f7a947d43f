#pragma once
// Maps over rows (torch.vmap) as LibTorch carries them out, for the reference runner. For files that see LibTorch.
#include <ATen/core/ivalue.h>

#include <string_view>
#include <vector>

namespace aotc::import {

/// The nodes by which an archive tells that a map begins and ends, and which of its tensors are rows: their arguments to their results.
struct MapNode {
  std::string_view target;
  std::vector<c10::IValue> (*run)(const std::vector<c10::IValue>&);
};
/// Null: another node.
const MapNode* find_map_node(std::string_view target);

/// Ends the maps that were begun while it lives and that a fault left open.
class OpenMaps {
 public:
  OpenMaps();
  ~OpenMaps();
  OpenMaps(const OpenMaps&) = delete;
  OpenMaps& operator=(const OpenMaps&) = delete;

 private:
  size_t before_;
};

}  // namespace aotc::import
