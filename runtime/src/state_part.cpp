#include "state_part.h"

#include "status.h"

namespace aotc::rt {
namespace {

using Wide = long long;

/// The dimension of a tensor of this rank, or -1.
int32_t resolved(int32_t dim, int32_t rank) {
  const int32_t d = dim < 0 ? dim + rank : dim;
  return d >= 0 && d < rank ? d : -1;
}

/// The whole state.
Part whole_of(const aotc_state_desc& state) {
  Part p;
  p.rank = state.rank < kMaxStateRank ? state.rank : kMaxStateRank;
  uint64_t n = 1;
  for (int32_t d = 0; d < p.rank; ++d) {
    p.dims[d] = p.count[d] = state.dims[d];
    p.from[d] = 0;
    n *= static_cast<uint64_t>(state.dims[d]);
  }
  p.element = n ? state.bytes / n : 0;
  return p;
}

}  // namespace

aotc_status check_ranges(const char* what, const Ranges& ranges) {
  if (ranges.n < 0 || ranges.n > kMaxStateRank) return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s: %d ranges", what, ranges.n);
  if (ranges.n > 0 && !ranges.at) return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s: ranges is null", what);
  for (int32_t i = 0; i < ranges.n; ++i) {
    const aotc_state_range& r = ranges.at[i];
    if (r.reserved) return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s: reserved of a range must be zero", what);
    if (r.dim < -kMaxStateRank || r.dim >= kMaxStateRank)
      return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s: there is no dimension %d", what, r.dim);
    if (r.offset < 0 || r.length < 0 || r.offset > INT64_MAX - r.length)
      return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s: a range of %lld elements from %lld on along dimension %d", what,
                  static_cast<Wide>(r.length), static_cast<Wide>(r.offset), r.dim);
    for (int32_t k = 0; k < i; ++k)
      if (ranges.at[k].dim == r.dim) return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s: two ranges are along dimension %d", what, r.dim);
  }
  return AOTC_STATUS_OK;
}

aotc_status part_of(const char* what, const aotc_state_desc& state, const Ranges& ranges, Part* out) {
  RT_TRY(check_ranges(what, ranges));
  *out = whole_of(state);
  bool ranged[kMaxStateRank] = {};
  for (int32_t i = 0; i < ranges.n; ++i) {
    const aotc_state_range& r = ranges.at[i];
    const int32_t d = resolved(r.dim, out->rank);
    if (d < 0)
      return fail(AOTC_STATUS_SHAPE_MISMATCH, "%s: state '%s' has %d dimensions, and a range is along dimension %d", what, state.name,
                  state.rank, r.dim);
    if (ranged[d]) return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s: two ranges are along dimension %d of state '%s'", what, d, state.name);
    ranged[d] = true;
    if (r.offset + r.length > out->dims[d])
      return fail(AOTC_STATUS_SHAPE_MISMATCH, "%s: state '%s' has %lld elements along dimension %d, and a range has %lld from %lld on",
                  what, state.name, static_cast<Wide>(out->dims[d]), d, static_cast<Wide>(r.length), static_cast<Wide>(r.offset));
    out->from[d] = r.offset;
    out->count[d] = r.length;
  }
  return AOTC_STATUS_OK;
}

void part_of_all(const aotc_state_desc& state, const Ranges& ranges, Part* out, bool* named) {
  *out = whole_of(state);
  *named = true;
  bool ranged[kMaxStateRank] = {};
  for (int32_t i = 0; i < ranges.n; ++i) {
    const int32_t d = resolved(ranges.at[i].dim, out->rank);
    *named = *named && d >= 0 && !ranged[d];
    if (d >= 0) ranged[d] = true;
  }
  if (!*named) return;
  for (int32_t i = 0; i < ranges.n; ++i) {
    const aotc_state_range& r = ranges.at[i];
    const int32_t d = resolved(r.dim, out->rank);
    out->from[d] = r.offset < out->dims[d] ? r.offset : out->dims[d];
    const int64_t left = out->dims[d] - out->from[d];
    out->count[d] = r.length < left ? r.length : left;
  }
}

aotc_status check_for_all(const char* what, const aotc_module_desc& module, const Ranges& ranges) {
  RT_TRY(check_ranges(what, ranges));
  if (ranges.n == 0) return AOTC_STATUS_OK;
  for (uint32_t s = 0; s < module.n_states; ++s) {
    Part part;
    bool all;
    part_of_all(module.states[s], ranges, &part, &all);
    for (int32_t i = 0; i < ranges.n && all; ++i) {
      const aotc_state_range& r = ranges.at[i];
      all = part.count[resolved(r.dim, part.rank)] == r.length && r.offset <= part.dims[resolved(r.dim, part.rank)];
    }
    if (all) return AOTC_STATUS_OK;
  }
  const aotc_state_range& r = ranges.at[0];
  return fail(AOTC_STATUS_SHAPE_MISMATCH, "%s: no state has %lld elements from %lld on along dimension %d%s", what,
              static_cast<Wide>(r.length), static_cast<Wide>(r.offset), r.dim, ranges.n > 1 ? " and what the other ranges name" : "");
}

}  // namespace aotc::rt
