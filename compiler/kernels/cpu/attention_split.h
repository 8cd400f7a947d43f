#pragma once
// Attention whose keys the threads divide: aotc_attention_split_* of aotc/detail/attention_split_abi.h. In the first phase an item is a
// part of the keys of one key head, over which all query rows take their sums; in the second, the parts of a head are added up.
#include "aotc/detail/attention_split_abi.h"
#include "attention.h"
#include "team.h"

namespace {

template <class E, class Acc, class K = E>
struct AttentionSplit : AttentionRun<E, Acc, K> {
  using Base = AttentionRun<E, Acc, K>;
  using Base::cfg, Base::ev, Base::evp, Base::len, Base::rows, Base::z, Base::o, Base::m, Base::l;

  const aotc_team_kargs& team;
  const int64_t parts, items;

  explicit AttentionSplit(const aotc_kargs* a) : AttentionSplit(*reinterpret_cast<const aotc_team_kargs*>(a), a->size) {}
  AttentionSplit(const aotc_team_kargs& all, const int64_t* size)
      : Base(&all.args, static_cast<char*>(all.args.scratch) + shared_bytes(all.args)),
        team(all),
        parts(parts_of(all.args)),
        items(size[AOTC_ATTN_B] * size[AOTC_ATTN_HKV] * parts) {}

  static int64_t parts_of(const aotc_kargs& a) {
    return aotc_attn_parts(a.size[AOTC_ATTN_S], static_cast<const aotc_attn_config*>(a.config)->key_part);
  }
  static int64_t rows_of(const int64_t* size) {
    return size[AOTC_ATTN_HKV] ? size[AOTC_ATTN_H] / size[AOTC_ATTN_HKV] * size[AOTC_ATTN_L] : 0;
  }
  static int64_t shared_bytes(const aotc_kargs& a) {
    return aotc_attn_split_shared_bytes(a.size[AOTC_ATTN_B] * a.size[AOTC_ATTN_HKV] * parts_of(a), rows_of(a.size), a.size[AOTC_ATTN_EV],
                                        sizeof(Acc));
  }

  /// What an item leaves: rows of evp sums, the largest scores, the sums of exponents.
  struct Left {
    Acc *sums, *largest, *exponents;
  };
  Left left(int64_t item) const {
    Acc* const sums = static_cast<Acc*>(team.shared) + item * rows * (evp + AOTC_PANEL_N);
    return {sums, sums + rows * evp, sums + rows * evp + rows};
  }

  void part(int64_t item) {
    const int64_t head = item / parts, from = item % parts * cfg->key_part;
    this->sums(head / z[AOTC_ATTN_HKV], head % z[AOTC_ATTN_HKV], 0, rows, from, min_of<int64_t>(from + cfg->key_part, len), head);
    const Left to = left(item);
    __builtin_memcpy(to.sums, o, sizeof(Acc) * rows * evp);
    __builtin_memcpy(to.largest, m, sizeof(Acc) * rows);
    __builtin_memcpy(to.exponents, l, sizeof(Acc) * rows);
  }

  void whole(int64_t head) {
    const Acc none = -static_cast<Acc>(__builtin_inf());
    for (int64_t i = 0; i < rows; ++i) {
      Acc* const row = o + i * evp;
      m[i] = none, l[i] = 0;
      for (int64_t c = 0; c < evp; ++c) row[c] = 0;
      for (int64_t p = 0; p < parts; ++p) m[i] = max_of(m[i], left(head * parts + p).largest[i]);
      for (int64_t p = 0; p < parts; ++p) {
        const Left of = left(head * parts + p);
        const Acc down = of.largest[i] == m[i] ? Acc(1) : exp_of(of.largest[i] - m[i]);
        l[i] = fused(of.exponents[i], down, l[i]);
        for (int64_t c = 0; c < evp; ++c) row[c] = fused(of.sums[i * evp + c], down, row[c]);
      }
    }
    this->store(head / z[AOTC_ATTN_HKV], head % z[AOTC_ATTN_HKV], 0, rows, o, m, l);
  }

  void run(int64_t begin, int64_t end) {
    const Team members(team, items);
    if (begin == end || members.over(2)) return;
    members.phase(0, [&](int64_t item) { part(item); });
    members.phase(1, [&](int64_t item) {
      if (item % parts == 0) whole(item / parts);
    });
  }
};

}  // namespace
