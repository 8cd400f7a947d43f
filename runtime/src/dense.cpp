#include "dense.h"

#include <string.h>

#include "status.h"

namespace aotc::rt {
namespace {

enum { kMaxRank = 64 };              // of PyTorch's tensors, too
constexpr int64_t kTile = 32;        // elements: a tile of 32 x 32 lies in the first cache for every element type
constexpr aotc_allocator kSystem{};  // mmap

struct Axis {
  int64_t size, stride;  // of the source, in elements
};

/// The axes without those of size 1, neighbours that are one run through memory joined.
int32_t simplified(const aotc_tensor& t, Axis* axes) {
  int32_t n = 0;
  for (int32_t d = 0; d < t.rank; ++d) {
    if (t.shape[d] == 1) continue;
    if (n > 0 && axes[n - 1].stride == t.strides[d] * t.shape[d])
      axes[n - 1] = {axes[n - 1].size * t.shape[d], t.strides[d]};
    else
      axes[n++] = {t.shape[d], t.strides[d]};
  }
  if (n == 0) axes[n++] = {1, 1};
  return n;
}

/// to[i * pitch + j] = from[i + j * step]
template <class T>
void transpose(const T* from, int64_t step, int64_t rows, int64_t cols, T* to, int64_t pitch) {
  for (int64_t i0 = 0; i0 < rows; i0 += kTile)
    for (int64_t j0 = 0; j0 < cols; j0 += kTile) {
      const int64_t i1 = i0 + kTile < rows ? i0 + kTile : rows, j1 = j0 + kTile < cols ? j0 + kTile : cols;
      for (int64_t i = i0; i < i1; ++i)
        for (int64_t j = j0; j < j1; ++j) to[i * pitch + j] = from[i + j * step];
    }
}

/// The last axis, or the last and the one whose elements lie side by side, within a walk over all others.
template <class T>
void gather(const aotc_tensor& t, void* out) {
  Axis axes[kMaxRank];
  const int32_t n = simplified(t, axes);
  const T* from = static_cast<const T*>(t.data);
  T* to = static_cast<T*>(out);
  const Axis last = axes[n - 1];
  int64_t pitch[kMaxRank], at[kMaxRank] = {};
  pitch[n - 1] = 1;
  for (int32_t d = n - 1; d-- > 0;) pitch[d] = pitch[d + 1] * axes[d + 1].size;
  int32_t beside = -1;
  for (int32_t d = 0; d < n - 1 && last.stride != 1; ++d)
    if (axes[d].stride == 1) beside = d;
  for (;;) {
    if (last.stride == 1)
      memcpy(to, from, static_cast<size_t>(last.size) * sizeof(T));
    else if (beside >= 0)
      transpose(from, last.stride, axes[beside].size, last.size, to, pitch[beside]);
    else
      for (int64_t i = 0; i < last.size; ++i) to[i] = from[i * last.stride];
    int32_t d = n - 1;
    while (d-- > 0) {
      if (d == beside) continue;
      from += axes[d].stride;
      to += pitch[d];
      if (++at[d] < axes[d].size) break;
      from -= axes[d].stride * axes[d].size;
      to -= pitch[d] * axes[d].size;
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

struct Bytes16 {
  uint64_t low, high;
};

}  // namespace

bool is_dense(const aotc_tensor& t, int32_t* dim, int64_t* expected) {
  int64_t stride = 1;
  for (int32_t d = t.rank; d-- > 0;) {
    if (t.shape[d] != 1 && t.strides[d] != stride) {
      *dim = d;
      *expected = stride;
      return false;
    }
    stride *= t.shape[d];  // cannot overflow: the shape's bytes were counted
  }
  return true;
}

bool needs_copy(const aotc_tensor& t, uint64_t bytes) {
  int32_t dim;
  int64_t expected;
  return t.strides && bytes > 0 && !is_dense(t, &dim, &expected);
}

aotc_status tensor_span(const char* name, const aotc_tensor& t, uint64_t dense, uint64_t* bytes) {
  *bytes = dense;
  if (!needs_copy(t, dense)) return AOTC_STATUS_OK;
  if (t.rank > kMaxRank) return fail(AOTC_STATUS_INVALID_ARGUMENT, "input '%s': strides of more than %d dimensions", name, kMaxRank);
  int64_t last = 0;
  bool fits = true;
  for (int32_t d = 0; d < t.rank; ++d) {
    if (t.shape[d] == 1) continue;
    if (t.strides[d] < 0)
      return fail(AOTC_STATUS_INVALID_ARGUMENT, "input '%s': the stride of dimension %d is %lld, but must be 0 or more", name, d,
                  static_cast<long long>(t.strides[d]));
    int64_t far;
    fits = fits && !__builtin_mul_overflow(t.shape[d] - 1, t.strides[d], &far) && !__builtin_add_overflow(last, far, &last);
  }
  uint64_t end = 0;
  fits = fits && !__builtin_mul_overflow(static_cast<uint64_t>(last) + 1, dtype_bytes(t.dtype), &end) && end <= INT64_MAX;
  if (!fits) return fail(AOTC_STATUS_INVALID_ARGUMENT, "input '%s': its strides reach beyond all memory", name);
  *bytes = end;
  return AOTC_STATUS_OK;
}

void copy_dense(const aotc_tensor& t, void* to) {
  switch (dtype_bytes(t.dtype)) {
    case 1: return gather<uint8_t>(t, to);
    case 2: return gather<uint16_t>(t, to);
    case 4: return gather<uint32_t>(t, to);
    case 8: return gather<uint64_t>(t, to);
    default: return gather<Bytes16>(t, to);
  }
}

aotc_status make_dense(aotc_context* c, const ShapeEntry& e, const aotc_tensor** in) {
  const aotc_method_desc& desc = *e.method->desc;
  uint64_t total = 0;
  for (uint32_t i = 0; i < desc.n_inputs; ++i)
    if (needs_copy((*in)[i], e.io_bytes[i])) total += align_up(e.io_bytes[i], kAlign);
  if (__builtin_expect(total == 0, 1)) return AOTC_STATUS_OK;
  const aotc_allocator& allocator = c->model->cuda ? kSystem : c->model->allocator;
  if (total > c->dense.bytes) {
    block_free(allocator, AOTC_DEVICE_HOST, &c->dense);
    if (!block_alloc(allocator, AOTC_DEVICE_HOST, total, &c->dense))
      return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for dense copies of %llu bytes of inputs with strides",
                  static_cast<unsigned long long>(total));
  }
  uint8_t* at = static_cast<uint8_t*>(c->dense.base);
  for (uint32_t i = 0; i < desc.n_inputs; ++i) {
    aotc_tensor& t = c->dense_in[i] = (*in)[i];
    if (!needs_copy(t, e.io_bytes[i])) continue;
    copy_dense(t, at);
    t.data = at;
    t.strides = nullptr;
    t.byte_size = e.io_bytes[i];
    at += align_up(e.io_bytes[i], kAlign);
  }
  *in = c->dense_in;
  return AOTC_STATUS_OK;
}

void free_dense(aotc_context* c) { block_free(c->model->cuda ? kSystem : c->model->allocator, AOTC_DEVICE_HOST, &c->dense); }

}  // namespace aotc::rt
