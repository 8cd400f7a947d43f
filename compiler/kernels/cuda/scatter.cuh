// scatter and index_put. Updates of one element are made in the order of the indices, by one thread: results are the same for every run.
// Three mappings: a thread a line (whatever one index can reach), which makes the line's updates one after another; a thread an element, which
// looks at all indices that could name it; a block a few neighbours of a line (update_pieces.cuh). The result may be the first operand's memory. Indices out of range are reported, not followed.
#pragma once
#include "update_pieces.cuh"

constexpr i64 kNowhere = -0x7fffffffffffffffll - 1;  // an index that writes nothing and is no fault (passes/check_state_writes.cpp)

enum { kScatterNone, kScatterSum, kScatterProd, kScatterMax, kScatterMin, kScatterMean };

template <class A, int Reduce> AOTC_DI A scatter_identity() {
  return Reduce == kScatterProd ? A(1) : Reduce == kScatterMax ? lowest<A>() : Reduce == kScatterMin ? highest<A>() : A(0);
}
template <int Reduce, class A> AOTC_DI A scatter_combine(A a, A b) {
  if constexpr (Reduce == kScatterSum || Reduce == kScatterMean) return static_cast<A>(a + b);
  else if constexpr (Reduce == kScatterProd) return static_cast<A>(a * b);
  else if constexpr (Reduce == kScatterMax) return a != a || a > b ? a : b;
  else if constexpr (Reduce == kScatterMin) return a != a || a < b ? a : b;
  else return b;
}
template <class A> AOTC_DI A scatter_mean(A sum, i64 count) {
  if constexpr (is_floating<A>::value) return sum / static_cast<A>(count);
  else if constexpr (same<A, bool>::value) return sum;
  else {
    const A c = static_cast<A>(count);
    A q = static_cast<A>(sum / c);
    if (sum % c != 0 && (sum < A(0)) != (c < A(0))) --q;  // floor, as PyTorch
    return q;
  }
}

// Rank >= 1. size: dims of x, of the index and of src.
template <class T, int Rank, int Dim, int Reduce, bool IncludeSelf> struct Scatter {
  typedef typename compute<T>::type A;
  const T* x;
  const i64* index;
  const T* src;
  T* out;
  const i64* size;
  int* fault;

  // A line along Dim: where it begins in each tensor and whether indices reach it. at: row-major over the other dims of x.
  struct Line { i64 x, index, src, x_step, index_step, src_step, n; };
  AOTC_DI Line line(i64 at) const {
    Line l{0, 0, 0, 1, 1, 1, size[Rank + Dim]};
    i64 xs = 1, is = 1, ss = 1;
    bool reached = true;
#pragma unroll
    for (int d = Rank - 1; d >= 0; --d) {
      if (d == Dim) {
        l.x_step = xs, l.index_step = is, l.src_step = ss;
      } else {
        const i64 c = rest(at, size[d]);
        at = quotient(at, size[d]);
        reached = reached && c < size[Rank + d];
        l.x += c * xs, l.index += c * is, l.src += c * ss;
      }
      xs *= size[d], is *= size[Rank + d], ss *= size[2 * Rank + d];
    }
    if (!reached) l.n = 0;
    return l;
  }
  AOTC_DI i64 lines() const {
    i64 n = 1;
#pragma unroll
    for (int d = 0; d < Rank; ++d)
      if (d != Dim) n *= size[d];
    return n;
  }
  AOTC_DI bool pick(const Line& l, i64 i, i64& to) const {
    to = index[l.index + i * l.index_step];
    const bool good = to >= 0 && to < size[Dim];
    if (!good && to != kNowhere) *fault = 1;
    return good;
  }
  static constexpr bool resets = Reduce != kScatterNone && !IncludeSelf;

  AOTC_DI void by_line() const {
    static_assert(Reduce != kScatterMean, "counts have no place");
    for (i64 at = blockIdx.x * i64(blockDim.x) + threadIdx.x; at < lines(); at += i64(gridDim.x) * blockDim.x) {
      const Line l = line(at);
      T* const own = out + l.x;
      i64 to;
      if (out != x)
        for (i64 i = 0; i < size[Dim]; ++i) own[i * l.x_step] = x[l.x + i * l.x_step];
      if (resets)
        for (i64 i = 0; i < l.n; ++i)
          if (pick(l, i, to)) own[to * l.x_step] = T(scatter_identity<A, Reduce>());
      for (i64 i = 0; i < l.n; ++i)
        if (pick(l, i, to))
          own[to * l.x_step] = T(scatter_combine<Reduce, A>(static_cast<A>(own[to * l.x_step]), static_cast<A>(src[l.src + i * l.src_step])));
    }
  }
  // Neighbours take neighbouring elements, whatever Dim is.
  AOTC_DI void by_element() const {
    const i64 total = lines() * size[Dim];
    i64 behind = 1;
#pragma unroll
    for (int d = Dim + 1; d < Rank; ++d) behind *= size[d];
    for (i64 e = blockIdx.x * i64(blockDim.x) + threadIdx.x; e < total; e += i64(gridDim.x) * blockDim.x) {
      const i64 place = e / behind % size[Dim];
      const Line l = line(e / behind / size[Dim] * behind + e % behind);
      T v = x[e];
      i64 to, hits = 0;
      for (i64 i = 0; i < l.n; ++i) {
        if (!pick(l, i, to) || to != place) continue;
        if (resets && hits == 0) v = T(scatter_identity<A, Reduce>());
        v = T(scatter_combine<Reduce, A>(static_cast<A>(v), static_cast<A>(src[l.src + i * l.src_step])));
        ++hits;
      }
      if (Reduce == kScatterMean && hits + IncludeSelf > 1 && hits > 0) v = T(scatter_mean<A>(static_cast<A>(v), hits + IncludeSelf));
      out[e] = v;
    }
  }
  struct LineUpdates {
    static constexpr bool last_wins = Reduce == kScatterNone;
    const Scatter& s;
    Line l;
    AOTC_DI i64 updates() const { return l.n; }
    AOTC_DI i64 place_of(i64 i) const {
      i64 to;
      return s.pick(l, i, to) ? to : -1;
    }
    AOTC_DI T load(i64 place, i64) const { return s.x[l.x + place * l.x_step]; }
    AOTC_DI T value(i64, i64 i) const { return s.src[l.src + i * l.src_step]; }
    AOTC_DI void apply(T& v, i64 hits, T value) const {
      if (resets && hits == 0) v = T(scatter_identity<A, Reduce>());
      v = T(scatter_combine<Reduce, A>(static_cast<A>(v), static_cast<A>(value)));
    }
    AOTC_DI void store(i64 place, i64, T v, i64 hits) const {
      if (Reduce == kScatterMean && hits + IncludeSelf > 1 && hits > 0) v = T(scatter_mean<A>(static_cast<A>(v), hits + IncludeSelf));
      s.out[l.x + place * l.x_step] = v;
    }
  };
  template <int Places> AOTC_DI void by_piece() const {
    const i64 pieces = (size[Dim] + Places - 1) / Places, total = lines() * pieces;
    for (i64 b = blockIdx.x; b < total; b += gridDim.x) {
      const i64 first = b % pieces * Places;
      update_piece<T, Places, 1>(LineUpdates{*this, line(b / pieces)}, first, imin(Places, size[Dim] - first), 0, 1);
    }
  }
};

