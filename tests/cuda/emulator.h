// Runs the kernels of emit/cuda on the host, compiled as C++: every thread of a cluster of blocks is a fiber, and what threads do together
// (barriers, shuffles, tensor-core products, loads of matrices, asynchronous copies, the shared memory of a cluster) is done as on a GPU.
// A barrier that not all reach is reported, shared memory begins full of NaNs, and an asynchronous copy is made no earlier than it is
// waited for. Included first in the translation unit of the kernels; the end of that defines
//
//     AOTC_EMULATED_KERNEL(name, cluster)     for each kernel: name_host, name_cluster
//
// and exports aotc_host_launch.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <map>
#include <vector>
using std::memcpy;

#define AOTC_EMULATOR
#include "cuda/host.h"

namespace emulator {

[[noreturn]] inline void fault(const char* what) {
  std::fprintf(stderr, "emulated GPU: %s (block %u %u %u thread %u)\n", what, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x);
  std::abort();
}

/// Counts arrivals of those that are still there.
struct Barrier {
  int arrived = 0, generation = 0;
};
struct Copy {
  char* to;
  const char* from;
  int size, bytes;
};
/// A bulk copy that a barrier counts: element after element, null for zeros.
struct BulkCopy {
  u32 to;
  int swizzle, element_bytes;
  std::vector<const char*> elements;
};
struct CountingBarrier {
  int arrivals, pending;
  u32 phase;
  i64 bytes;
  std::vector<BulkCopy> copies;  ///< that nobody has waited for
};
struct Block;
struct Warp {
  Barrier barrier;
  int live = 0;
  u32 word[32];
  u32 a[32][4], b[32][2];
  const void* row[32];
};
struct Thread {
  void* stack_pointer = nullptr;
  Dim3 index;
  int lane = 0;
  Warp* warp = nullptr;
  Block* block = nullptr;
  bool done = false;
  int arrived_at = 0;                            ///< generation of the cluster's split barrier
  std::vector<std::vector<Copy>> groups = {{}};  ///< of asynchronous copies; the last is being filled
};
struct Block {
  Dim3 index;
  Barrier barrier;
  int live = 0;
  std::vector<Warp> warps;
  std::vector<Thread> threads;
  std::vector<char> memory;
  char* shared = nullptr;
  size_t shared_bytes = 0;
  int any = 0;  ///< of __syncthreads_or
  std::map<u32, CountingBarrier> barriers;
  Barrier named[16], groups[8];  ///< groups: warpgroups
};
struct Cluster {
  Barrier barrier, split;
  int live = 0;
  std::vector<Block> blocks;
};

static Cluster* cluster;
static Thread* now;
static void* scheduler;
static long events;  ///< barriers passed or reached, copies made, threads ended
static void (*kernel)(const void*);
static const void* arguments;

/// One for every thread of a cluster; kept.
inline char* stack_end(size_t number) {
  constexpr size_t kBytes = 256 << 10;  // tiles of sums lie in frames where the compiler keeps none in registers
  static std::vector<char*> stacks;
  while (stacks.size() <= number) stacks.push_back(static_cast<char*>(std::aligned_alloc(64, kBytes)));
  return stacks[number] + kBytes;
}

extern "C" void aotc_emulator_switch(void** save, void* to);
asm(R"(
.text
.local aotc_emulator_switch
aotc_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

inline void yield() { aotc_emulator_switch(&now->stack_pointer, scheduler); }

inline void release(Barrier& b) {
  b.arrived = 0;
  ++b.generation;
  ++events;
}
inline void wait(Barrier& b, const int& live) {
  const int generation = b.generation;
  if (++b.arrived == live) return release(b);
  while (b.generation == generation) yield();
}
inline void warp_wait() {
  if (now->warp->live != 32) fault("a warp whose threads have partly returned works together");
  wait(now->warp->barrier, now->warp->live);
}

inline void thread_main() {
  kernel(arguments);
  now->done = true;
  ++events;
  auto leave = [](Barrier& b, int& live) {
    if (--live > 0 && b.arrived == live) release(b);
  };
  leave(now->warp->barrier, now->warp->live);
  leave(now->block->barrier, now->block->live);
  leave(cluster->barrier, cluster->live);
  yield();
}

/// The blocks of one cluster at the same time.
inline void run_cluster(Cluster& c, unsigned threads, size_t shared_bytes) {
  cluster = &c;
  c.live = static_cast<int>(threads * c.blocks.size());
  size_t next = 0;
  for (Block& b : c.blocks) {
    b.live = static_cast<int>(threads);
    b.warps.resize((threads + 31) / 32);
    b.threads.resize(threads);
    b.memory.assign(shared_bytes + 1024, static_cast<char>(0xff));
    b.shared_bytes = shared_bytes;
    b.shared = b.memory.data() + (1024 - reinterpret_cast<uintptr_t>(b.memory.data()) % 1024);
    for (unsigned t = 0; t < threads; ++t) {
      Thread& x = b.threads[t];
      x.index.x = t;
      x.lane = static_cast<int>(t % 32);
      x.block = &b;
      x.warp = &b.warps[t / 32];
      ++x.warp->live;
      auto* top = reinterpret_cast<void**>(stack_end(next++));
      *--top = nullptr;  // where thread_main would return to
      *--top = reinterpret_cast<void*>(thread_main);
      x.stack_pointer = top - 6;
    }
  }
  for (size_t left = 1; left;) {
    left = 0;
    const long before = events;
    for (Block& b : c.blocks)
      for (Thread& t : b.threads) {
        if (t.done) continue;
        ++left;
        now = &t;
        threadIdx = t.index;
        blockIdx = b.index;
        aotc_emulator_switch(&scheduler, t.stack_pointer);
      }
    if (left && events == before) fault("a barrier that not all threads reach");
  }
}

// ---- tensor cores: lane = 4 * group + quad (PTX ISA, "Warp-level matrix instructions") -------------------------------------------------
inline float truncated(u32 v) { return bits_as<float>(v & 0xffffe000u); }
/// Their sums are not rounded: bits beyond a float's are cut off.
inline float cut_off(double sum) {
  const auto nearest = static_cast<float>(sum);
  return std::isfinite(nearest) && std::fabs(static_cast<double>(nearest)) > std::fabs(sum) ? std::nextafter(nearest, 0.0f) : nearest;
}
inline float bf16_low(u32 v) { return bits_as<float>(v << 16); }
inline float bf16_high(u32 v) { return bits_as<float>(v & 0xffff0000u); }

/// element(word, which): the values in a register; of k: per register.
template <int kPerWord, class Element>
void mma(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2], Element element) {
  Warp& w = *now->warp;
  for (int i = 0; i < 4; ++i) w.a[now->lane][i] = a[i];
  for (int i = 0; i < 2; ++i) w.b[now->lane][i] = b[i];
  warp_wait();
  const int group = now->lane / 4, quad = now->lane % 4;
  for (int r = 0; r < 4; ++r) {
    const int row = group + (r / 2) * 8, column = quad * 2 + r % 2;
    double sum = c[r];
    for (int half = 0; half < 2; ++half)
      for (int q = 0; q < 4; ++q)
        for (int e = 0; e < kPerWord; ++e)
          sum += static_cast<double>(element(w.a[row % 8 * 4 + q][row / 8 + half * 2], e)) * element(w.b[column * 4 + q][half], e);
    c[r] = cut_off(sum);
  }
  warp_wait();
}

}  // namespace emulator

