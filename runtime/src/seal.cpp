#include "seal.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "aotc/detail/plan_format.h"
#include "aotc/seal.h"
#include "status.h"

// The note that aotc fills in when it has linked the artifact, zeros until then; and one that says where aotc_module.metadata_json is.
__asm__(
    ".pushsection .note.aotc, \"a\", @note\n"
    ".balign 4\n"
    ".long 5, 56, 1\n"  // bytes of the name, bytes of the content, type
    ".asciz \"aotc\"\n"
    ".balign 4\n"
    ".globl aotc_seal_content\n"
    ".hidden aotc_seal_content\n"
    ".type aotc_seal_content, @object\n"
    ".size aotc_seal_content, 56\n"
    "aotc_seal_content:\n"
    ".zero 56\n"
    ".balign 4\n"
    ".long 5, 8, 2\n"
    ".asciz \"aotc\"\n"
    ".balign 4\n"
    "0: .quad aotc_module + 8 - 0b\n"
    ".popsection\n");
static_assert(offsetof(aotc_module_desc, metadata_json) == 8, "as the note says");
extern "C" __attribute__((visibility("hidden"))) const unsigned char aotc_seal_content[];
static_assert(sizeof(aotc_seal) == 56, "as the note says");

namespace aotc::rt {
namespace {

/// Of an artifact whose file cannot be asked: the weights where they are loaded; code and tables were checked when it was opened.
aotc_status check_loaded(const aotc_seal& own) {
  if (!own.weights_offset || !aotc_module.weights_begin) return AOTC_STATUS_OK;
  if (aotc_blob_hash(aotc_module.weights_begin, own.weights_bytes) == own.weights_hash) return AOTC_STATUS_OK;
  return fail(AOTC_STATUS_DAMAGED, "the artifact is damaged: its weights are not what was built");
}

aotc_status check(const aotc_seal& own, bool all) {
  const char* path = own_path(nullptr);
  if (own.file_bytes == 0 || own.self_hash != aotc_seal_self_hash(&own))
    return fail(AOTC_STATUS_DAMAGED, "%s is damaged: its seal is not what was built", path ? path : "the artifact");
  if (path && is_of_descriptor(path)) return all ? check_loaded(own) : AOTC_STATUS_OK;
  if (!path) return all ? fail(AOTC_STATUS_NOT_FOUND, "the file of this artifact has no name: it cannot be checked") : AOTC_STATUS_OK;
  char error[512];
  aotc_seal now = {};
  const aotc_status status = aotc_file_check(path, all ? AOTC_CHECK_ALL : AOTC_CHECK_CODE, &now, error, sizeof error);
  if (status == AOTC_STATUS_NOT_FOUND || status == AOTC_STATUS_INCOMPATIBLE)
    return all ? fail(status, "%s: it cannot be checked", error) : AOTC_STATUS_OK;
  // A file of other code or weights has another seal: it took the place of the one that was loaded.
  if (now.file_bytes && memcmp(&now, &own, sizeof own) != 0)
    return all ? fail(AOTC_STATUS_INCOMPATIBLE, "%s is no longer the file that was loaded: it cannot be checked", path) : AOTC_STATUS_OK;
  return status == AOTC_STATUS_OK ? AOTC_STATUS_OK : fail(status, "%s", error);
}

}  // namespace

const char* own_path(char*) {
  Dl_info info;
  return dladdr(aotc_seal_content, &info) != 0 ? info.dli_fname : nullptr;
}

bool is_of_descriptor(const char* path) { return strncmp(path, "/proc/self/fd/", 14) == 0; }

uint64_t seal_weights_hash() {
  aotc_seal own;
  memcpy(&own, aotc_seal_content, sizeof own);
  return own.weights_hash;
}

uint64_t seal_self_hash() {
  aotc_seal own;
  memcpy(&own, aotc_seal_content, sizeof own);
  return own.self_hash;
}

aotc_status seal_check(bool all) {
  aotc_seal own;
  memcpy(&own, aotc_seal_content, sizeof own);
  return check(own, all);
}

}  // namespace aotc::rt
