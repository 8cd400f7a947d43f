// index_put that assigns. A row is what one entry of the indices names; the threads of a block write a part of it, unless a later entry names
// the same place: results are those of making all updates in order. Where the result is not x's own memory, blocks copy the places that no
// entry names: nobody else writes these, so that one launch does.
#pragma once
#include "scatter.cuh"

// Put: an IndexPut that does not accumulate. Lanes: as IndexPut::by_element.
template <class T, class Put> struct IndexPutRows {
  const Put& p;

  template <int Lanes, int Places> AOTC_DI void write() const {
    if (Lanes > 1 && !(aligned16(p.x) && aligned16(p.values) && aligned16(p.out))) return of_lanes<1, Places>();
    of_lanes<Lanes, Places>();
  }

  template <int Lanes, int Places> AOTC_DI void of_lanes() const {
    const i64 n_entries = p.entries(), n_free = p.points(false), part = i64(blockDim.x) * Lanes, parts = (n_free + part - 1) / part;
    const i64 own = i64(threadIdx.x) * Lanes;
    const i64 behind = p.points_behind();
    for (i64 b = blockIdx.x; b < n_entries * parts; b += gridDim.x) {
      const i64 e = quotient(b, parts), to = p.pick(e), free = (b - e * parts) * part + own, before = quotient(free, behind);
      bool over = to < 0;
#pragma unroll 1
      for (i64 later = e + 1 + threadIdx.x; later < n_entries; later += blockDim.x) over = over || p.pick(later) == to;
      if (__syncthreads_or(over) || free >= n_free) continue;
      keep_wide(p.out + p.offset(free, false) + p.offset(to, true),
                load_wide<T, Lanes>(&p.values[(before * n_entries + e) * behind + free - before * behind]));
    }
    if (p.out != p.x) copy<Lanes, Places>(n_entries, n_free, part, parts, own);
  }

  template <int Lanes, int Places>
  AOTC_DI void copy(i64 n_entries, i64 n_free, i64 part, i64 parts, i64 own) const {
    __shared__ bool named[Places];
    const i64 n_places = p.points(true), pieces = (n_places + Places - 1) / Places;
    for (i64 b = blockIdx.x; b < pieces * parts; b += gridDim.x) {
      const i64 piece = quotient(b, parts), first = piece * Places, n = imin(Places, n_places - first), free = (b - piece * parts) * part + own;
      __syncthreads();  // what the piece before named was read
      for (int i = threadIdx.x; i < Places; i += blockDim.x) named[i] = false;
      __syncthreads();
      for (i64 e = threadIdx.x; e < n_entries; e += blockDim.x) {
        const i64 to = p.pick(e) - first;
        if (to >= 0 && to < n) named[to] = true;
      }
      __syncthreads();
      if (free >= n_free) continue;
      const i64 at = p.offset(free, false);
      for (int i = 0; i < n; ++i) {
        if (named[i]) continue;
        const i64 place = at + p.offset(first + i, true);
        keep_wide(p.out + place, load_wide<T, Lanes>(p.x + place));
      }
    }
  }
};