// size: dims of x, then those of the index tensors. Indexed: bit d: dim d of x is indexed, by the tensors in order. OutPos: how many of the
// other dims stand before the index dims in values.
template <class T, int Rank, int Indexed, int IndexRank, int OutPos, bool Accumulate> struct IndexPut {
  typedef typename compute<T>::type A;
  const T* x;
  const T* values;
  T* out;
  void* const* index;  // the index tensors' pointers
  const i64* size;
  int* fault;

  static AOTC_DI bool indexed(int d) { return Indexed >> d & 1; }
  AOTC_DI i64 points(bool of_indexed) const {
    i64 n = 1;
#pragma unroll
    for (int d = 0; d < Rank; ++d)
      if (indexed(d) == of_indexed) n *= size[d];
    return n;
  }
  AOTC_DI i64 entries() const {
    i64 n = 1;
#pragma unroll
    for (int d = 0; d < IndexRank; ++d) n *= size[Rank + d];
    return n;
  }
  // The dims of x that are not indexed and stand behind the index dims in values.
  AOTC_DI i64 points_behind() const {
    i64 n = 1;
    int seen = 0;
#pragma unroll
    for (int d = 0; d < Rank; ++d)
      if (!indexed(d) && seen++ >= OutPos) n *= size[d];
    return n;
  }
  AOTC_DI T value(i64 free, i64 entry, i64 n_entries, i64 behind) const {
    const i64 before = quotient(free, behind);
    return values[(before * n_entries + entry) * behind + free - before * behind];
  }
  // Splits the dims' row-major number `at` into an offset in x.
  AOTC_DI i64 offset(i64 at, bool of_indexed) const {
    i64 to = 0, step = 1;
#pragma unroll
    for (int d = Rank - 1; d >= 0; --d) {
      if (indexed(d) == of_indexed && (Indexed & ((1 << d) - 1)) == (of_indexed ? 0 : (1 << d) - 1)) return to + at * step;  // no such dim before
      if (indexed(d) == of_indexed) {
        const i64 rows = quotient(at, size[d]);
        to += (at - rows * size[d]) * step, at = rows;
      }
      step *= size[d];
    }
    return to;
  }
  // Where entry e leads, as the number of the indexed dims' point; -1 where there is nothing. `faulty`: an index is out of range.
  AOTC_DI i64 pick(i64 e) const {
    bool faulty = false;
    const i64 to = pick(e, faulty);
    if (faulty) *fault = 1;
    return to;
  }
  AOTC_DI i64 pick(i64 e, bool& faulty) const {
    i64 to = 0;
    int q = 0;
    bool good = true, nowhere = false;
#pragma unroll
    for (int d = 0; d < Rank; ++d) {
      if (!indexed(d)) continue;
      i64 i = static_cast<const i64*>(index[q++])[e];
      nowhere = nowhere || i == kNowhere;
      if (i < 0) i += size[d];
      good = good && i >= 0 && i < size[d];
      to = to * size[d] + i;
    }
    faulty = faulty || (!good && !nowhere);
    return good ? to : -1;
  }
  static AOTC_DI T put(T old, T v) { return Accumulate ? T(static_cast<A>(static_cast<A>(old) + static_cast<A>(v))) : v; }

  // A line: all that one point of the dims that are not indexed can be combined with.
  AOTC_DI void by_line() const {
    const i64 n_free = points(false), n_entries = entries(), behind = points_behind(), n_indexed = points(true);
    for (i64 free = blockIdx.x * i64(blockDim.x) + threadIdx.x; free < n_free; free += i64(gridDim.x) * blockDim.x) {
      const i64 own = offset(free, false);
      if (out != x)
        for (i64 i = 0; i < n_indexed; ++i) out[own + offset(i, true)] = x[own + offset(i, true)];
      for (i64 e = 0; e < n_entries; ++e) {
        const i64 to = pick(e);
        if (to < 0) continue;
        T* const place = out + own + offset(to, true);
        *place = put(*place, value(free, e, n_entries, behind));
      }
    }
  }
  // Lanes: neighbours of 16 bytes along a last dim that the indices do not pick, which a thread takes together.
  template <int Lanes> AOTC_DI void by_element() const {
    const i64 total = points(false) * points(true);
    if (total > 0x7fffffff) return neighbours<1, i64>(total);
    if (Lanes > 1 && aligned16(x) && aligned16(values) && aligned16(out)) return neighbours<Lanes, u32>(total);
    neighbours<1, u32>(total);
  }
  template <int Lanes, class Number> AOTC_DI void neighbours(i64 total) const {
    const i64 n_entries = entries(), behind = points_behind();
    for (i64 at = (blockIdx.x * i64(blockDim.x) + threadIdx.x) * Lanes; at < total; at += i64(gridDim.x) * blockDim.x * Lanes) {
      Number rest = static_cast<Number>(at), free = 0, own = 0, free_step = 1, own_step = 1;
#pragma unroll
      for (int d = Rank - 1; d >= 0; --d) {
        const Number n = static_cast<Number>(size[d]), c = rest % n;
        rest /= n;
        if (indexed(d)) own += c * own_step, own_step *= n;
        else free += c * free_step, free_step *= n;
      }
      bool taken = out != x;
      Wide<T, Lanes> v;
      if (taken) v = load_wide<T, Lanes>(x + at);
      for (i64 e = 0; e < n_entries; ++e) {
        if (pick(e) != static_cast<i64>(own)) continue;
        if (!taken) v = load_wide<T, Lanes>(x + at);
        taken = true;
        const Wide<T, Lanes> w = load_wide<T, Lanes>(&values[(free / behind * n_entries + e) * behind + free % behind]);
#pragma unroll
        for (int l = 0; l < Lanes; ++l) v.v[l] = put(v.v[l], w.v[l]);
      }
      if (taken) store_wide<false>(out + at, v);
    }
  }
  struct PointUpdates {
    static constexpr bool last_wins = !Accumulate;
    const IndexPut& p;
    i64 n_entries, behind;
    AOTC_DI i64 updates() const { return n_entries; }
    AOTC_DI i64 place_of(i64 i) const { return p.pick(i); }
    AOTC_DI T load(i64 place, i64 free) const { return p.x[p.offset(free, false) + p.offset(place, true)]; }
    AOTC_DI T value(i64 free, i64 i) const { return p.value(free, i, n_entries, behind); }
    AOTC_DI void apply(T& v, i64, T value) const { v = put(v, value); }
    AOTC_DI void store(i64 place, i64 free, T v, i64) const { p.out[p.offset(free, false) + p.offset(place, true)] = v; }
  };
  template <int Places, int Frees> AOTC_DI void by_piece() const {
    const i64 n_free = points(false), n_places = points(true), free_tiles = (n_free + Frees - 1) / Frees;
    const i64 total = (n_places + Places - 1) / Places * free_tiles;
    for (i64 b = blockIdx.x; b < total; b += gridDim.x) {
      const i64 place = b / free_tiles * Places, free = b % free_tiles * Frees;
      update_piece<T, Places, Frees>(PointUpdates{*this, entries(), points_behind()}, place, imin(Places, n_places - place), free,
                                     imin(Frees, n_free - free));
    }
  }
};
