#include "weights.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "aotc/seal.h"
#include "seal.h"
#include "status.h"

namespace aotc::rt {
namespace {

constexpr uintptr_t kPage = 4096;

/// The weights' file: what the options say, else beside this object.
aotc_status find_path(const aotc_module_desc& module, const char* given, char path[kPathMax]) {
  const char* name = given ? given : module.weights_file;
  size_t directory = 0;
  char buffer[kPathMax];
  const char* own = given ? nullptr : own_path(buffer);
  if (own) {
    if (is_of_descriptor(own))
      return fail(AOTC_STATUS_NOT_FOUND,
                  "the artifact was opened from memory or a descriptor, and its weights are in a file: give its path (%s)", name);
    const char* slash = strrchr(own, '/');
    directory = slash ? static_cast<size_t>(slash - own) + 1 : 0;
  }
  if (directory + strlen(name) >= kPathMax) return fail(AOTC_STATUS_INVALID_ARGUMENT, "the path of the weights is too long: %s", name);
  if (directory) memcpy(path, own, directory);
  strcpy(path + directory, name);
  return AOTC_STATUS_OK;
}

/// A mapped file as it is, or why it does not fit.
aotc_status take_file(const aotc_module_desc& module, const unsigned char* data, uint64_t bytes, const char* path, bool verify,
                      Weights* out) {
  char error[512];
  const int32_t what = verify ? AOTC_CHECK_ALL : AOTC_CHECK_SIZES;
  *out = Weights{};
  out->data = data, out->map = const_cast<unsigned char*>(data), out->map_bytes = bytes, out->of_file = true;
  const aotc_status status =
      module.weights_layout
          ? aotc_weights_fit(data, bytes, path, what, module.weights_bytes, module.weights_hash, module.weights_layout, error, sizeof error)
          : aotc_weights_compare(data, bytes, path, what, module.weights_bytes, module.weights_hash, error, sizeof error);
  if (status == AOTC_STATUS_OK) return AOTC_STATUS_OK;
  weights_close(out, {}, false);
  return fail(status, "the weights file %s", error);
}

aotc_status open_path(const aotc_module_desc& module, const char* path, bool verify, Weights* out) {
  char error[512];
  const unsigned char* data;
  uint64_t bytes;
  const aotc_status status = aotc_map_file(path, &data, &bytes, error, sizeof error);
  if (status != AOTC_STATUS_OK) return fail(status, "the weights file %s", error);
  return take_file(module, data, bytes, path, verify, out);
}

aotc_status open_fd(const aotc_module_desc& module, int fd, bool verify, Weights* out) {
  char error[512], name[64] = "";
  const unsigned char* data;
  uint64_t bytes;
  Text{name, name + sizeof name - 1}.add("of descriptor %d", fd);
  const off_t offset = lseek(fd, 0, SEEK_CUR);
  const aotc_status status = aotc_map_descriptor(fd, name, &data, &bytes, error, sizeof error);
  if (offset >= 0) lseek(fd, offset, SEEK_SET);
  if (status != AOTC_STATUS_OK) return fail(status, "the weights file %s", error);
  return take_file(module, data, bytes, name, verify, out);
}

aotc_status fits(const aotc_module_desc& module, const uint8_t* data, uint64_t bytes, const char* name, bool verify) {
  char error[512];
  const aotc_status status = aotc_weights_fit(data, bytes, name, verify ? AOTC_CHECK_ALL : AOTC_CHECK_SIZES, module.weights_bytes,
                                              module.weights_hash, module.weights_layout, error, sizeof error);
  return status == AOTC_STATUS_OK ? AOTC_STATUS_OK : fail(status, "%s", error);
}

aotc_status take_block(const aotc_module_desc& module, const aotc_allocator& allocator, Weights* out) {
  const uint64_t bytes = module.weights_bytes + sizeof(aotc_weights_trailer);
  if (!block_alloc(allocator, AOTC_DEVICE_HOST, bytes, &out->memory))
    return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for weights of %llu bytes", static_cast<unsigned long long>(bytes));
  out->data = static_cast<const uint8_t*>(out->memory.base);
  return AOTC_STATUS_OK;
}

constexpr char kInMemory[] = "the weights in memory";

aotc_status open_memory(const aotc_module_desc& module, const aotc_weights_source& source, bool verify, const aotc_allocator& allocator,
                        Weights* out) {
  const uint8_t* data = static_cast<const uint8_t*>(source.data);
  RT_TRY(fits(module, data, source.bytes, kInMemory, verify));
  if (!source.release) {
    RT_TRY(take_block(module, allocator, out));
    memcpy(out->memory.base, data, source.bytes);
    return AOTC_STATUS_OK;
  }
  if (reinterpret_cast<uintptr_t>(data) % kAlign)
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "%s are not aligned to %zu bytes", kInMemory, static_cast<size_t>(kAlign));
  out->data = data;
  return AOTC_STATUS_OK;
}

aotc_status read_all(const aotc_module_desc& module, const aotc_weights_source& source, bool verify, const aotc_allocator& allocator,
                     Weights* out) {
  constexpr uint64_t kPiece = 16u << 20;
  RT_TRY(take_block(module, allocator, out));
  uint8_t* const to = static_cast<uint8_t*>(out->memory.base);
  const auto piece = [&](uint64_t at, uint64_t bytes) {
    const aotc_status status = source.read(source.user, at, to + at, bytes);
    return status == AOTC_STATUS_OK
               ? AOTC_STATUS_OK
               : fail(status, "reading bytes %llu to %llu of the weights failed: %s", static_cast<unsigned long long>(at),
                      static_cast<unsigned long long>(at + bytes), status_name(status));
  };
  RT_TRY(piece(module.weights_bytes, sizeof(aotc_weights_trailer)));
  RT_TRY(fits(module, to, module.weights_bytes + sizeof(aotc_weights_trailer), "what was read", false));
  for (uint64_t at = 0; at < module.weights_bytes; at += kPiece)
    RT_TRY(piece(at, module.weights_bytes - at < kPiece ? module.weights_bytes - at : kPiece));
  return verify ? fits(module, to, module.weights_bytes + sizeof(aotc_weights_trailer), "what was read", true) : AOTC_STATUS_OK;
}

}  // namespace

