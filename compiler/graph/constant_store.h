#pragma once
// The data of constants beside the texts of graphs: a folder with a file for each, named by the hash of its bytes, to which a text refers
// as `data 0123456789abcdef`.
#include <map>
#include <string>

#include "graph/graph.h"

namespace aotc {

/// False for a constant of a text that does not carry its data: passes leave it as it is.
inline bool has_data(const ConstData& c) { return c.bytes == 0 || c.data != nullptr; }

class ConstantStore {
 public:
  /// Texts and this folder lie in one folder.
  static constexpr const char* kFolder = "constants";

  /// An empty folder name: keys only, nothing is written or found.
  explicit ConstantStore(std::string folder) : folder_(std::move(folder)) {}
  /// The key of the constant's data, which are written unless they are there. Throws Diagnostic (io).
  std::string put(const ConstData& c);
  /// Gives the constant the data of this key. False when the folder does not have them. Throws Diagnostic when they are not of this key or
  /// of this size.
  bool get(const std::string& key, ConstData& c) const;

 private:
  struct Known {
    std::string key;
    std::shared_ptr<const void> keepalive;  ///< while it lives no other data take its place in memory
  };
  std::string folder_;
  std::map<std::pair<const std::byte*, size_t>, Known> known_;
};

}  // namespace aotc
