#pragma once
// sort of aotc/detail/library_abi.h: long lines by the bytes of their values' keys, short ones by merging.
#include "library.h"

namespace {

constexpr int64_t kMergedLine = 64;  // shorter lines are merged: counting 256 digits a byte takes as long

/// Numbers that are ordered as the values are: NaN is the largest, and equal values (0 and -0, too) have equal keys.
inline uint32_t sort_key(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  bits = x == 0 ? 0 : bits;
  const uint32_t key = bits ^ (bits >> 31 ? UINT32_MAX : uint32_t{1} << 31);
  return x != x ? UINT32_MAX : key;
}
inline uint64_t sort_key(double x) {
  uint64_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  bits = x == 0 ? 0 : bits;
  const uint64_t key = bits ^ (bits >> 63 ? UINT64_MAX : uint64_t{1} << 63);
  return x != x ? UINT64_MAX : key;
}
inline uint32_t sort_key(bf16 x) { return sort_key(to_acc(x)); }
inline uint32_t sort_key(f16 x) { return sort_key(to_acc(x)); }
inline uint64_t sort_key(int64_t x) {
  return static_cast<uint64_t>(x) ^ uint64_t { 1 } << 63;
}
template <class T>
uint32_t sort_key(T x) {
  return static_cast<uint32_t>(static_cast<int32_t>(x)) ^ uint32_t { 1 } << 31;
}

/// Orders n > 0 items by the bytes of key(item), the lowest first; equal keys stay in their order. Where they lie in the end: `from` or
/// `to`.
template <int Bytes, class Item, class KeyOf>
Item* order_by_bytes(Item* from, Item* to, int64_t n, const KeyOf& key) {
  uint32_t counts[Bytes][256] = {};
  for (int64_t i = 0; i < n; ++i) {
    const auto k = key(from[i]);
    for (int b = 0; b < Bytes; ++b) ++counts[b][k >> (8 * b) & 255];
  }
  for (int b = 0; b < Bytes; ++b) {
    uint32_t* const next = counts[b];
    if (next[key(from[0]) >> (8 * b) & 255] == n) continue;
    uint32_t at = 0;
    for (int d = 0; d < 256; ++d) {
      const uint32_t count = next[d];
      next[d] = at;
      at += count;
    }
    for (int64_t i = 0; i < n; ++i) to[next[key(from[i]) >> (8 * b) & 255]++] = from[i];
    Item* const other = from;
    from = to, to = other;
  }
  return from;
}

/// A line and what its order is found in: the scratch of a call.
template <class T>
struct SortedLine {
  int64_t n;
  bool down;
  int64_t *ids, *other_ids;
  T *values, *other_values;

  SortedLine(void* scratch, int64_t length, bool descending)
      : n(length),
        down(descending),
        ids(static_cast<int64_t*>(scratch)),
        other_ids(ids + n),
        values(reinterpret_cast<T*>(other_ids + n)),
        other_values(values + n) {}

  /// values and ids in their order; they were in that of the line.
  void merge() {
    constexpr int64_t kRun = 16;
    for (int64_t s = 0; s < n; s += kRun)  // insertion sort of short runs
      for (int64_t i = s + 1; i < min_of(s + kRun, n); ++i) {
        const T v = values[i];
        const int64_t id = ids[i];
        int64_t j = i;
        for (; j > s && before(v, values[j - 1], down); --j) values[j] = values[j - 1], ids[j] = ids[j - 1];
        values[j] = v, ids[j] = id;
      }
    for (int64_t width = kRun; width < n; width *= 2) {
      for (int64_t s = 0; s < n; s += 2 * width) {
        const int64_t mid = min_of(s + width, n), stop = min_of(s + 2 * width, n);
        int64_t i = s, j = mid;
        for (int64_t o = s; o < stop; ++o) {
          const bool right = i == mid || (j < stop && before(values[j], values[i], down));
          const int64_t from = right ? j++ : i++;
          other_values[o] = values[from], other_ids[o] = ids[from];
        }
      }
      T* const v = values;
      values = other_values, other_values = v;
      int64_t* const id = ids;
      ids = other_ids, other_ids = id;
    }
  }

  /// ids in their order; values stay in that of the line. Keys of 32 bits travel with their places, larger ones are looked up.
  void order() {
    using Key = decltype(sort_key(T{}));
    const Key flip = down ? static_cast<Key>(~Key{0}) : Key{0};
    if constexpr (sizeof(Key) == 8) {
      int64_t* const ordered = order_by_bytes<8>(ids, other_ids, n, [&](int64_t id) { return sort_key(values[id]) ^ flip; });
      if (ordered != ids) other_ids = ids, ids = ordered;
    } else {
      uint64_t* const items = reinterpret_cast<uint64_t*>(ids);
      for (int64_t i = 0; i < n; ++i) items[i] = uint64_t{sort_key(values[i]) ^ flip} << 32 | static_cast<uint64_t>(i);
      uint64_t* const ordered = order_by_bytes<4>(items, reinterpret_cast<uint64_t*>(other_ids), n,
                                                  [](uint64_t item) { return static_cast<uint32_t>(item >> 32); });
      for (int64_t i = 0; i < n; ++i) ordered[i] &= UINT32_MAX;
      ids = reinterpret_cast<int64_t*>(ordered);
    }
  }
};

template <class T>
void sort_rows(const aotc_kargs* args, int64_t begin, int64_t end) {
  const auto* cfg = static_cast<const aotc_sort_config*>(args->config);
  const Rows rows{args->size[1], args->size[2]};
  const int64_t n = rows.n, inner = rows.inner;
  const T* x = static_cast<const T*>(args->ptr[0]);
  T* values = static_cast<T*>(args->ptr[1]);
  int64_t* indices = static_cast<int64_t*>(args->ptr[2]);
  const bool merged = n < kMergedLine || n > UINT32_MAX;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t at = rows.base(r, n);
    SortedLine<T> line(args->scratch, n, cfg->descending);
    for (int64_t i = 0; i < n; ++i) line.values[i] = x[at + i * inner], line.ids[i] = i;
    if (merged)
      line.merge();
    else
      line.order();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t id = line.ids[i];
      values[at + i * inner] = line.values[merged ? i : id], indices[at + i * inner] = id;
    }
  }
}

}  // namespace
