#include "weights.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "aotc/detail/blob_hash.h"
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
    const char* slash = strrchr(info.dli_fname, '/');
    directory = slash ? static_cast<size_t>(slash - info.dli_fname) + 1 : 0;
  }
  if (directory + strlen(name) >= kPathMax) return fail(AOTC_INVALID_ARGUMENT, "the path of the weights is too long: %s", name);
  if (directory) memcpy(path, info.dli_fname, directory);
  strcpy(path + directory, name);
  return AOTC_OK;
}

aotc_status check_content(const aotc_module_desc& module, const uint8_t* data, const char* path, bool all) {
  aotc_weights_trailer trailer;
  memcpy(&trailer, data + module.weights_bytes, sizeof trailer);
  if (memcmp(trailer.magic, AOTC_WEIGHTS_MAGIC, sizeof trailer.magic) != 0)
    return fail(AOTC_INCOMPATIBLE, "%s is not a weights file of aotc", path);
  if (trailer.hash != module.weights_hash)
    return fail(AOTC_INCOMPATIBLE, "%s belongs to another build of the model (its stamp is %016llx, this artifact's is %016llx)", path,
                static_cast<unsigned long long>(trailer.hash), static_cast<unsigned long long>(module.weights_hash));
  if (all && aotc_blob_hash(data, module.weights_bytes) != module.weights_hash)
    return fail(AOTC_INCOMPATIBLE, "%s is damaged: its content does not have the hash %016llx", path,
                static_cast<unsigned long long>(module.weights_hash));
  return AOTC_OK;
}

aotc_status open_file(const aotc_module_desc& module, const aotc_model_options& options, Weights* out) {
  char path[kPathMax];
  RT_TRY(find_path(module, options.weights_path, path));
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail(AOTC_NOT_FOUND, "the weights file %s could not be opened: %s", path, strerror(errno));
  const off_t bytes = lseek(fd, 0, SEEK_END);  // fstat is newer than the glibc that artifacts need
  const uint64_t expected = module.weights_bytes + sizeof(aotc_weights_trailer);
  aotc_status status = AOTC_OK;
  void* map = MAP_FAILED;
  if (bytes < 0)
    status = fail(AOTC_NOT_FOUND, "the weights file %s could not be read: %s", path, strerror(errno));
  else if (static_cast<uint64_t>(bytes) != expected)
    status = fail(AOTC_INCOMPATIBLE, "%s has %llu bytes, but this artifact's weights have %llu", path,
                  static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(expected));
  else if ((map = mmap(nullptr, expected, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
    status = fail(AOTC_OUT_OF_MEMORY, "the weights file %s could not be mapped: %s", path, strerror(errno));
  close(fd);
  if (status != AOTC_OK) return status;
  *out = Weights{static_cast<const uint8_t*>(map), map, expected};
  status = check_content(module, out->data, path, options.flags & AOTC_MODEL_VERIFY_WEIGHTS);
  if (status != AOTC_OK) weights_close(out);
  return status;
}

}  // namespace

aotc_status weights_open(const aotc_module_desc& module, const aotc_model_options& options, Weights* out) {
  *out = Weights{static_cast<const uint8_t*>(module.weights_begin), nullptr, 0};
  if (module.weights_begin || module.weights_bytes == 0) return AOTC_OK;
  const int saved = errno;
  const aotc_status status = open_file(module, options, out);
  errno = saved;
  return status;
}

void weights_close(Weights* weights) {
  if (weights->map) munmap(weights->map, weights->map_bytes);
  *weights = Weights{};
}

}  // namespace aotc::rt
