// What the runtime queues on a stream.
#include "cuda.h"

#include "aotc/dtype.h"
#include "cuda_driver.h"
#include "status.h"

namespace aotc::rt {
namespace {

constexpr int kProgrammaticStreamSerialization = 6;  // CU_LAUNCH_ATTRIBUTE_*

aotc_status launch(Cuda* cuda, void* stream, const CudaLaunch& l, const char* at) {
  void* parameters[] = {l.args};
  if (l.overlaps && cuda->driver.launch_ex) {
    LaunchAttribute attribute{};
    attribute.id = kProgrammaticStreamSerialization;
    attribute.value = 1;
    const LaunchConfig config = {
        {l.grid[0], l.grid[1], l.grid[2]}, {l.block[0], l.block[1], l.block[2]}, l.smem_bytes, stream, &attribute, 1};
    return cuda_check(cuda, cuda->driver.launch_ex(&config, cuda->functions[l.kernel], parameters, nullptr), "launching a kernel", at);
  }
  return cuda_check(cuda,
                    cuda->driver.launch(cuda->functions[l.kernel], l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1], l.block[2],
                                        l.smem_bytes, stream, parameters, nullptr),
                    "launching a kernel", at);
}

}  // namespace

aotc_status cuda_copy(Cuda* cuda, void* stream, CopyKind kind, void* to, const void* from, uint64_t bytes, const char* at) {
  if (bytes == 0) return AOTC_STATUS_OK;
  const CUresult code = kind == CopyKind::to_device ? cuda->driver.copy_in(address(to), from, bytes, stream)
                        : kind == CopyKind::to_host ? cuda->driver.copy_out(to, address(from), bytes, stream)
                                                    : cuda->driver.copy_on(address(to), address(from), bytes, stream);
  return cuda_check(cuda, code, "copying", at);
}

aotc_status cuda_fill(Cuda* cuda, void* stream, void* to, uint8_t value, uint64_t bytes, const char* at) {
  return bytes ? cuda_check(cuda, cuda->driver.fill(address(to), value, bytes, stream), "filling memory", at) : AOTC_STATUS_OK;
}

aotc_status cuda_wait(Cuda* cuda, void* stream, const char* at) {
  return cuda_check(cuda, cuda->driver.stream_wait(stream), "waiting for the stream", at);
}

aotc_status cuda_is_capturing(Cuda* cuda, void* stream, bool* out) {
  int status = 0;
  RT_TRY(cuda_check(cuda, cuda->driver.stream_capturing(stream, &status), "asking for the stream's state"));
  *out = status != 0;
  return AOTC_STATUS_OK;
}

aotc_status cuda_do(Cuda* cuda, void* stream, const CudaWork& w) {
  switch (w.kind) {
    case CudaWork::nothing: return AOTC_STATUS_OK;
    case CudaWork::kernel: return launch(cuda, stream, w.launch, w.label);
    case CudaWork::copy: return cuda_copy(cuda, stream, CopyKind::on_device, w.to, w.from, w.bytes, w.label);
    case CudaWork::zero: return cuda_fill(cuda, stream, w.to, 0, w.bytes, w.label);
  }
  return AOTC_STATUS_OK;
}

