// index_put that assigns. A row is what one entry of the indices names; the threads of a block write the same part of a few entries' rows,
// unless a later entry names the same place: results are those of making all updates in order. Where the result is not x's own memory, blocks copy the places that no
// entry names: nobody else writes these, so that one launch does.
#pragma once
#include "scatter.cuh"

// Put: an IndexPut that does not accumulate. Entries: of a block, at most 32, so that each look at a later one serves all of them, and their
// values are under way meanwhile. Lanes: as IndexPut::by_element.
template <class T, class Put, int Entries> struct IndexPutRows {
  const Put& p;

  template <int Lanes, int Places> AOTC_DI void write() const {
    if (Lanes > 1 && !(aligned16(p.x) && aligned16(p.values) && aligned16(p.out))) return of_lanes<1, Places>();
    of_lanes<Lanes, Places>();
  }

  template <int Lanes, int Places> AOTC_DI void of_lanes() const {
    const i64 n_entries = p.entries(), n_free = p.points(false), part = i64(blockDim.x) * Lanes, parts = (n_free + part - 1) / part;
    const i64 own = i64(threadIdx.x) * Lanes;
    const i64 behind = p.points_behind(), groups = (n_entries + Entries - 1) / Entries;
    for (i64 b = blockIdx.x; b < groups * parts; b += gridDim.x) {
      const i64 group = quotient(b, parts), first = group * Entries, free = (b - group * parts) * part + own, before = quotient(free, behind);
      Wide<T, Lanes> values[Entries];
      i64 to[Entries];
#pragma unroll
      for (int k = 0; k < Entries; ++k)
        if (free < n_free && first + k < n_entries)
          values[k] = load_wide<T, Lanes>(&p.values[(before * n_entries + first + k) * behind + free - before * behind]);
      u32 over = 0, later = 0;  // by bits: entries without a place, or with one that an entry of the group names again; those that others name
      bool faulty = false, seen = false;
#pragma unroll
      for (int k = 0; k < Entries; ++k) to[k] = first + k < n_entries ? p.pick(first + k, faulty) : -1;
      if (faulty) *p.fault = 1;
#pragma unroll
      for (int k = 0; k < Entries; ++k) {
        over |= u32(to[k] < 0) << k;
#pragma unroll
        for (int before_k = 0; before_k < k; ++before_k) over |= u32(to[before_k] == to[k]) << before_k;
      }
#pragma unroll 4
      for (i64 e = first + Entries + threadIdx.x; e < n_entries; e += blockDim.x) {
        const i64 at = p.pick(e, seen);  // its own block says that it is out of range
#pragma unroll
        for (int k = 0; k < Entries; ++k) later |= u32(at == to[k]) << k;
      }
      if (__syncthreads_or(later != 0))
#pragma unroll
        for (int k = 0; k < Entries; ++k) over |= u32(__syncthreads_or(later >> k & 1) != 0) << k;
      if (free >= n_free) continue;
#pragma unroll
      for (int k = 0; k < Entries; ++k)
        if (!(over >> k & 1)) store_wide<false>(p.out + p.offset(free, false) + p.offset(to[k], true), values[k]);
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
        store_wide<false>(p.out + place, load_wide<T, Lanes>(p.x + place));
      }
    }
  }
};
