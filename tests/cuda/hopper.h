// kernels/cuda/hopper_ptx.cuh as host C++, for emulator.h, which includes it. A copy is made when its barrier is waited for, and its place
// is full of NaNs until then; a product is computed when it is issued.
#define AOTC_HOPPER_PTX  // instead of kernels/cuda/hopper_ptx.cuh
#include "cuda/tensor_map.h"

struct alignas(64) TensorMap {
  u64 opaque[16];
};

namespace emulator {

inline u32 swizzled(u32 at, int swizzle) {
  return swizzle == 3 ? at ^ (at >> 3 & 0x70) : swizzle == 2 ? at ^ (at >> 3 & 0x30) : swizzle == 1 ? at ^ (at >> 3 & 0x10) : at;
}

inline void check_phase(CountingBarrier& b) {
  if (b.pending > 0 || b.bytes != 0) return;
  b.pending = b.arrivals;
  b.phase ^= 1;
  ++events;
}
inline CountingBarrier& barrier_at(Block& block, u32 at) {
  const auto it = block.barriers.find(at);
  if (it == block.barriers.end()) fault("a barrier that was not made");
  return it->second;
}
inline CountingBarrier& barrier_at(u32 at) { return barrier_at(*now->block, at); }

/// Runs of elements that a copy brings: to where, from where (null: zeros).
inline void queue_copy(u32 to, const EmulatedMap& m, u32 barrier, std::vector<const char*> elements, int inner) {
  if (to % 128 || (m.swizzle == 3 && inner * m.bytes > 128)) fault("a bulk copy to a place that is not aligned, or of too long rows");
  CountingBarrier& b = barrier_at(barrier);
  const size_t bytes = elements.size() * m.bytes;
  if (to + bytes > now->block->shared_bytes) fault("a bulk copy beyond shared memory");
  std::memset(now->block->shared + to, 0xff, bytes);
  b.copies.push_back({to, m.swizzle, m.bytes, std::move(elements)});
}
inline void make_copies(Block& block, CountingBarrier& b) {
  for (const BulkCopy& c : b.copies) {
    for (size_t i = 0; i < c.elements.size(); ++i) {
      char* const at = block.shared + swizzled(c.to + static_cast<u32>(i) * c.element_bytes, c.swizzle);
      if (c.elements[i])
        std::memcpy(at, c.elements[i], c.element_bytes);
      else
        std::memset(at, 0, c.element_bytes);
    }
    b.bytes -= static_cast<i64>(c.elements.size()) * c.element_bytes;
  }
  const bool any = !b.copies.empty();
  b.copies.clear();
  if (!any) return;
  ++events;
  check_phase(b);
}

inline void box(u32 to, const TensorMap& map, u32 barrier, std::initializer_list<int> first) {
  EmulatedMap m;
  std::memcpy(&m, &map, sizeof m);
  if (m.windows || m.rank != first.size()) fault("a copy of a box by a map of another kind");
  int at[5] = {};
  std::vector<const char*> elements;
  for (bool more = true; more;) {
    const char* from = reinterpret_cast<const char*>(m.data);
    for (int d = 0; d < m.rank; ++d) {
      const i64 x = first.begin()[d] + at[d];
      if (x < 0 || x >= m.dims[d]) from = nullptr;
      if (from) from += x * (d ? static_cast<i64>(m.strides[d - 1]) : m.bytes);
    }
    elements.push_back(from);
    more = false;
    for (int d = 0; d < m.rank && !more; ++d) {
      if (++at[d] < m.box[d])
        more = true;
      else
        at[d] = 0;
    }
  }
  queue_copy(to, m, barrier, std::move(elements), m.box[0]);
}

inline void windows(u32 to, const TensorMap& map, u32 barrier, int c, std::initializer_list<int> first, int n,
                    std::initializer_list<u16> tap) {
  EmulatedMap m;
  std::memcpy(&m, &map, sizeof m);
  const int rank = m.rank - 2;
  if (!m.windows || rank != static_cast<int>(first.size())) fault("a copy of windows by a map of another kind");
  int at[3] = {};
  for (int d = 0; d < rank; ++d) at[d] = first.begin()[d];
  std::vector<const char*> elements;
  for (int i = 0; i < m.box[1]; ++i) {
    const char* from = n < static_cast<int>(m.dims[rank + 1]) ? reinterpret_cast<const char*>(m.data) + n * m.strides[rank] : nullptr;
    for (int d = 0; d < rank; ++d) {
      const i64 x = at[d] + tap.begin()[d];
      if (x < 0 || x >= m.dims[d + 1]) from = nullptr;
      if (from) from += x * static_cast<i64>(m.strides[d]);
    }
    for (int e = 0; e < m.box[0]; ++e) elements.push_back(from && c + e < static_cast<int>(m.dims[0]) ? from + (c + e) * m.bytes : nullptr);
    int d = 0;
    for (; d < rank; ++d) {
      if ((at[d] += m.steps[d]) < static_cast<int>(m.dims[d + 1]) + m.upper[d]) break;
      at[d] = m.lower[d];
    }
    n += d == rank;
  }
  queue_copy(to, m, barrier, std::move(elements), m.box[0]);
}

/// A number of an operand in shared memory: line: of the operand, k: of the instruction.
template <class T>
float operand_element(u64 operand, bool across, int line, int k) {
  const u32 start = static_cast<u32>(operand & 0x3fff) << 4, leading = static_cast<u32>(operand >> 16 & 0x3fff) << 4,
            stride = static_cast<u32>(operand >> 32 & 0x3fff) << 4;
  const int mode = static_cast<int>(operand >> 62);
  const u32 byte = static_cast<u32>(k) * sizeof(T), row = static_cast<u32>(line);
  u32 at;
  if (across) {
    if (mode != 1) fault("an operand across k without a swizzle of 128 bytes");
    at = start + row / 64 * leading + static_cast<u32>(k) / 8 * stride + static_cast<u32>(k) % 8 * 128 +
         row % 64 * static_cast<u32>(sizeof(T));
  } else if (mode == 0) {
    at = start + row / 8 * stride + byte / 16 * leading + row % 8 * 16 + byte % 16;
  } else {
    at = start + row / 8 * stride + row % 8 * (mode == 1 ? 128u : mode == 2 ? 64u : 32u) + byte;
  }
  at = swizzled(at, mode == 0 ? 0 : 4 - mode);
  if (at + sizeof(T) > now->block->shared_bytes) fault("an operand beyond shared memory");
  T v;
  std::memcpy(&v, now->block->shared + at, sizeof v);
  if constexpr (sizeof(T) == 4)
    return truncated(bits_as<u32>(v));
  else
    return static_cast<float>(v);
}

template <class T, int N, class Left>
void multiply(float (&d)[N / 2], u64 right, bool right_across, int add, Left left) {
  constexpr int kDeep = 32 / sizeof(T);
  const int quad = now->lane % 4;
  float a[2][kDeep];
  for (int h = 0; h < 2; ++h)
    for (int k = 0; k < kDeep; ++k) a[h][k] = left(h, k);
  for (int j = 0; j < N / 8; ++j)
    for (int e = 0; e < 2; ++e) {
      double sum[2] = {add ? d[j * 4 + e] : 0.0, add ? d[j * 4 + 2 + e] : 0.0};
      for (int k = 0; k < kDeep; ++k) {
        const double b = operand_element<T>(right, right_across, j * 8 + quad * 2 + e, k);
        for (int h = 0; h < 2; ++h) sum[h] += a[h][k] * b;
      }
      for (int h = 0; h < 2; ++h) d[j * 4 + h * 2 + e] = cut_off(sum[h]);
    }
}
/// wgmma.mma_async: emulate.py puts these in its place.
template <class T, int N>
void products_of_memory(float (&d)[N / 2], u64 left, u64 right, int add, bool left_across, bool right_across) {
  const int line = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + now->lane / 4;
  multiply<T, N>(d, right, right_across, add, [&](int h, int k) { return operand_element<T>(left, left_across, line + h * 8, k); });
}
template <class T, int N>
void products_of_registers(float (&d)[N / 2], u32 p0, u32 p1, u32 p2, u32 p3, u64 right, int add, bool right_across) {
  Warp& w = *now->warp;
  const u32 own[4] = {p0, p1, p2, p3};
  for (int i = 0; i < 4; ++i) w.a[now->lane][i] = own[i];
  warp_wait();
  multiply<T, N>(d, right, right_across, add, [&](int h, int k) {
    if constexpr (sizeof(T) == 4) return truncated(w.a[now->lane / 4 * 4 + k % 4][h + k / 4 * 2]);
    const u32 word = w.a[now->lane / 4 * 4 + k % 8 / 2][h + k / 8 * 2];
    const u16 bits = static_cast<u16>(k % 2 ? word >> 16 : word);
    T v;
    std::memcpy(&v, &bits, sizeof v);
    return static_cast<float>(v);
  });
  warp_wait();
}

}  // namespace emulator