inline u32 __shfl_xor_sync(u32 mask, u32 v, int lane_mask) {
  if (mask != 0xffffffffu) emulator::fault("a shuffle of part of a warp");
  emulator::Warp& w = *emulator::now->warp;
  w.word[emulator::now->lane] = v;
  emulator::warp_wait();
  const u32 r = w.word[emulator::now->lane ^ lane_mask];
  emulator::warp_wait();
  return r;
}
inline u32 __shfl_up_sync(u32 mask, u32 v, unsigned by) {
  if (mask != 0xffffffffu) emulator::fault("a shuffle of part of a warp");
  emulator::Warp& w = *emulator::now->warp;
  const auto lane = static_cast<unsigned>(emulator::now->lane);
  w.word[lane] = v;
  emulator::warp_wait();
  const u32 r = lane < by ? v : w.word[lane - by];
  emulator::warp_wait();
  return r;
}
inline u32 __shfl_sync(u32 mask, u32 v, int from) {
  if (mask != 0xffffffffu) emulator::fault("a shuffle of part of a warp");
  emulator::Warp& w = *emulator::now->warp;
  w.word[emulator::now->lane] = v;
  emulator::warp_wait();
  const u32 r = w.word[from & 31];
  emulator::warp_wait();
  return r;
}
inline int __popc(u32 v) { return __builtin_popcount(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline u32 __ballot_sync(u32 mask, bool v) {
  if (mask != 0xffffffffu) emulator::fault("a ballot of part of a warp");
  emulator::Warp& w = *emulator::now->warp;
  w.word[emulator::now->lane] = v;
  emulator::warp_wait();
  u32 r = 0;
  for (int i = 0; i < 32; ++i) r |= w.word[i] << i;
  emulator::warp_wait();
  return r;
}
inline void __syncwarp() { emulator::warp_wait(); }
inline int atomicMax(int* p, int v) {
  const int before = *p;
  if (v > before) *p = v;
  return before;
}
inline int atomicAdd(int* p, int v) {
  const int before = *p;
  *p += v;
  return before;
}
inline void __syncthreads() { emulator::wait(emulator::now->block->barrier, emulator::now->block->live); }
inline int __syncthreads_or(int v) {
  emulator::Block& b = *emulator::now->block;
  __syncthreads();  // the one before was read
  b.any = 0;
  __syncthreads();
  b.any |= v;
  __syncthreads();
  return b.any;
}

inline void mma_tf32(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  emulator::mma<1>(c, a, b, [](u32 v, int) { return emulator::truncated(v); });
}
inline void mma_bf16(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  emulator::mma<2>(c, a, b, [](u32 v, int e) { return e ? emulator::bf16_high(v) : emulator::bf16_low(v); });
}
inline void mma_f16(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  emulator::mma<2>(c, a, b, [](u32 v, int e) { return f16_value(static_cast<u16>(e ? v >> 16 : v)); });
}
inline void load_matrices(u32 (&r)[4], const void* row) {
  emulator::Warp& w = *emulator::now->warp;
  if (reinterpret_cast<uintptr_t>(row) % 16) emulator::fault("a row of a matrix is not aligned");
  w.row[emulator::now->lane] = row;
  emulator::warp_wait();
  for (int i = 0; i < 4; ++i)
    std::memcpy(&r[i], static_cast<const char*>(w.row[i * 8 + emulator::now->lane / 4]) + emulator::now->lane % 4 * 4, 4);
  emulator::warp_wait();
}
inline void load_matrices_transposed(u32 (&r)[4], const void* row) {
  emulator::Warp& w = *emulator::now->warp;
  if (reinterpret_cast<uintptr_t>(row) % 16) emulator::fault("a row of a matrix is not aligned");
  w.row[emulator::now->lane] = row;
  emulator::warp_wait();
  const int column = emulator::now->lane / 4, k = emulator::now->lane % 4 * 2;
  for (int i = 0; i < 4; ++i) {
    u16 at[2];
    for (int e = 0; e < 2; ++e) std::memcpy(&at[e], static_cast<const char*>(w.row[i * 8 + k + e]) + column * 2, 2);
    r[i] = at[0] | static_cast<u32>(at[1]) << 16;
  }
  emulator::warp_wait();
}

namespace emulator {
inline void copy_async(void* to, const void* from, int size, int bytes) {
  if (reinterpret_cast<uintptr_t>(to) % static_cast<uintptr_t>(size)) fault("an asynchronous copy to a place that is not aligned");
  if (bytes && reinterpret_cast<uintptr_t>(from) % static_cast<uintptr_t>(size)) fault("an asynchronous copy of what is not aligned");
  std::memset(to, 0xff, static_cast<size_t>(size));  // not there yet
  now->groups.back().push_back({static_cast<char*>(to), static_cast<const char*>(from), size, bytes});
}
}  // namespace emulator
inline void copy16_async(void* to, const void* from, int bytes) { emulator::copy_async(to, from, 16, bytes); }
inline void copy8_async(void* to, const void* from, int bytes) { emulator::copy_async(to, from, 8, bytes); }
inline void copy4_async(void* to, const void* from, int bytes) { emulator::copy_async(to, from, 4, bytes); }
inline void copies_commit() { emulator::now->groups.emplace_back(); }
template <int Pending>
inline void copies_wait() {
  auto& groups = emulator::now->groups;
  while (groups.size() > static_cast<size_t>(Pending) + 1) {
    for (const emulator::Copy& c : groups.front()) {
      std::memset(c.to, 0, static_cast<size_t>(c.size));
      if (c.bytes) std::memcpy(c.to, c.from, static_cast<size_t>(c.bytes));
    }
    groups.erase(groups.begin());
  }
}

#define AOTC_CLUSTER(n)
inline void cluster_barrier() { emulator::wait(emulator::cluster->barrier, emulator::cluster->live); }
inline float load_of_block(const float* p, int rank) {
  const auto at = reinterpret_cast<const char*>(p) - emulator::now->block->shared;
  return *reinterpret_cast<const float*>(emulator::cluster->blocks.at(static_cast<size_t>(rank)).shared + at);
}
inline void load_four_of_block(const float* p, int rank, float (&v)[4]) {
  for (int i = 0; i < 4; ++i) v[i] = load_of_block(p + i, rank);
}
inline void store_to_block(u64* p, int rank, u64 v) {
  const auto at = reinterpret_cast<char*>(p) - emulator::now->block->shared;
  *reinterpret_cast<u64*>(emulator::cluster->blocks.at(static_cast<size_t>(rank)).shared + at) = v;
}
constexpr bool has_clusters = true;

#include "cuda/hopper.h"

#define AOTC_EMULATED_KERNEL(name, cluster)                                                                                        \
  extern "C" __attribute__((visibility("default"))) void name##_host(const void* a) { name(*static_cast<const name##_args*>(a)); } \
  extern "C" __attribute__((visibility("default"))) const unsigned name##_cluster = cluster;

extern "C" __attribute__((visibility("default"))) void aotc_host_launch(void (*function)(const void*), unsigned in_cluster,
                                                                        const unsigned* grid, const unsigned* block, unsigned shared_bytes,
                                                                        const void* arguments) {
  emulator::kernel = function;
  emulator::arguments = arguments;
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  if (block[1] != 1 || block[2] != 1 || block[0] % 32 || block[0] > 1024) emulator::fault("a block of another shape than x*32");
  if (grid[0] % in_cluster) emulator::fault("a grid that is no multiple of the cluster");
  for (unsigned z = 0; z < grid[2]; ++z)
    for (unsigned y = 0; y < grid[1]; ++y)
      for (unsigned x = 0; x < grid[0]; x += in_cluster) {
        emulator::Cluster c;
        c.blocks.resize(in_cluster);
        for (unsigned i = 0; i < in_cluster; ++i) c.blocks[i].index = {x + i, y, z};
        emulator::run_cluster(c, block[0], shared_bytes);
      }
}
