#pragma once
// Strong ids and the vector they index: mixing two id types does not compile.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace aotc {

enum class SymId : uint32_t {};    ///< a symbol of a SymTable (shape, loop or loaded-index symbol)
enum class ValueId : uint32_t {};  ///< an SSA value of a Graph
enum class NodeId : uint32_t {};   ///< a node of a Graph
enum class ConstId : uint32_t {};  ///< constant data (weight, buffer, literal) of a Graph
enum class StateId : uint32_t {};  ///< a mutable buffer that outlives a run (KV cache)

/// The "no such thing" value of any id type.
template <class Id>
inline constexpr Id kNone = static_cast<Id>(std::numeric_limits<uint32_t>::max());

template <class Id>
constexpr uint32_t idx(Id id) {
  return static_cast<uint32_t>(id);
}

/// std::vector indexed by a strong id.
template <class Id, class T>
class IdVec {
 public:
  Id push(T value) {
    items_.push_back(std::move(value));
    return static_cast<Id>(items_.size() - 1);
  }
  T& operator[](Id id) { return items_.at(idx(id)); }
  const T& operator[](Id id) const { return items_.at(idx(id)); }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  bool contains(Id id) const { return idx(id) < items_.size(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  std::vector<T>& raw() { return items_; }
  const std::vector<T>& raw() const { return items_; }

 private:
  std::vector<T> items_;
};

}  // namespace aotc