aotc_status weights_open_own(const aotc_module_desc& module, const aotc_model_options& options, Weights* out) {
  *out = Weights{};
  const bool verify = options.flags & AOTC_MODEL_VERIFY_WEIGHTS;
  if (options.weights_path && module.weights_begin && !module.weights_layout)
    return fail(AOTC_STATUS_INCOMPATIBLE, "this artifact takes no weights but its own");
  if (options.weights_path && module.weights_layout) return open_path(module, options.weights_path, verify, out);
  out->data = static_cast<const uint8_t*>(module.weights_begin);
  out->of_file = out->data != nullptr;
  if (module.weights_begin || module.weights_bytes == 0) return AOTC_STATUS_OK;
  char path[kPathMax], error[512];
  const unsigned char* data;
  uint64_t bytes;
  RT_TRY(find_path(module, options.weights_path, path));
  const aotc_status status = aotc_map_file(path, &data, &bytes, error, sizeof error);
  if (status != AOTC_STATUS_OK) return fail(status, "the weights file %s", error);
  aotc_module_desc strict = module;  // the file of its name is the one that was built with it
  strict.weights_layout = 0;
  return take_file(strict, data, bytes, path, verify, out);
}

aotc_status source_given(const aotc_weights_source& source, bool* given) {
  const int n = (source.path != nullptr) + (source.data != nullptr) + (source.read != nullptr) + ((source.flags & AOTC_WEIGHTS_FD) != 0);
  if (source.flags & ~static_cast<uint32_t>(AOTC_WEIGHTS_VERIFY | AOTC_WEIGHTS_FD))
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "weights: unknown flags 0x%x", source.flags);
  if (n > 1) return fail(AOTC_STATUS_INVALID_ARGUMENT, "weights: give one of path, fd, data and read");
  *given = n == 1;
  return AOTC_STATUS_OK;
}

aotc_status weights_open(const aotc_module_desc& module, const aotc_weights_source& source, bool verify, const aotc_allocator& allocator,
                         Weights* out) {
  *out = Weights{};
  if (!module.weights_layout) return fail(AOTC_STATUS_INCOMPATIBLE, "this artifact takes no weights but its own");
  aotc_status status;
  if (source.path)
    status = open_path(module, source.path, verify, out);
  else if (source.data)
    status = open_memory(module, source, verify, allocator, out);
  else if (source.read)
    status = read_all(module, source, verify, allocator, out);
  else
    status = open_fd(module, source.fd, verify, out);
  if (status != AOTC_STATUS_OK) {
    weights_close(out, allocator, false);
    return status;
  }
  out->release = source.release;
  out->user = source.user;
  return AOTC_STATUS_OK;
}

void weights_map_pages(const Weights& weights, uint64_t begin, uint64_t end) {
  constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ, of Linux 5.14; older C libraries do not name it
  if (begin >= end) return;
  const uintptr_t data = reinterpret_cast<uintptr_t>(weights.data), from = (data + begin) & ~(kPage - 1);
  void* first = reinterpret_cast<void*>(from);
  if (madvise(first, data + end - from, kPopulateRead) != 0) madvise(first, data + end - from, MADV_WILLNEED);
}

uint64_t weights_drop_pages(const Weights& weights, uint64_t begin, uint64_t end) {
  if (!weights.of_file) return 0;
  const uintptr_t data = reinterpret_cast<uintptr_t>(weights.data);
  const uintptr_t first = (data + begin + kPage - 1) & ~(kPage - 1), last = (data + end) & ~(kPage - 1);
  return first < last && madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED) == 0 ? last - first : 0;
}

void weights_copy(const Weights& weights, uint64_t begin, uint64_t end, uint8_t* to) {
  constexpr uint64_t kChunk = 16u << 20;
  for (uint64_t at = begin; at < end; at += kChunk) {
    const uint64_t stop = at + kChunk < end ? at + kChunk : end;
    weights_map_pages(weights, at, stop);
    memcpy(to + (at - begin), weights.data + at, stop - at);
    weights_drop_pages(weights, at, stop);
  }
}

void weights_close(Weights* weights, const aotc_allocator& allocator, bool taken) {
  if (weights->map) munmap(weights->map, weights->map_bytes);
  block_free(allocator, AOTC_DEVICE_HOST, &weights->memory);
  if (taken && weights->release) weights->release(weights->user);
  *weights = Weights{};
}

}  // namespace aotc::rt
