// States that go from one context to another, or from one place to another.
#include "states.h"
#include "status.h"
#include "weight_set.h"

namespace aotc::rt {
namespace {

/// The same numbers of elements along the same dimensions.
aotc_status check_alike(const Ranges& to, const Ranges& from) {
  for (int32_t i = 0; i < to.n; ++i)
    if (to.at[i].dim != from.at[i].dim || to.at[i].length != from.at[i].length)
      return fail(AOTC_STATUS_SHAPE_MISMATCH,
                  "states_copy: range %d is to %lld elements along dimension %d, but from %lld along dimension %d", i,
                  static_cast<long long>(to.at[i].length), to.at[i].dim, static_cast<long long>(from.at[i].length), from.at[i].dim);
  return AOTC_STATUS_OK;
}

bool overlap(const Part& a, const Part& b) {
  for (int32_t d = 0; d < a.rank; ++d)
    if (a.from[d] + a.count[d] <= b.from[d] || b.from[d] + b.count[d] <= a.from[d]) return false;
  return a.bytes() != 0;
}

/// Parts of one state for copying; *stays: it is left alone.
aotc_status pair_of(const aotc_state_desc& state, const Ranges& ranges_to, const Ranges& ranges_from, bool within, Part* to, Part* from,
                    bool* stays) {
  bool named;
  part_of_all(state, ranges_to, to, &named);
  part_of_all(state, ranges_from, from, &named);
  *stays = within && !named;
  for (int32_t d = 0; d < to->rank; ++d)
    if (to->count[d] != from->count[d])
      return fail(AOTC_STATUS_SHAPE_MISMATCH,
                  "states_copy: of state '%s' one range has %lld elements along dimension %d, and the other %lld", state.name,
                  static_cast<long long>(from->count[d]), d, static_cast<long long>(to->count[d]));
  if (within && named && overlap(*to, *from))
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "states_copy: the two parts of state '%s' overlap", state.name);
  return AOTC_STATUS_OK;
}

/// Bytes from an element of one part to its like in the other, of the same state.
uint64_t distance(const Part& to, const Part& from) {
  uint64_t bytes = 0, stride = to.element;
  for (int32_t d = to.rank; d-- > 0;) {
    bytes += static_cast<uint64_t>(to.from[d] - from.from[d]) * stride;
    stride *= static_cast<uint64_t>(to.dims[d]);
  }
  return bytes;  // modulo 2^64
}

/// Copies a part. Parts of one shape are cut into the same pieces.
aotc_status copy_part(aotc_context* to, const aotc_context& from, uint32_t s, const Part& part_to, const Part& part_from) {
  const uint64_t far = distance(part_to, part_from);
  return for_each_piece(part_from, [&](uint64_t offset, uint64_t bytes) {
    return state_move(to, CopyKind::on_device, to->states[s].now + (offset + far), from.states[s].now + offset, bytes);
  });
}

aotc_status check_models(const char* what, const aotc_context& to, const aotc_context& from) {
  if (to.model != from.model) return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s: the contexts are of two models", what);
  return AOTC_STATUS_OK;
}

/// The states of `to` map the pages of those of `from`. False: they cannot; nothing was changed.
bool share(aotc_context* to, aotc_context* from, const Ranges& ranges) {
  Block block;
  if (!states_freeze(from) || !states_map(*from, ranges.n > 0, &block)) return false;
  const uint8_t* const base = static_cast<const uint8_t*>(from->state_block.base);
  const aotc_module_desc& module = *from->model->module;
  for (uint32_t s = 0; s < module.n_states && ranges.n > 0; ++s) {
    Part part;
    bool named;
    part_of_all(module.states[s], ranges, &part, &named);
    const uint64_t at = static_cast<uint64_t>(from->states[s].now - base);
    const aotc_status status = for_each_piece(part, [&](uint64_t offset, uint64_t bytes) {
      return aotc_status{states_map_part(*from, block, at + offset, bytes) ? AOTC_STATUS_OK : AOTC_STATUS_OUT_OF_MEMORY};
    });
    if (status == AOTC_STATUS_OK) continue;
    states_drop(&block);
    return false;
  }
  states_adopt(to, *from, block, ranges.n == 0);
  return true;
}

/// What lies outside of the ranges has its initial content. zeros: it holds zeros already.
aotc_status reset_outside(aotc_context* c, const Ranges& ranges, bool zeros) {
  for (uint32_t s = 0; s < c->model->module->n_states; ++s) {
    Part part;
    bool named;
    if (zeros && !state_has_initial(*c, s)) continue;
    part_of_all(c->model->module->states[s], ranges, &part, &named);
    RT_TRY(for_each_piece_outside(part, [&](uint64_t offset, uint64_t bytes) { return state_reset_piece(c, s, offset, bytes); }));
  }
  return AOTC_STATUS_OK;
}

/// Of contexts that are locked, after the checks.
aotc_status copy_all(aotc_context* to, aotc_context* from, const Ranges& ranges_to, const Ranges& ranges_from) {
  const aotc_module_desc& module = *to->model->module;
  RT_TRY(states_defined(*from));
  const CudaScope scope(to->model->cuda);
  RT_TRY(scope.status());
  if (to->model->cuda) RT_TRY(cuda_alive(*to->model->cuda));
  if (to != from) RT_TRY(states_wait(from));
  RT_TRY(states_touch(to));
  for (uint32_t s = 0; s < module.n_states; ++s) {
    Part part_to, part_from;
    bool stays;
    RT_TRY(pair_of(module.states[s], ranges_to, ranges_from, to == from, &part_to, &part_from, &stays));
    if (!stays) RT_TRY(copy_part(to, *from, s, part_to, part_from));
    if (part_to.whole()) to->states[s].undefined = false;
  }
  return states_wait(to);
}

}  // namespace

