#pragma once
// Large arrays that passes compute, as the data of constants.
#include <cstddef>
#include <memory>

namespace aotc {

/// Zeros, aligned to 64. Many are of a file without a name in the folder for temporary files, which the system may write there and take out
/// of memory, so that a build needs no memory for all of its weights at once; where that folder has no room, of the process's own memory.
std::shared_ptr<std::byte> large_memory(size_t bytes);

/// A fixed number of elements of a trivial type, zeros at first, shared by its copies. Not synchronised.
template <class T>
class BigArray {
 public:
  BigArray() = default;
  explicit BigArray(size_t n) : memory_(large_memory(n * sizeof(T))), size_(n) {}
  T* data() const { return reinterpret_cast<T*>(memory_.get()); }
  T* begin() const { return data(); }
  T* end() const { return data() + size_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) const { return data()[i]; }
  const std::shared_ptr<std::byte>& memory() const { return memory_; }

 private:
  std::shared_ptr<std::byte> memory_;
  size_t size_ = 0;
};

}  // namespace aotc