inline u32 shared_address(const void* p) { return static_cast<u32>(static_cast<const char*>(p) - emulator::now->block->shared); }

inline void barrier_init(u32 barrier, int arrivals) { emulator::now->block->barriers[barrier] = {arrivals, arrivals, 0, 0, {}}; }
inline void barriers_are_made() {}
inline void barrier_arrive(u32 barrier) {
  auto& b = emulator::barrier_at(barrier);
  --b.pending;
  ++emulator::events;
  emulator::check_phase(b);
}
inline void barrier_expect(u32 barrier, int bytes) {
  emulator::barrier_at(barrier).bytes += bytes;
  barrier_arrive(barrier);
}
inline void barrier_wait(u32 barrier, u32 parity) {
  auto& b = emulator::barrier_at(barrier);
  for (;;) {
    emulator::make_copies(*emulator::now->block, b);
    if (b.phase != parity) return;
    emulator::yield();
  }
}
inline void named_arrive(int number, int threads) {
  auto& b = emulator::now->block->named[number];
  ++emulator::events;
  if (++b.arrived == threads) emulator::release(b);
}
inline void named_sync(int number, int threads) {
  auto& b = emulator::now->block->named[number];
  const int generation = b.generation;
  named_arrive(number, threads);
  while (b.generation == generation) emulator::yield();
}

