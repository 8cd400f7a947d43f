#include "weights.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

#include "aotc/seal.h"
#include "seal.h"
#include "status.h"

namespace aotc::rt {
namespace {

constexpr size_t kPathMax = 4096;

/// The weights' file: what the options say, else beside this object.
aotc_status find_path(const aotc_module_desc& module, const char* given, char path[kPathMax]) {
  const char* name = given ? given : module.weights_file;
  size_t directory = 0;
  Dl_info info;
  if (!given && dladdr(&module, &info) != 0 && info.dli_fname) {
    if (is_of_descriptor(info.dli_fname))
      return fail(AOTC_NOT_FOUND, "the artifact was opened from memory or a descriptor, and its weights are in a file: give its path (%s)",
                  name);
    const char* slash = strrchr(info.dli_fname, '/');
    directory = slash ? static_cast<size_t>(slash - info.dli_fname) + 1 : 0;
  }
  if (directory + strlen(name) >= kPathMax) return fail(AOTC_INVALID_ARGUMENT, "the path of the weights is too long: %s", name);
  if (directory) memcpy(path, info.dli_fname, directory);
  strcpy(path + directory, name);
  return AOTC_OK;
}

aotc_status open_file(const aotc_module_desc& module, const aotc_model_options& options, Weights* out) {
  char path[kPathMax], error[512];
  const unsigned char* data;
  uint64_t bytes;
  RT_TRY(find_path(module, options.weights_path, path));
  const int32_t what = options.flags & AOTC_MODEL_VERIFY_WEIGHTS ? AOTC_CHECK_ALL : AOTC_CHECK_SIZES;
  aotc_status status = aotc_map_file(path, &data, &bytes, error, sizeof error);
  if (status != AOTC_OK) return fail(status, "the weights file %s", error);
  *out = Weights{data, const_cast<unsigned char*>(data), bytes};
  status = aotc_weights_compare(data, bytes, path, what, module.weights_bytes, module.weights_hash, error, sizeof error);
  if (status == AOTC_OK) return AOTC_OK;
  weights_close(out);
  return fail(status, "the weights file %s", error);
}

}  // namespace

aotc_status weights_open(const aotc_module_desc& module, const aotc_model_options& options, Weights* out) {
  *out = Weights{static_cast<const uint8_t*>(module.weights_begin), nullptr, 0};
  if (module.weights_begin || module.weights_bytes == 0) return AOTC_OK;
  return open_file(module, options, out);
}

void weights_map_pages(const Weights& weights, uint64_t begin, uint64_t end) {
  constexpr uintptr_t kPage = 4096;
  constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ, of Linux 5.14; older C libraries do not name it
  if (begin >= end) return;
  const uintptr_t data = reinterpret_cast<uintptr_t>(weights.data), from = (data + begin) & ~(kPage - 1);
  void* first = reinterpret_cast<void*>(from);
  if (madvise(first, data + end - from, kPopulateRead) != 0) madvise(first, data + end - from, MADV_WILLNEED);
}

void weights_copy(const Weights& weights, uint64_t begin, uint64_t end, uint8_t* to) {
  constexpr uintptr_t kPage = 4096;
  constexpr uint64_t kChunk = 16u << 20;
  for (uint64_t at = begin; at < end; at += kChunk) {
    const uint64_t stop = at + kChunk < end ? at + kChunk : end;
    weights_map_pages(weights, at, stop);
    memcpy(to + (at - begin), weights.data + at, stop - at);
    const uintptr_t data = reinterpret_cast<uintptr_t>(weights.data);
    const uintptr_t first = (data + at + kPage - 1) & ~(kPage - 1), last = (data + stop) & ~(kPage - 1);  // whole pages alone
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }
}

void weights_close(Weights* weights) {
  if (weights->map) munmap(weights->map, weights->map_bytes);
  *weights = Weights{};
}

}  // namespace aotc::rt
