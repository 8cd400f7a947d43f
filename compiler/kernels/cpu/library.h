#pragma once
// Whole-tensor algorithms: topk, scatter, index_put of aotc/detail/library_abi.h; sort is in sort.h.
#include "add_rows.h"
#include "simd.h"

namespace {

inline bool is_nan(float x) { return x != x; }
inline bool is_nan(double x) { return x != x; }
template <class T>
constexpr bool is_nan(T) {
  return false;
}
/// The value that comparisons and arithmetic see.
template <class T>
struct Value {
  using A = T;
  static A get(T x) { return x; }
  static T put(A x) { return x; }
};
template <>
struct Value<bf16> {
  using A = float;
  static A get(bf16 x) { return to_acc(x); }
  static bf16 put(A x) {
    bf16 r;
    from_acc(x, &r);
    return r;
  }
};
template <>
struct Value<f16> {
  using A = float;
  static A get(f16 x) { return to_acc(x); }
  static f16 put(A x) {
    f16 r;
    from_acc(x, &r);
    return r;
  }
};

/// Strictly before in the wanted order; NaN is larger than all else.
template <class T>
bool before(T a, T b, bool descending) {
  const auto x = Value<T>::get(a), y = Value<T>::get(b);
  if (descending) return x > y || (is_nan(x) && !is_nan(y));
  return x < y || (is_nan(y) && !is_nan(x));
}

/// Row r of [outer, n, inner]: element i at base + i*inner.
struct Rows {
  int64_t n, inner;
  int64_t base(int64_t r, int64_t width) const { return r / inner * width * inner + r % inner; }
};

template <class T>
constexpr bool kCompares = true;  ///< by the processor, as it lies in memory
template <>
constexpr bool kCompares<bf16> = false;
template <>
constexpr bool kCompares<f16> = false;

constexpr int64_t kNeighbours = 32;
/// False: none of kNeighbours values comes before `top`. NaN passes either way.
template <class T>
bool may_come_before(const T* x, T top, bool descending) {
  int some = 0;
  if (descending) {
    for (int64_t i = 0; i < kNeighbours; ++i) some |= !(x[i] <= top);
  } else {
    for (int64_t i = 0; i < kNeighbours; ++i) some |= !(x[i] >= top);
  }
  return some != 0;
}

/// A heap of the best k so far, the worst on top; of equals the first come first.
template <class T>
void topk_rows(const aotc_kargs* args, int64_t begin, int64_t end) {
  const auto* cfg = static_cast<const aotc_sort_config*>(args->config);
  const Rows rows{args->size[1], args->size[2]};
  const int64_t n = rows.n, k = args->size[3];
  const T* x = static_cast<const T*>(args->ptr[0]);
  T* values = static_cast<T*>(args->ptr[1]);
  int64_t* indices = static_cast<int64_t*>(args->ptr[2]);
  int64_t* id = static_cast<int64_t*>(args->scratch);
  T* v = reinterpret_cast<T*>(id + n);
  const bool down = cfg->largest;
  auto worse = [&](T a, int64_t i, T b, int64_t j) { return before(b, a, down) || (!before(a, b, down) && i > j); };
  auto sink = [&](int64_t p, int64_t size) {
    const T pv = v[p];
    const int64_t pi = id[p];
    for (;;) {
      int64_t c = 2 * p + 1;
      if (c >= size) break;
      if (c + 1 < size && worse(v[c + 1], id[c + 1], v[c], id[c])) ++c;
      if (!worse(v[c], id[c], pv, pi)) break;
      v[p] = v[c], id[p] = id[c], p = c;
    }
    v[p] = pv, id[p] = pi;
  };
  for (int64_t r = begin; r < end; ++r) {
    const int64_t in = rows.base(r, n), out = rows.base(r, k);
    for (int64_t i = 0; i < k; ++i) v[i] = x[in + i * rows.inner], id[i] = i;
    for (int64_t p = k / 2 - 1; p >= 0; --p) sink(p, k);
    if (k > 0)
      for (int64_t first = k; first < n; first += kNeighbours) {
        const int64_t end = min_of(first + kNeighbours, n);
        if constexpr (kCompares<T>)
          if (rows.inner == 1 && first + kNeighbours <= n && !may_come_before(x + in + first, v[0], down)) continue;
        for (int64_t i = first; i < end; ++i) {
          const T y = x[in + i * rows.inner];
          if (!before(y, v[0], down)) continue;
          v[0] = y, id[0] = i;
          sink(0, k);
        }
      }
    // The order is always that of sorted: one of the orders that unsorted allows.
    for (int64_t left = k; left > 0; --left) {
      values[out + (left - 1) * rows.inner] = v[0], indices[out + (left - 1) * rows.inner] = id[0];
      v[0] = v[left - 1], id[0] = id[left - 1];
      sink(0, left - 1);
    }
  }
}

template <class A>
A lowest() {
  if constexpr (static_cast<A>(0.5) != A(0)) return -static_cast<A>(__builtin_inf());
  if constexpr (static_cast<A>(-1) > A(0)) return A(0);
  return static_cast<A>(1ull << (8 * sizeof(A) - 1));
}
template <class A>
A highest() {
  if constexpr (static_cast<A>(0.5) != A(0)) return static_cast<A>(__builtin_inf());
  return static_cast<A>(~lowest<A>());
}
template <>
[[maybe_unused]] bool lowest<bool>() {
  return false;
}
template <>
[[maybe_unused]] bool highest<bool>() {
  return true;
}
template <>
[[maybe_unused]] float highest<float>() {
  return __builtin_inff();
}
template <>
[[maybe_unused]] double highest<double>() {
  return __builtin_inf();
}

template <class A>
A combine(A a, A b, int reduce) {
  switch (reduce) {
    case AOTC_SCATTER_SUM:
    case AOTC_SCATTER_MEAN: return static_cast<A>(a + b);
    case AOTC_SCATTER_PROD: return static_cast<A>(a * b);
    case AOTC_SCATTER_AMAX: return is_nan(a) || a > b ? a : b;
    case AOTC_SCATTER_AMIN: return is_nan(a) || a < b ? a : b;
    default: return b;
  }
}
template <class A>
A identity(int reduce) {
  return reduce == AOTC_SCATTER_PROD ? A(1) : reduce == AOTC_SCATTER_AMAX ? lowest<A>() : reduce == AOTC_SCATTER_AMIN ? highest<A>() : A(0);
}
template <class A>
A divide(A sum, int64_t count) {
  if constexpr (static_cast<A>(0.5) != A(0)) {
    return sum / static_cast<A>(count);
  } else {
    const A c = static_cast<A>(count);
    A q = static_cast<A>(sum / c);
    if (sum % c != 0 && (sum < A(0)) != (c < A(0))) --q;  // floor, as PyTorch
    return q;
  }
}
template <>
[[maybe_unused]] bool divide<bool>(bool sum, int64_t) {
  return sum;
}

constexpr int kMaxRank = 64;

template <class T, int kReduce>
void combine_row(T* __restrict to, const T* __restrict from, int64_t n) {
  using V = Value<T>;
  for (int64_t i = 0; i < n; ++i) to[i] = V::put(combine<typename V::A>(V::get(to[i]), V::get(from[i]), kReduce));
}
template <class T>
using RowFn = void (*)(T*, const T*, int64_t);
template <class T>
RowFn<T> row_fn(int reduce) {
  switch (reduce) {
    case AOTC_SCATTER_SUM:
    case AOTC_SCATTER_MEAN: return combine_row<T, AOTC_SCATTER_SUM>;
    case AOTC_SCATTER_PROD: return combine_row<T, AOTC_SCATTER_PROD>;
    case AOTC_SCATTER_AMAX: return combine_row<T, AOTC_SCATTER_AMAX>;
    case AOTC_SCATTER_AMIN: return combine_row<T, AOTC_SCATTER_AMIN>;
    default: return combine_row<T, AOTC_SCATTER_NONE>;
  }
}

/// Whether all n are alike.
inline bool alike(const int64_t* v, int64_t n) {
  int64_t differ = 0;
  for (int64_t i = 1; i < n; ++i) differ |= v[i] ^ v[0];
  return differ == 0;
}

/// A work unit is one place of the dims before `dim`: nothing that is written there is written by another.
template <class T>
void scatter(const aotc_kargs* args, int64_t begin, int64_t end) {
  using V = Value<T>;
  using A = typename V::A;
  const auto* cfg = static_cast<const aotc_scatter_config*>(args->config);
  const int rank = static_cast<int>(args->size[0]), dim = rank ? (cfg->dim + rank) % rank : 0;
  const int64_t *xd = args->size + 1, *id = xd + rank, *sd = id + rank;
  const T *x = static_cast<const T*>(args->ptr[0]), *src = static_cast<const T*>(args->ptr[2]);
  const int64_t* index = static_cast<const int64_t*>(args->ptr[1]);
  T* out = static_cast<T*>(args->ptr[3]);
  int64_t xs[kMaxRank + 1], is[kMaxRank + 1], ss[kMaxRank + 1], total = 1, count = 1, step = 1, block = 1, picks = 1;
  for (int i = rank - 1; i >= 0; --i) {
    xs[i] = total, total *= xd[i];
    is[i] = count, count *= id[i];
    ss[i] = step, step *= sd[i];
    if (i == dim) block = total, picks = count;
  }
  const int64_t extent = rank ? xd[dim] : 1;
  int64_t* hits = static_cast<int64_t*>(args->scratch);
  const bool mean = cfg->reduce == AOTC_SCATTER_MEAN;
  const bool reset = cfg->reduce != AOTC_SCATTER_NONE && !cfg->include_self;
  // What one place along dim holds is written whole where its indices are alike, as expanded ones are.
  const int64_t width = rank ? xs[dim] : 1;
  bool rows = width >= 8;
  for (int d = dim + 1; d < rank; ++d) rows = rows && id[d] == xd[d] && sd[d] == xd[d];
  const RowFn<T> write_row = row_fn<T>(cfg->reduce);
  for (int64_t unit = begin; unit < end; ++unit) {
    T* to_block = out + unit * block;
    if (out != x)
      for (int64_t i = 0; i < block; ++i) to_block[i] = x[unit * block + i];
    if (mean)
      for (int64_t i = 0; i < block; ++i) hits[i] = cfg->include_self ? 1 : 0;
    bool within = true;
    int64_t rest = unit, io = 0, from = 0;
    for (int d = dim - 1; d >= 0; --d) {
      const int64_t c = rest % xd[d];
      rest /= xd[d];
      within = within && c < id[d];
      io += c * is[d], from += c * ss[d];
    }
    for (int pass = reset ? 0 : 1; within && pass < 2; ++pass) {
      int64_t at[kMaxRank + 1] = {0}, xo = 0, so = from;
      int64_t first = 0;
      for (; rows && first < picks && alike(index + io + first, width); first += width, so += width, ++at[dim], xo += width) {
        const int64_t pick = index[io + first];
        if (pick < 0 || pick >= extent) {
          *args->fault = AOTC_FAULT_INDEX;
        } else if (pass == 0) {
          for (int64_t i = pick * width; i < (pick + 1) * width; ++i) to_block[i] = V::put(identity<A>(cfg->reduce));
        } else {
          write_row(to_block + pick * width, src + so, width);
          for (int64_t i = pick * width; mean && i < (pick + 1) * width; ++i) ++hits[i];
        }
      }
      for (int64_t i = first; i < picks; ++i) {
        const int64_t pick = index[io + i];
        if (pick < 0 || pick >= extent) {
          *args->fault = AOTC_FAULT_INDEX;
        } else {
          const int64_t to = rank ? xo + (pick - at[dim]) * xs[dim] : 0;
          if (pass == 0) {
            to_block[to] = V::put(identity<A>(cfg->reduce));
          } else {
            to_block[to] = V::put(combine<A>(V::get(to_block[to]), V::get(src[so]), cfg->reduce));
            if (mean) ++hits[to];
          }
        }
        for (int d = rank - 1; d >= dim; --d) {
          xo += xs[d], so += ss[d];
          if (++at[d] < id[d]) break;
          xo -= xs[d] * id[d], so -= ss[d] * id[d], at[d] = 0;
        }
      }
    }
    if (mean)
      for (int64_t i = 0; i < block; ++i)
        if (hits[i] > 1) to_block[i] = V::put(divide<A>(V::get(to_block[i]), hits[i]));
  }
}

template <class T>
void add_row(T* __restrict to, const T* __restrict from, int64_t n) {
  using V = Value<T>;
  for (int64_t i = 0; i < n; ++i) to[i] = V::put(combine<typename V::A>(V::get(to[i]), V::get(from[i]), AOTC_SCATTER_SUM));
}

/// Sums of them in registers are rounded as those in memory are.
template <class T>
constexpr bool kAddsRows = false;
template <>
constexpr bool kAddsRows<float> = true;
template <>
constexpr bool kAddsRows<double> = true;

/// A work unit is one place of x's dims before the first indexed one: nothing that is written there is written by another.
template <class T>
void index_put(const aotc_kargs* args, int64_t begin, int64_t end) {
  const auto* cfg = static_cast<const aotc_scatter_config*>(args->config);
  const int64_t* z = args->size;
  const int rank = static_cast<int>(*z++);
  const int64_t* xd = z;
  z += rank;
  const int n_index = static_cast<int>(*z++);
  const int64_t* indexed = z;
  z += n_index;
  const int rank_index = static_cast<int>(*z++);
  const int64_t* id = z;
  z += rank_index;
  const int out_pos = static_cast<int>(*z);
  const T *x = static_cast<const T*>(args->ptr[0]), *values = static_cast<const T*>(args->ptr[1]);
  T* out = static_cast<T*>(args->ptr[2]);

  const int lead = n_index ? static_cast<int>(indexed[0]) : rank;
  int64_t xs[kMaxRank + 1], block = 1;
  for (int i = rank - 1; i >= 0; --i) xs[i] = i == rank - 1 ? 1 : xs[i + 1] * xd[i + 1];
  for (int i = lead; i < rank; ++i) block *= xd[i];
  // Dims of values: free dims of x in order, the index dims standing before free dim out_pos. Those of a unit go to fixed[].
  struct Dim {
    int64_t size, x_step, i_step, v_step;
    bool fixed;
  };
  Dim all[2 * kMaxRank];
  int n = 0, next = 0, free_seen = 0;
  auto add_index_dims = [&] {
    int64_t step = 1;
    for (int i = rank_index - 1; i >= 0; --i) all[n + i] = {id[i], 0, step, 0, false}, step *= id[i];
    n += rank_index;
  };
  for (int i = 0; i < rank; ++i) {
    if (next < n_index && indexed[next] == i) {
      ++next;
      continue;
    }
    if (free_seen++ == out_pos) add_index_dims();
    all[n++] = {xd[i], xs[i], 0, 0, i < lead};
  }
  if (out_pos >= free_seen) add_index_dims();
  int64_t step = 1;
  for (int i = n - 1; i >= 0; --i) all[i].v_step = step, step *= all[i].size;
  int64_t inner = 1, outer = 1;  // the innermost dims that are one block of x
  while (n > 0 && !all[n - 1].fixed && all[n - 1].i_step == 0 && all[n - 1].x_step == inner) inner *= all[--n].size;
  Dim walk[2 * kMaxRank];
  int walked = 0;
  for (int i = 0; i < n; ++i)
    if (!all[i].fixed) outer *= all[i].size, walk[walked++] = all[i];
  // One index, and the values of each stand together, in its order.
  bool whole_rows = cfg->accumulate && n_index == 1 && inner == xs[lead];
  for (int i = 0; i < walked; ++i) whole_rows = whole_rows && walk[i].x_step == 0 && walk[i].v_step == walk[i].i_step * inner;
  for (int64_t unit = begin; unit < end; ++unit) {
    T* to_block = out + unit * block;
    if (out != x)
      for (int64_t i = 0; i < block; ++i) to_block[i] = x[unit * block + i];
    int64_t rest = unit, vo = 0;
    for (int i = n - 1; i >= 0; --i)
      if (all[i].fixed) vo += rest % all[i].size * all[i].v_step, rest /= all[i].size;
    if constexpr (kAddsRows<T>) {
      if (whole_rows && inner > 0) {
        const auto* index = static_cast<const int64_t*>(args->ptr[3]);
        if (!add_rows(to_block, xd[lead], index, values + vo, outer, inner)) *args->fault = AOTC_FAULT_INDEX;
        continue;
      }
    }
    int64_t at[2 * kMaxRank] = {0}, xo = 0, io = 0;
    for (int64_t o = 0; o < outer && inner > 0; ++o) {
      int64_t to = xo;
      bool good = true;
      for (int q = 0; q < n_index; ++q) {
        int64_t pick = static_cast<const int64_t*>(args->ptr[3 + q])[io];
        const int64_t extent = xd[indexed[q]];
        if (pick < 0) pick += extent;
        good = good && pick >= 0 && pick < extent;
        to += pick * xs[indexed[q]];
      }
      if (!good) {
        *args->fault = AOTC_FAULT_INDEX;
      } else if (cfg->accumulate) {
        add_row(to_block + to, values + vo, inner);
      } else {
        for (int64_t i = 0; i < inner; ++i) to_block[to + i] = values[vo + i];
      }
      for (int d = walked - 1; d >= 0; --d) {
        xo += walk[d].x_step, io += walk[d].i_step, vo += walk[d].v_step;
        if (++at[d] < walk[d].size) break;
        xo -= walk[d].x_step * walk[d].size, io -= walk[d].i_step * walk[d].size, vo -= walk[d].v_step * walk[d].size, at[d] = 0;
      }
    }
  }
}

}  // namespace