inline void map_prefetch(const TensorMap&) {}
template <class... At>
void copy_box(u32 to, const TensorMap& map, u32 barrier, At... at) {
  emulator::box(to, map, barrier, {at...});
}

inline void copy_windows(u32 to, const TensorMap& map, u32 barrier, int c, int x, int n, u16 tx) {
  emulator::windows(to, map, barrier, c, {x}, n, {tx});
}
inline void copy_windows(u32 to, const TensorMap& map, u32 barrier, int c, int x, int y, int n, u16 tx, u16 ty) {
  emulator::windows(to, map, barrier, c, {x, y}, n, {tx, ty});
}
inline void copy_windows(u32 to, const TensorMap& map, u32 barrier, int c, int x, int y, int z, int n, u16 tx, u16 ty, u16 tz) {
  emulator::windows(to, map, barrier, c, {x, y, z}, n, {tx, ty, tz});
}

inline u32 rank_in_cluster() {
  for (u32 i = 0; i < emulator::cluster->blocks.size(); ++i)
    if (&emulator::cluster->blocks[i] == emulator::now->block) return i;
  emulator::fault("a block of no cluster");
}
inline void cluster_arrive() {
  auto& b = emulator::cluster->split;
  emulator::now->arrived_at = b.generation;
  if (++b.arrived == emulator::cluster->live) emulator::release(b);
}
inline void cluster_wait() {
  while (emulator::cluster->split.generation == emulator::now->arrived_at) emulator::yield();
}
inline void copy_to_block(u32 rank, u32 to, u32 from, int bytes, u32 barrier) {
  emulator::Block& there = emulator::cluster->blocks.at(rank);
  if (to % 16 || from % 16 || bytes % 16) emulator::fault("a copy between blocks that is not aligned");
  if (to + bytes > there.shared_bytes || from + bytes > emulator::now->block->shared_bytes) emulator::fault("a copy beyond shared memory");
  std::memcpy(there.shared + to, emulator::now->block->shared + from, static_cast<size_t>(bytes));
  auto& counting = emulator::barrier_at(there, barrier);
  counting.bytes -= bytes;
  ++emulator::events;
  emulator::check_phase(counting);
}