aotc_status cuda_encode_map(Cuda* cuda, const aotc_map_desc& map, const int64_t* slots, void* data, void* out) {
  struct Row {
    uint32_t dtype;
    int number;
  };
  constexpr Row kTypes[] = {{AOTC_DTYPE_F16, 6},
                            {AOTC_DTYPE_F32, 7},
                            {AOTC_DTYPE_BF16, 9},
                            {AOTC_DTYPE_F8E4M3FN, 0},
                            {AOTC_DTYPE_F8E5M2, 0}};  // CU_TENSOR_MAP_DATA_TYPE_*, of 8 bits that of bytes
  constexpr int kSwizzles[] = {0, 32, 64, 128};       // CU_TENSOR_MAP_SWIZZLE_*
  constexpr int kNoInterleave = 0, kPromoteTo128 = 2, kZeros = 0;
  if (map.windows ? !cuda->driver.encode_windows : !cuda->driver.encode_map)
    return fail(AOTC_STATUS_INCOMPATIBLE, "the CUDA driver of this machine is too old: it lacks %s",
                map.windows ? "cuTensorMapEncodeIm2col" : "cuTensorMapEncodeTiled");
  int type = -1, swizzle = -1;
  for (const Row& r : kTypes)
    if (r.dtype == map.dtype) type = r.number;
  for (int i = 0; i < 4; ++i)
    if (kSwizzles[i] == map.swizzle_bytes) swizzle = i;
  if (type < 0 || swizzle < 0 || map.rank < 2 || map.rank > AOTC_MAP_MAX_RANK) return fail(AOTC_STATUS_INTERNAL, "a tensor map of no kind");
  uint64_t dims[AOTC_MAP_MAX_RANK] = {}, strides[AOTC_MAP_MAX_RANK] = {};
  uint32_t box[AOTC_MAP_MAX_RANK] = {}, steps[AOTC_MAP_MAX_RANK] = {};
  for (int d = 0; d < map.rank; ++d) {
    dims[d] = static_cast<uint64_t>(slots[map.dim_slot[d]]);
    if (d > 0) strides[d - 1] = static_cast<uint64_t>(slots[map.stride_slot[d - 1]]);
    box[d] = static_cast<uint32_t>(map.box[d]);
    steps[d] = map.windows && d > 0 && d < map.rank - 1 ? static_cast<uint32_t>(map.steps[d - 1]) : 1;
  }
  if (map.windows)
    return cuda_check(cuda,
                      cuda->driver.encode_windows(out, type, static_cast<uint32_t>(map.rank), data, dims, strides, map.lower, map.upper,
                                                  box[0], box[1], steps, kNoInterleave, swizzle, kPromoteTo128, kZeros),
                      "describing windows of a tensor");
  return cuda_check(cuda,
                    cuda->driver.encode_map(out, type, static_cast<uint32_t>(map.rank), data, dims, strides, box, steps, kNoInterleave,
                                            swizzle, kPromoteTo128, kZeros),
                    "describing a tensor");
}

aotc_status cuda_make_stream(Cuda* cuda, void** out) {
  constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
  return cuda_check(cuda, cuda->driver.stream_create(out, kNonBlocking), "making a stream");
}
void cuda_free_stream(Cuda* cuda, void* stream) { cuda->driver.stream_destroy(stream); }

aotc_status cuda_make_event(Cuda* cuda, EventKind kind, void** out) {
  constexpr unsigned kNoTimes = 2;  // CU_EVENT_DISABLE_TIMING
  return cuda_check(cuda, cuda->driver.event_create(out, kind == EventKind::timed ? 0 : kNoTimes), "making an event");
}
void cuda_free_event(Cuda* cuda, void* event) { cuda->driver.event_destroy(event); }
aotc_status cuda_mark(Cuda* cuda, void* stream, void* event) {
  return cuda_check(cuda, cuda->driver.event_record(event, stream), "recording an event");
}
aotc_status cuda_follow(Cuda* cuda, void* stream, void* event) {
  return cuda_check(cuda, cuda->driver.stream_follow(stream, event, 0), "waiting for an event");
}
aotc_status cuda_time_between(Cuda* cuda, void* from, void* to, uint64_t* ns) {
  float ms = 0;
  RT_TRY(cuda_check(cuda, cuda->driver.event_wait(to), "waiting for an event"));
  RT_TRY(cuda_check(cuda, cuda->driver.event_ms(&ms, from, to), "reading the time of an event"));
  *ns = static_cast<uint64_t>(static_cast<double>(ms) * 1e6);
  return AOTC_STATUS_OK;
}

}  // namespace aotc::rt
