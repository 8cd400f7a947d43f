// Ordered updates of places by blocks: a block owns a few neighbouring places, all its threads look through the updates, and those that lead to
// its places are kept in order and made by the place's thread. Results are those of making all updates one after another.
#pragma once
#include "device.cuh"

constexpr int kUpdateThreads = 1024, kUpdatesOfThread = 4;  // of a chunk that is looked through

// Places [first, first + n_places) of at most Places, each with elements [first_free, first_free + n_free) of at most Frees; made by one block.
// Updates:
//   i64 updates()                                         how many there are
//   i64 place_of(i64 i)                                   where update i leads; less than 0: nowhere
//   T load(i64 place, i64 free); void store(i64 place, i64 free, T v, i64 hits)
//   T value(i64 free, i64 i)                              what update i brings to an element of its place
//   void apply(T& v, i64 hits, T value)                   makes it; hits: how many came before it
//   bool last_wins                                        an update leaves nothing of what was there: the last one is enough
template <class T, int Places, int Frees, class Updates>
AOTC_DI void update_piece(const Updates& u, i64 first, i64 n_places, i64 first_free, i64 n_free) {
  constexpr int kWarps = kUpdateThreads / 32, kEach = kUpdatesOfThread, kKept = kEach * kUpdateThreads, kOwn = (Places * Frees + kUpdateThreads - 1) / kUpdateThreads, kTogether = 4;
  __shared__ i64 kept[kKept];
  __shared__ unsigned short kept_place[kKept];
  __shared__ int found[2][kWarps];
  __shared__ int last[Updates::last_wins ? Places : 1];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const auto place = [](int o) { return (int(threadIdx.x) + o * kUpdateThreads) / Frees; };
  const auto free = [](int o) { return (int(threadIdx.x) + o * kUpdateThreads) % Frees; };
  T own[kOwn];
  i64 hits[kOwn];
#pragma unroll
  for (int o = 0; o < kOwn; ++o) {
    hits[o] = 0;
    own[o] = place(o) < n_places && free(o) < n_free ? u.load(first + place(o), first_free + free(o)) : T();
  }
  int n = 0;  // kept; the same in all threads
  const auto make = [&] {
    __syncthreads();
    if constexpr (Updates::last_wins) {
      for (int p = threadIdx.x; p < Places; p += kUpdateThreads) last[p] = -1;
      __syncthreads();
      for (int j = threadIdx.x; j < n; j += kUpdateThreads) atomicMax(&last[kept_place[j]], j);
      __syncthreads();
    }
#pragma unroll
    for (int o = 0; o < kOwn; ++o)
      if (place(o) >= n_places || free(o) >= n_free) {
      } else if constexpr (Updates::last_wins) {
        const int j = last[place(o)];
        if (j >= 0) u.apply(own[o], hits[o]++, u.value(first_free + free(o), kept[j]));
      } else {
        for (int j = 0; j < n;) {  // a few of its own are found, then fetched together
          i64 found_at[kTogether];
          T value[kTogether];
#pragma unroll
          for (int t = 0; t < kTogether; ++t) {
            while (j < n && kept_place[j] != place(o)) ++j;
            found_at[t] = j < n ? kept[j++] : -1;
          }
#pragma unroll
          for (int t = 0; t < kTogether; ++t) value[t] = found_at[t] >= 0 ? u.value(first_free + free(o), found_at[t]) : T();
#pragma unroll
          for (int t = 0; t < kTogether; ++t)
            if (found_at[t] >= 0) u.apply(own[o], hits[o]++, value[t]);
        }
      }
    __syncthreads();
    n = 0;
  };
  const i64 updates = u.updates();
  i64 next[kEach];
  const auto fetch = [&](i64 base) {
#pragma unroll
    for (int h = 0; h < kEach; ++h) {
      const i64 i = base + warp * 32 * kEach + h * 32 + lane;
      next[h] = i < updates ? u.place_of(i) - first : -1;
    }
  };
  fetch(0);
  int turn = 0;
  for (i64 base = 0; base < updates; base += kKept, turn ^= 1) {
    i64 to[kEach];
    u32 mine[kEach];
#pragma unroll
    for (int h = 0; h < kEach; ++h) to[h] = next[h];
    fetch(base + kKept);
#pragma unroll
    for (int h = 0; h < kEach; ++h) mine[h] = __ballot_sync(0xffffffffu, to[h] >= 0 && to[h] < n_places);
    int of_warp = 0;
#pragma unroll
    for (int h = 0; h < kEach; ++h) of_warp += __popc(mine[h]);
    if (lane == 0) found[turn][warp] = of_warp;
    __syncthreads();
    int up_to = found[turn][lane];  // the warps', then summed up
#pragma unroll
    for (int by = 1; by < kWarps; by *= 2) {
      const int earlier = static_cast<int>(__shfl_up_sync(0xffffffffu, static_cast<u32>(up_to), by));
      if (lane >= by) up_to += earlier;
    }
    const int all = static_cast<int>(__shfl_sync(0xffffffffu, static_cast<u32>(up_to), kWarps - 1));
    int before = static_cast<int>(__shfl_sync(0xffffffffu, static_cast<u32>(up_to), warp > 0 ? warp - 1 : 0));
    if (warp == 0) before = 0;
    if (n + all > kKept) make();
#pragma unroll
    for (int h = 0; h < kEach; ++h) {
      if (mine[h] >> lane & 1) {
        const int at = n + before + __popc(mine[h] & ((1u << lane) - 1));
        kept[at] = base + warp * 32 * kEach + h * 32 + lane, kept_place[at] = static_cast<unsigned short>(to[h]);
      }
      before += __popc(mine[h]);
    }
    n += all;
  }
  make();
#pragma unroll
  for (int o = 0; o < kOwn; ++o)
    if (place(o) < n_places && free(o) < n_free) u.store(first + place(o), first_free + free(o), own[o], hits[o]);
}