template <class V>
inline void store_to_block(u32 rank, u32 to, V v, u32 barrier) {
  emulator::Block& there = emulator::cluster->blocks.at(rank);
  if (to % sizeof v || to + sizeof v > there.shared_bytes) emulator::fault("a store to another block beyond its shared memory");
  std::memcpy(there.shared + to, &v, sizeof v);
  auto& counting = emulator::barrier_at(there, barrier);
  counting.bytes -= static_cast<i64>(sizeof v);
  ++emulator::events;
  emulator::check_phase(counting);
}

inline void products_begin() {}
inline void products_may_read() {}
inline void products_commit() {}
/// What has been computed was issued by all four warps: none of them still waits for its operands.
template <int Pending>
void products_wait() {
  static const int kThreads = 128;
  emulator::wait(emulator::now->block->groups[threadIdx.x / kThreads], kThreads);
}
inline void products_have_read(const u32 (&)[4]) {}
template <int N>
void more_registers() {}
template <int N>
void fewer_registers() {}

inline u32 f16_add_pair(u32 a, u32 b) {
  return f16_add(static_cast<u16>(a), static_cast<u16>(b)) | static_cast<u32>(f16_add(static_cast<u16>(a >> 16), static_cast<u16>(b >> 16)))
                                                                 << 16;
}
inline u32 bf16_add_pair(u32 a, u32 b) {
  auto value = [](u32 bits) { return __uint_as_float(bits); };
  return bf16_pair(value(a << 16) + value(b << 16), value(a & 0xffff0000u) + value(b & 0xffff0000u));
}
inline void store_matrices(void* row, const u32 (&r)[4]) {
  emulator::Warp& w = *emulator::now->warp;
  if (reinterpret_cast<uintptr_t>(row) % 16) emulator::fault("a row of a matrix is not aligned");
  w.row[emulator::now->lane] = row;
  emulator::warp_wait();
  for (int i = 0; i < 4; ++i)
    std::memcpy(static_cast<char*>(const_cast<void*>(w.row[i * 8 + emulator::now->lane / 4])) + emulator::now->lane % 4 * 4, &r[i], 4);
  emulator::warp_wait();
}

inline void store_matrices_transposed(void* row, const u32 (&r)[4]) {
  emulator::Warp& w = *emulator::now->warp;
  if (reinterpret_cast<uintptr_t>(row) % 16) emulator::fault("a row of a matrix is not aligned");
  w.row[emulator::now->lane] = row;
  emulator::warp_wait();
  const int column = emulator::now->lane / 4, line = emulator::now->lane % 4 * 2;
  for (int i = 0; i < 4; ++i)
    for (int e = 0; e < 2; ++e) {
      const u16 v = static_cast<u16>(r[i] >> 16 * e);
      std::memcpy(static_cast<char*>(const_cast<void*>(w.row[i * 8 + line + e])) + column * 2, &v, 2);
    }
  emulator::warp_wait();
}

inline void load_bytes_if(void* to, const void* from, size_t bytes, bool on) {
  if (on && reinterpret_cast<uintptr_t>(from) % bytes) emulator::fault("a load of what is not aligned");
  if (on) std::memcpy(to, from, bytes);
}
inline void load_4_words(u32& a, u32& b, u32& c, u32& d, const void* from, bool on) {
  u32 all[4] = {a, b, c, d};
  load_bytes_if(all, from, 16, on);
  a = all[0], b = all[1], c = all[2], d = all[3];
}
inline void load_2_words(u32& a, u32& b, const void* from, bool on) {
  u32 all[2] = {a, b};
  load_bytes_if(all, from, 8, on);
  a = all[0], b = all[1];
}
inline void load_word(u32& a, const void* from, bool on) { load_bytes_if(&a, from, 4, on); }
inline void load_half(u32& a, const void* from, bool on) { load_bytes_if(&a, from, 2, on); }
inline void load_byte(u32& a, const void* from, bool on) { load_bytes_if(&a, from, 1, on); }
