#pragma once
// Where weights lie in the blob of an artifact.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/weights.h"

namespace aotc::plan {

/// The offset of a weight of that size after what ends at `end`.
uint64_t place_weight(uint64_t end, uint64_t bytes);

bool same_content(const ConstData& a, const ConstData& b);
uint64_t fingerprint(const ConstData& c);  ///< of some of the bytes

/// What can be asked by content, whichever program it is of: values of type T. The constants must outlive it.
template <class T>
class ByContent {
 public:
  void add(const ConstData& c, T value) { entries_[key(c)].push_back({&c, std::move(value)}); }
  /// Those of equal bytes, in the order of add. Of an exchangeable constant: of exchangeable ones, those of its name where there are any;
  /// that others are equal to it may be so with these values alone.
  std::vector<const T*> of(const ConstData& c) const {
    std::vector<const Entry*> equal;
    const auto it = entries_.find(key(c));
    const ConstData* compared = nullptr;  // and found equal
    bool named = false;
    for (size_t i = 0; it != entries_.end() && i < it->second.size(); ++i) {
      const Entry& e = it->second[i];
      if (e.data->exchangeable != c.exchangeable || (e.data != compared && !same_content(*e.data, c))) continue;
      compared = e.data;
      equal.push_back(&e);
      named = named || e.data->name == c.name;
    }
    std::vector<const T*> out;
    for (const Entry* e : equal)
      if (!c.exchangeable || !named || e->data->name == c.name) out.push_back(&e->value);
    return out;
  }

 private:
  struct Entry {
    const ConstData* data;
    T value;
  };
  static std::pair<size_t, uint64_t> key(const ConstData& c) { return {c.bytes, fingerprint(c)}; }
  std::map<std::pair<size_t, uint64_t>, std::vector<Entry>> entries_;
};

/// The weights of several plan sets in one blob: what is stored alike in several of them stands once, but no two exchangeable constants of
/// one set. Of one set it is that set's own blob.
class SharedBlob {
 public:
  /// What a plan set added.
  struct Added {
    uint64_t bytes = 0;  ///< of weights that were not there
    struct Layout {
      std::string name;
      uint64_t bytes;
    };
    std::vector<Layout> second;  ///< of these, the weights that an earlier set of the group has in another form
  };
  /// Moves the weights to their places in the blob. The constants must outlive it. group: of the sets for one kind of machine.
  Added add(std::vector<Weight>& weights, const IdVec<ConstId, ConstData>& constants, size_t group = 0);
  uint64_t bytes() const { return end_; }
  /// Into all of `out`, which has that many bytes; gaps become zero.
  void write(std::span<std::byte> out, int threads) const;

 private:
  struct Member {
    std::vector<Weight> own;  ///< stored here first; offsets from `begin`
    uint64_t begin, bytes;
    const IdVec<ConstId, ConstData>* constants;
  };
  struct Place {
    std::optional<forms::WeightForm> panels;
    uint64_t offset, bytes;
    size_t set, group;  ///< which call of add, and its group
  };
  std::vector<Member> members_;
  ByContent<Place> places_;
  uint64_t end_ = 0;
  size_t sets_ = 0;
};

}  // namespace aotc::plan