aotc_status states_fork(aotc_context* to, aotc_context* from, const Ranges& ranges) {
  RT_TRY(check_models("states_fork", *to, *from));
  if (to == from) return fail(AOTC_STATUS_INVALID_ARGUMENT, "states_fork: both contexts are the same");
  const aotc_module_desc& module = *to->model->module;
  RT_TRY(check_for_all("states_fork", module, ranges));
  const ContextLock lock(to), lock_from(from);
  RT_TRY(lock.status());
  RT_TRY(lock_from.status());
  RT_TRY(states_defined(*from));
  const WeightsInUse weights(to);
  const CudaScope scope(to->model->cuda);
  RT_TRY(scope.status());
  if (module.n_states == 0) return AOTC_STATUS_OK;
  if (to->model->cuda) RT_TRY(cuda_alive(*to->model->cuda));
  const bool shared = share(to, from, ranges);
  if (!shared) {
    RT_TRY(states_wait(from));
    RT_TRY(states_touch(to));
    for (uint32_t s = 0; s < module.n_states; ++s) {
      Part part;
      bool named;
      part_of_all(module.states[s], ranges, &part, &named);
      RT_TRY(copy_part(to, *from, s, part, part));
    }
  }
  if (ranges.n > 0) RT_TRY(reset_outside(to, ranges, shared));
  RT_TRY(states_wait(to));
  for (uint32_t s = 0; s < module.n_states; ++s) to->states[s].undefined = false;
  return AOTC_STATUS_OK;
}

aotc_status states_copy(aotc_context* to, const Ranges& ranges_to, aotc_context* from, const Ranges& ranges_from) {
  RT_TRY(check_models("states_copy", *to, *from));
  const bool within = to == from;
  const aotc_module_desc& module = *to->model->module;
  RT_TRY(check_for_all("states_copy", module, ranges_to));
  RT_TRY(check_for_all("states_copy", module, ranges_from));
  RT_TRY(check_alike(ranges_to, ranges_from));
  Part part_to, part_from;
  bool stays;
  for (uint32_t s = 0; s < module.n_states; ++s)
    RT_TRY(pair_of(module.states[s], ranges_to, ranges_from, within, &part_to, &part_from, &stays));
  if (within && ranges_to.n == 0)
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "states_copy: both contexts are the same, and no ranges are given");
  const ContextLock lock(to);
  RT_TRY(lock.status());
  if (within) return copy_all(to, from, ranges_to, ranges_from);
  const ContextLock lock_from(from);
  RT_TRY(lock_from.status());
  return copy_all(to, from, ranges_to, ranges_from);
}

}  // namespace aotc::rt
