// Streamed weights: where a set's lie, and the copies of a run.
#include "streamed.h"

#include <stdlib.h>

#include "context.h"
#include "cuda.h"
#include "status.h"
#include "weight_set.h"

namespace aotc::rt {
namespace {

constexpr uint64_t kAlignWeight = 256;

aotc_status upload(const aotc_model& m, const uint8_t* blob, void* stream, WeightSet* set) {
  uint8_t *device = static_cast<uint8_t*>(set->own.base), *host = static_cast<uint8_t*>(set->pinned.base);
  for (uint32_t w = 0; w < m.module->n_weights; ++w) {
    const aotc_weight_desc& weight = m.module->weights[w];
    const uint64_t room = align_up(weight.bytes, kAlignWeight);
    if (m.streaming.place[w] == WeightPlace::device) {
      RT_TRY(cuda_copy(m.cuda, stream, CopyKind::to_device, device, blob + weight.offset, weight.bytes, "the weights"));
      set->at[w] = device;
      device += room;
    } else if (m.streaming.place[w] == WeightPlace::ring) {
      weights_copy(set->weights, weight.offset, weight.offset + weight.bytes, host);
      set->at[w] = host;
      host += room;
    }
  }
  return cuda_wait(m.cuda, stream, "the weights");
}

/// The copies whose place is free once step `done` is over; -1: at once.
aotc_status queue(aotc_context* c, const VariantInfo& variant, int32_t done) {
  Ring& ring = c->ring;
  Cuda* const cuda = c->model->cuda;
  for (; ring.queued < variant.n_copies && variant.copies[ring.queued].after <= done; ++ring.queued) {
    const StreamedCopy& copy = variant.copies[ring.queued];
    RT_TRY(cuda_copy(cuda, ring.stream, CopyKind::to_device, static_cast<uint8_t*>(ring.memory.base) + copy.offset,
                     c->weights->at[copy.weight], c->model->module->weights[copy.weight].bytes, "the weights"));
    if (ring.queued + 1 == variant.n_copies || variant.copies[ring.queued + 1].step != copy.step)
      RT_TRY(cuda_mark(cuda, ring.stream, ring.arrived[ring.queued]));
  }
  return AOTC_STATUS_OK;
}

/// Copies that are queued from now on begin after all that the context's stream holds.
aotc_status release(aotc_context* c) {
  RT_TRY(cuda_mark(c->model->cuda, c->stream, c->ring.released));
  return cuda_follow(c->model->cuda, c->ring.stream, c->ring.released);
}

}  // namespace

aotc_status streamed_upload(const aotc_model& m, const uint8_t* blob, WeightSet* set) {
  const Streaming& s = m.streaming;
  void *base = nullptr, *stream = nullptr;
  if (s.device_bytes) {
    RT_TRY(cuda_alloc(m.cuda, s.device_bytes, "the weights", &base));
    set->own = {base, s.device_bytes};
  }
  if (s.host_bytes) {
    RT_TRY(cuda_alloc_pinned(m.cuda, s.host_bytes, "the weights that are streamed", &base));
    set->pinned = {base, s.host_bytes};
  }
  RT_TRY(cuda_make_stream(m.cuda, &stream));
  const aotc_status status = upload(m, blob, stream, set);
  cuda_free_stream(m.cuda, stream);
  return status;
}

aotc_status ring_create(aotc_context* c) {
  Ring& ring = c->ring;
  const Streaming& s = c->model->streaming;
  Cuda* const cuda = c->model->cuda;
  if (s.max_copies == 0) return AOTC_STATUS_OK;
  void* base = nullptr;
  RT_TRY(cuda_alloc(cuda, s.ring_bytes, "a ring for the weights that are streamed", &base));
  ring.memory = {base, s.ring_bytes};
  ring.arrived = take<void*>(s.max_copies);
  if (!ring.arrived) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the context");
  RT_TRY(cuda_make_stream(cuda, &ring.stream));
  RT_TRY(cuda_make_event(cuda, EventKind::order, &ring.released));
  for (uint32_t i = 0; i < s.max_copies; ++i) RT_TRY(cuda_make_event(cuda, EventKind::order, &ring.arrived[i]));
  return AOTC_STATUS_OK;
}

void ring_destroy(aotc_context* c) {
  Ring& ring = c->ring;
  Cuda* const cuda = c->model->cuda;
  if (ring.stream) {
    cuda_wait(cuda, ring.stream);
    cuda_free_stream(cuda, ring.stream);
  }
  if (ring.released) cuda_free_event(cuda, ring.released);
  for (uint32_t i = 0; ring.arrived && i < c->model->streaming.max_copies && ring.arrived[i]; ++i) cuda_free_event(cuda, ring.arrived[i]);
  if (ring.memory.base) cuda_free(cuda, ring.memory.base);
  free(ring.arrived);
  ring = Ring{};
}

aotc_status ring_begin(aotc_context* c, const VariantInfo& variant, bool capturing) {
  Ring& ring = c->ring;
  ring.queued = ring.awaited = 0;
  ring.captured |= capturing;
  if (ring.captured) RT_TRY(release(c));  // launches of that graph are not known here
  if (c->flags & AOTC_CONTEXT_POISON) RT_TRY(cuda_fill(c->model->cuda, ring.stream, ring.memory.base, 0xff, ring.memory.bytes));
  return queue(c, variant, -1);
}

aotc_status ring_before(aotc_context* c, const VariantInfo& variant, uint32_t step, bool* waits) {
  Ring& ring = c->ring;
  const uint32_t from = ring.awaited;
  while (ring.awaited < ring.queued && variant.copies[ring.awaited].step == step) ++ring.awaited;
  *waits = ring.awaited > from;
  return *waits ? cuda_follow(c->model->cuda, c->stream, ring.arrived[ring.awaited - 1]) : AOTC_STATUS_OK;
}

aotc_status ring_after(aotc_context* c, const VariantInfo& variant, uint32_t step) {
  const Ring& ring = c->ring;
  const int32_t done = static_cast<int32_t>(step);
  if (ring.queued == variant.n_copies || variant.copies[ring.queued].after > done) return AOTC_STATUS_OK;
  RT_TRY(release(c));
  return queue(c, variant, done);
}

aotc_status ring_end(aotc_context* c, bool capturing) {
  Ring& ring = c->ring;
  Cuda* const cuda = c->model->cuda;
  if (ring.queued > ring.awaited) {  // the run ended early
    ring.awaited = ring.queued;
    RT_TRY(cuda_mark(cuda, ring.stream, ring.arrived[ring.queued - 1]));
    RT_TRY(cuda_follow(cuda, c->stream, ring.arrived[ring.queued - 1]));
  }
  return capturing ? AOTC_STATUS_OK : release(c);
}

}  // namespace aotc::rt
