#pragma once
// Where weights lie in the blob of an artifact.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/weights.h"

namespace aotc::plan {

/// The offset of a weight of that size after what ends at `end`.
uint64_t place_weight(uint64_t end, uint64_t bytes);

/// The weights of several plan sets in one blob: what is stored alike in several of them stands once. Of one set it is that set's own blob.
class SharedBlob {
 public:
  /// Moves the weights to their places in the blob. The constants must outlive it.
  void add(std::vector<Weight>& weights, const IdVec<ConstId, ConstData>& constants);
  uint64_t bytes() const { return end_; }
  /// Into all of `out`, which has that many bytes; gaps become zero.
  void write(std::span<std::byte> out, int threads) const;

 private:
  struct Member {
    std::vector<Weight> own;  ///< stored here first; offsets from `begin`
    uint64_t begin, bytes;
    const IdVec<ConstId, ConstData>* constants;
  };
  std::optional<uint64_t> find(const Weight& w, const ConstData& c) const;
  std::vector<Member> members_;
  uint64_t end_ = 0;
};

}  // namespace aotc::plan
