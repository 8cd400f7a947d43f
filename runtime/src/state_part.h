#pragma once
// Parts of states: which elements ranges name, and in which pieces of memory they lie.
#include <stdint.h>

#include "aotc/aotc.h"
#include "model.h"

namespace aotc::rt {

/// As the caller gives them.
struct Ranges {
  const aotc_state_range* at = nullptr;
  int32_t n = 0;
};

enum { kMaxStateRank = 64 };

/// A box of a dense tensor.
struct Part {
  int32_t rank = 0;
  uint64_t element = 1;  ///< bytes
  int64_t dims[kMaxStateRank], from[kMaxStateRank], count[kMaxStateRank];

  bool whole() const {
    for (int32_t d = 0; d < rank; ++d)
      if (count[d] != dims[d]) return false;
    return true;
  }
  uint64_t bytes() const {
    uint64_t n = element;
    for (int32_t d = 0; d < rank; ++d) n *= static_cast<uint64_t>(count[d]);
    return n;
  }
};

/// The ranges alone: no null, no negative number, no reserved bits, no dimension twice. `what` begins the message.
aotc_status check_ranges(const char* what, const Ranges& ranges);
/// The part that the ranges name of this very state; SHAPE_MISMATCH where it does not have it.
aotc_status part_of(const char* what, const aotc_state_desc& state, const Ranges& ranges, Part* out);
/// What a state has of the ranges that name parts of all states; *named false: it lacks a dimension, and the part is the whole state.
void part_of_all(const aotc_state_desc& state, const Ranges& ranges, Part* out, bool* named);
/// After check_ranges: SHAPE_MISMATCH where no state has all that they name.
aotc_status check_for_all(const char* what, const aotc_module_desc& module, const Ranges& ranges);

/// Calls piece(offset, bytes) -> aotc_status for each contiguous piece of the part, in order, until one fails.
template <class Piece>
aotc_status for_each_piece(const Part& p, Piece piece) {
  if (p.bytes() == 0) return AOTC_STATUS_OK;
  int32_t outer = p.rank;  // dimensions before it are walked; those from it on are one piece
  uint64_t run = p.element;
  while (outer > 0 && p.count[outer - 1] == p.dims[outer - 1]) run *= static_cast<uint64_t>(p.dims[--outer]);
  const uint64_t inner = run;
  uint64_t first = 0;
  if (outer > 0) {
    --outer;
    run = inner * static_cast<uint64_t>(p.count[outer]);
    first = inner * static_cast<uint64_t>(p.from[outer]);
  }
  uint64_t stride[kMaxStateRank];
  for (uint64_t d = static_cast<uint64_t>(outer), s = outer < p.rank ? inner * static_cast<uint64_t>(p.dims[outer]) : inner; d-- > 0;) {
    stride[d] = s;
    s *= static_cast<uint64_t>(p.dims[d]);
  }
  int64_t at[kMaxStateRank] = {};
  for (;;) {
    uint64_t offset = first;
    for (int32_t d = 0; d < outer; ++d) offset += static_cast<uint64_t>(p.from[d] + at[d]) * stride[d];
    const aotc_status status = piece(offset, run);
    if (status != AOTC_STATUS_OK) return status;
    int32_t d = outer - 1;
    while (d >= 0 && ++at[d] == p.count[d]) at[d--] = 0;
    if (d < 0) return AOTC_STATUS_OK;
  }
}

/// Calls piece as for_each_piece for all that is not in the part.
template <class Piece>
aotc_status for_each_piece_outside(const Part& part, Piece piece) {
  Part box = part;  // inside along the dimensions before d, outside along d, all along those behind
  for (int32_t d = 0; d < part.rank; ++d) box.from[d] = 0, box.count[d] = part.dims[d];
  for (int32_t d = 0; d < part.rank; ++d) {
    box.from[d] = 0, box.count[d] = part.from[d];
    aotc_status status = for_each_piece(box, piece);
    if (status != AOTC_STATUS_OK) return status;
    box.from[d] = part.from[d] + part.count[d], box.count[d] = part.dims[d] - box.from[d];
    status = for_each_piece(box, piece);
    if (status != AOTC_STATUS_OK) return status;
    box.from[d] = part.from[d], box.count[d] = part.count[d];
  }
  return AOTC_STATUS_OK;
}

}  // namespace aotc::rt
