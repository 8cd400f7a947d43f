// Hopper's products whose left operand is a weight of few bits in slabs (slabs.cuh): its tiles are copied into the ring as they are stored, and
// each warp makes the numbers of its 16 lines in registers, those of the next stage while the products of this one are under way.
#pragma once
#include "hopper.cuh"
#include "slabs.cuh"

// A lane's scales (and offsets) of one slab: of columns g and g + 8 of the warp's strip. Problem::group: rows of k of a group; groups: of a column,
// which lie next to each other; offsets: whether there are any. scales(), offsets_at(): of column 0; columns(): how many there are.
template <class Tile, class Problem> struct WgmmaScales {
  typedef typename Problem::Format Format;
  typedef typename Problem::Scale Scale;
  typedef SlabScale<typename Tile::Element, Format, Scale> Factor;
  static constexpr int slab = Format::deep, group = Problem::group, groups = Problem::groups;
  static constexpr int count = group < slab ? slab / group : 1, slabs = group < slab ? 1 : group / slab;  // groups of a slab; slabs of a group
  static constexpr bool wide = count > 1 && groups % count == 0;
  static constexpr int of_word = wide && sizeof(Scale) == 2 ? 2 : 1, kinds = Problem::offsets ? 2 : 1, words = count / of_word;
  static_assert(groups == 1 || (group < slab ? slab % group : group % slab) == 0, "slabs and groups begin together");
  u32 of[2][kinds][words];

  // number: of the slab; column: the lane's first one.
  AOTC_DI void load(const Problem& p, int column, int number, bool on) {
    const int first = groups == 1 ? 0 : number * count / slabs;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int line = column + c * 8 < p.columns() ? column + c * 8 : p.columns() - 1;
#pragma unroll
      for (int k = 0; k < kinds; ++k) {
        const Scale* const from = (k ? p.offsets_at() : p.scales()) + i64(line) * groups;
        u32(&to)[words] = of[c][k];
        if constexpr (wide && words == 4) load_4_words(to[0], to[1], to[2], to[3], from + first, on);
        else if constexpr (wide && words == 2) load_2_words(to[0], to[1], from + first, on);
        else if constexpr (wide) load_word(to[0], from + first, on);
        else
#pragma unroll
          for (int i = 0; i < count; ++i) {
            const Scale* const at = from + (first + i < groups ? first + i : groups - 1);
            if constexpr (sizeof(Scale) == 4) load_word(to[i], at, on);
            else load_half(to[i], at, on);
          }
      }
    }
  }
  // Of slice x of the slab.
  AOTC_DI Factor factor(int c, int x) const {
    const int i = count > 1 ? x * 16 / group : 0;
    Factor f;
    f.take(of[c][0][i / of_word], i % of_word);
    if (Problem::offsets) f.take_offset(of[c][kinds - 1][i / of_word], i % of_word);
    return f;
  }
};

// Products of `steps` stages from stage s on, the first of which begins with slab `slab`. line: of the tile's left lines the warp's first one, which
// is the weight's column `column`. While the products of a stage are under way, the left operand of the next one is made in a second set of
// registers.
template <class Tile, class Mma, class Problem>
AOTC_DI void wgmma_sum_slabs(const Problem& p, float (&acc)[Tile::blocks][Tile::registers], const WgmmaRing& ring, const char* shared, int line,
                             int column, int slab, int steps, int& s, u32& parity) {
  typedef WgmmaScales<Tile, Problem> Scales;
  constexpr int Stages = Tile::slab_stages;  // of a slab
  const int lane = threadIdx.x & 31;
  column += lane >> 2;
  u32 words[2][4] = {}, a[2][4][4] = {};  // of columns g and g + 8; the left operand of each slice of a stage, of two stages
  Scales now, next;
  clear(now.of), clear(next.of);
  // The left operand of stage s, number `step` from the first on and `part` of its slab's.
  const auto make = [&](u32 (&to)[4][4], int step, int part) {
    barrier_wait(ring.full + 8 * s, parity);
    if (part == 0) {
      const char* const at = shared + s * Tile::stage_bytes + line * slab_column_bytes + lane * 16;
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const uint4 v = *reinterpret_cast<const uint4*>(at + c * slab_bytes / 2);
        words[c][0] = v.x, words[c][1] = v.y, words[c][2] = v.z, words[c][3] = v.w;
      }
      if (Scales::groups > 1 || step == 0) now = next;
      if (Scales::groups > 1) next.load(p, column, ++slab, step + Stages < steps);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      slab_slice<typename Tile::Element, typename Scales::Format, typename Scales::Scale>(to[i], words, part * 4 + i, now.factor(0, part * 4 + i),
                                                                                          now.factor(1, part * 4 + i));
  };
  if (Tile::split > 1) clear(acc[0]);  // a block may have no part of k
  next.load(p, column, slab, steps > 0);
  if (steps > 0) make(a[0], 0, 0);
  int last = s;
#pragma unroll 1
  for (int first = 0; first < steps; first += 2) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int step = first + h;
      if (h > 0 && step >= steps) break;
      const u64 right = operand_at<Tile::right_along_k>(ring.stages + s * Tile::stage_bytes + Tile::left_bytes);
      const int here = s;
      if (++s == Tile::stages) s = 0, parity ^= 1;
      products_begin();
#pragma unroll
      for (int i = 0; i < 4; ++i)
        Mma::multiply(acc[0], a[h][i][0], a[h][i][1], a[h][i][2], a[h][i][3], right + i * kOperandStep<Tile::right_along_k>, Tile::split > 1 || (step | i) != 0);
      products_commit();
      products_wait<1>();  // those of the stage before this one are done
#pragma unroll
      for (int i = 0; i < 4; ++i) products_have_read(a[h ^ 1][i]);
      if (step > 0 && lane == 0) barrier_arrive(ring.empty + 8 * last);
      last = here;
      if (step + 1 < steps) make(a[h ^ 1], step + 1, (h + 1) % Stages);
    }
  }
  products_wait<0>();
#pragma unroll
  for (int i = 0; i < 4; ++i) products_have_read(a[0][i]), products_have_read(a[1][i]);
  if (steps > 0 && lane == 0) barrier_arrive(ring.empty + 8 * last);
  constexpr float made = Scales::Factor::made;  // what all weights have been multiplied by
  if (made != 1.0f)
#pragma unroll
    for (int r = 0; r < Tile::registers; ++r) acc[0][r] *= 1.0f / made;
}
