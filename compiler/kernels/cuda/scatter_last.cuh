// scatter without a reduction, of many updates: of those of one element the last stays. Three launches: no update is known for any element; each
// update says its number where it goes, of which the largest stays; each element takes what it was told. Results are the same for every run.
#pragma once
#include "scatter.cuh"

// last: a number for each element of x.
template <class T, int Rank, int Dim> struct ScatterLast : Scatter<T, Rank, Dim, kScatterNone, true> {
  typedef Scatter<T, Rank, Dim, kScatterNone, true> Base;
  typedef typename Base::Line Line;

  // f(number, place along Dim, line) for each element of a tensor that has n of them along Dim and else the dims of x: neighbours to neighbours.
  template <class F> AOTC_DI void each(i64 n, F f) const {
    i64 behind = 1;
#pragma unroll
    for (int d = Dim + 1; d < Rank; ++d) behind *= Base::size[d];
    const i64 total = Base::lines() * n;
    for (i64 e = blockIdx.x * i64(blockDim.x) + threadIdx.x; e < total; e += i64(gridDim.x) * blockDim.x) {
      const i64 before = e / behind;
      f(e, before % n, before / n * behind + e % behind);
    }
  }

  AOTC_DI void launch(int number, int* last) const {
    const i64 places = Base::size[Dim];
    if (number == 0) {
      each(places, [&](i64 e, i64, i64) { last[e] = -1; });
    } else if (number == 1) {
      each(Base::size[Rank + Dim], [&](i64, i64 i, i64 at) {
        const Line l = Base::line(at);
        i64 to;
        if (i < l.n && Base::pick(l, i, to)) atomicMax(&last[l.x + to * l.x_step], static_cast<int>(i));
      });
    } else {
      each(places, [&](i64 e, i64, i64 at) {
        const int i = last[e];
        if (i >= 0) {
          const Line l = Base::line(at);
          Base::out[e] = Base::src[l.src + i * l.src_step];
        } else if (Base::out != Base::x) {
          Base::out[e] = Base::x[e];
        }
      });
    }
  }
};
