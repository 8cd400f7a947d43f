/* Loads a model.so: checks the file, dlopen, checks the version, probe. C11 and C++17; header-only; link with -ldl if the C library needs
 * it.
 *
 *   aotc_library lib;
 *   if (aotc_library_open("model.so", AOTC_DEVICE_DEFAULT, &lib) != AOTC_STATUS_OK) { puts(lib.error); return 1; }
 *   lib.api->model_create(NULL, &model); ...
 *   aotc_library_close(&lib);
 *
 * aotc_library_open_memory and aotc_library_open_fd take the artifact from memory or from an open file instead.
 */
#ifndef AOTC_LOADER_H_
#define AOTC_LOADER_H_
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "aotc/seal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aotc_library {
  void* handle;
  const aotc_api* api; /* NULL when not open */
  char error[512];     /* why the latest open failed */
} aotc_library;

/* Closes the library. Destroy all its contexts and models before. A library that is not open is allowed. */
static inline void aotc_library_close(aotc_library* lib) {
  if (lib->handle) dlclose(lib->handle);
  lib->handle = NULL;
  lib->api = NULL;
}

/* ---- within ------------------------------------------------------------------------------------------------------------------------ */
enum { AOTC_LOAD_TRIES = 32, AOTC_LOAD_PATH = 4096 };

/* How struct link_map of <link.h> begins, which a handle of dlopen points at. */
typedef struct aotc_loaded {
  uintptr_t base;
  const char* name;
  const uint64_t* dynamic; /* tag and value of each entry */
} aotc_loaded;

/* aotc_elf.build of what was loaded. */
static inline uint64_t aotc_loaded_build(const void* handle) {
  const uint64_t* entry = ((const aotc_loaded*)handle)->dynamic;
  while (entry[0] != 0) entry += 2;
  return entry[1];
}

/* The same path, with one of "/" and "./" for each bit of `bits` before the file's name, and `more` slashes: a text that no other file was
 * loaded by. 0: it is too long. */
static inline int aotc_path_apart(const char* path, uint64_t bits, int more, char apart[AOTC_LOAD_PATH]) {
  const char* name = strrchr(path, '/') + 1;
  size_t n = (size_t)(name - path);
  if (strlen(path) + 128 + (size_t)more >= AOTC_LOAD_PATH) return 0;
  memcpy(apart, path, n);
  for (; bits; bits >>= 1) {
    if (bits & 1) apart[n++] = '.';
    apart[n++] = '/';
  }
  for (; more > 0; --more) apart[n++] = '/';
  memcpy(apart + n, name, strlen(name) + 1);
  return 1;
}

/* dlopen of a path, and whether what it gave is what was checked: dlopen gives what is loaded already by the text of the path, whatever
 * file is there by now, and what is loaded of the same inode. WRONG_STATE: it gave another. */
static inline aotc_status aotc_dlopen_same(const char* path, const aotc_elf* file, aotc_library* lib) {
  lib->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!lib->handle) {
    const char* why = dlerror();
    snprintf(lib->error, sizeof lib->error, "%.500s", why ? why : "dlopen failed");
    return AOTC_STATUS_NOT_FOUND;
  }
  if (aotc_loaded_build(lib->handle) == file->build) return AOTC_STATUS_OK;
  aotc_library_close(lib);
  return AOTC_STATUS_WRONG_STATE;
}

static inline aotc_status aotc_written_over(const char* name, aotc_library* lib) {
  snprintf(lib->error, sizeof lib->error,
           "%.300s was written over while what it was before is open in this process: copy to another name and rename it", name);
  return AOTC_STATUS_WRONG_STATE;
}

/* dlopen of the file that is there now, once it has been checked. WRONG_STATE: it gave another file, or the file was replaced meanwhile.
 * `tries`: how often it did before. */
static inline aotc_status aotc_dlopen_checked(const char* path, int tries, aotc_library* lib) {
  char apart[AOTC_LOAD_PATH];
  aotc_elf file;
  int way;
  aotc_status status = aotc_elf_check(path, AOTC_CHECK_CODE, &file, lib->error, sizeof lib->error);
  if (status != AOTC_STATUS_OK) return status;
  aotc_elf_close(&file);
  for (way = file.build ? 0 : 1; way < 2; ++way) { /* what has no number of its build cannot be compared by it */
    if (way == 1 && !aotc_path_apart(path, file.seal.self_hash, tries, apart)) break;
    status = aotc_dlopen_same(way == 0 ? path : apart, &file, lib);
    if (status != AOTC_STATUS_WRONG_STATE) return status;
  }
  return aotc_written_over(path, lib);
}

/* The table of what was loaded. */
static inline aotc_status aotc_library_table(const char* name, aotc_library* lib) {
  aotc_get_api_fn get;
  *(void**)&get = dlsym(lib->handle, "aotc_get_api");
  lib->api = get ? get(AOTC_ABI_VERSION) : NULL;
  if (lib->api) return AOTC_STATUS_OK;
  snprintf(lib->error, sizeof lib->error, get ? "%.400s is older than this program: build it again" : "%.400s is not an artifact of aotc",
           name);
  aotc_library_close(lib);
  return AOTC_STATUS_INCOMPATIBLE;
}

/* Asks what was loaded whether this machine can run it. */
static inline aotc_status aotc_library_probe(const char* name, int32_t device, aotc_library* lib) {
  const aotc_status status = lib->api->probe(device);
  if (status == AOTC_STATUS_OK) return status;
  snprintf(lib->error, sizeof lib->error, "%.120s: %.380s", name, lib->api->last_error());
  aotc_library_close(lib);
  return status;
}

/* Of Linux, where the C library's headers do not name them. syscall() is declared where they are asked for strict C. */
enum {
  AOTC_SYS_MEMFD_CREATE = 319, /* x86-64, as artifacts are */
  AOTC_MFD_CLOEXEC = 1,
  AOTC_MFD_ALLOW_SEALING = 2,
  AOTC_MFD_NOEXEC_SEAL = 8, /* of Linux 6.3, where some systems grant nothing else; it is about execve, not about mapping code */
  AOTC_F_ADD_SEALS = 1033,
  AOTC_F_GET_SEALS = 1034,
  AOTC_SEALED_CONTENT = 2 | 8,    /* F_SEAL_SHRINK, F_SEAL_WRITE */
  AOTC_SEALED_ALL = 1 | 2 | 4 | 8 /* and against growing and further seals */
};
#if !defined(__cplusplus) && !defined(__USE_MISC) && !defined(_GNU_SOURCE) && !defined(_BSD_SOURCE)
long syscall(long number, ...);
#endif

/* Loads what the descriptor, which is this function's own, is open on; it may be closed then. The path that dlopen is given has the hash of
 * the content in it, so that one number of a descriptor after the other's is another library. */
static inline aotc_status aotc_load_own(int fd, const char* name, aotc_library* lib) {
  char path[64], apart[AOTC_LOAD_PATH];
  aotc_elf file;
  int tries, proc;
  aotc_status status = aotc_elf_check_fd(fd, name, AOTC_CHECK_CODE, &file, lib->error, sizeof lib->error);
  if (status != AOTC_STATUS_OK) return status;
  aotc_elf_close(&file);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  status = AOTC_STATUS_WRONG_STATE;
  for (tries = 0; status == AOTC_STATUS_WRONG_STATE && tries < AOTC_LOAD_TRIES; ++tries) {
    if (!aotc_path_apart(path, file.seal.self_hash, tries, apart)) break;
    status = aotc_dlopen_same(apart, &file, lib);
  }
  if (status == AOTC_STATUS_OK) return aotc_library_table(name, lib);
  if (status == AOTC_STATUS_WRONG_STATE) return aotc_written_over(name, lib);
  proc = aotc_open_file(path);
  if (proc >= 0)
    close(proc);
  else
    snprintf(lib->error, sizeof lib->error, "%.300s cannot be loaded: /proc, by which what has no path is loaded, is not mounted here (%s)",
             name, strerror(errno));
  return status;
}

/* As aotc_load_own, of a copy of the bytes that nobody can change. */
static inline aotc_status aotc_load_copy(const unsigned char* data, uint64_t bytes, const char* name, aotc_library* lib) {
  const long flags = AOTC_MFD_CLOEXEC | AOTC_MFD_ALLOW_SEALING;
  uint64_t done = 0;
  aotc_status status;
  int fd = (int)syscall(AOTC_SYS_MEMFD_CREATE, "aotc", flags | AOTC_MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL) fd = (int)syscall(AOTC_SYS_MEMFD_CREATE, "aotc", flags);
  if (fd < 0) {
    const int why = errno;
    snprintf(lib->error, sizeof lib->error, "%.200s cannot be loaded: the system call memfd_create (Linux 3.17) %s: %s", name,
             why == ENOSYS || why == EPERM || why == EACCES ? "is not there or not allowed to this process" : "failed", strerror(why));
    return why == ENOSYS || why == EPERM || why == EACCES ? AOTC_STATUS_INCOMPATIBLE : AOTC_STATUS_OUT_OF_MEMORY;
  }
  while (done < bytes) {
    const ssize_t wrote = write(fd, data + done, (size_t)(bytes - done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      snprintf(lib->error, sizeof lib->error, "no memory for the %llu bytes of %.300s: %s", (unsigned long long)bytes, name,
               strerror(errno));
      close(fd);
      return AOTC_STATUS_OUT_OF_MEMORY;
    }
    done += (uint64_t)wrote;
  }
  fcntl(fd, AOTC_F_ADD_SEALS, AOTC_SEALED_ALL); /* where they are not to be had, still no other has this file */
  status = aotc_load_own(fd, name, lib);
  close(fd);
  return status;
}

/* ---- to be called ------------------------------------------------------------------------------------------------------------------ */

/* Loads the artifact. It always loads the file that is at the path now, even if an earlier file of that path is still in use. A path
 * without
 * '/' is a file of the current directory. On failure nothing stays open and lib->error has the reason.
 * NOT_FOUND: no such file. INCOMPATIBLE: not an artifact, or older than this header. DAMAGED: truncated, or its code or tables are not what
 * was built (checked before anything of the file is loaded; aotc_file_check can check the weights too). WRONG_STATE: the file was
 * overwritten while its earlier content is still open (write new files under another name and rename them), or it was replaced again and
 * again. */
static inline aotc_status aotc_library_load(const char* path, aotc_library* lib) {
  char local[AOTC_LOAD_PATH];
  aotc_status status = AOTC_STATUS_WRONG_STATE;
  int tries;
  memset(lib, 0, sizeof *lib);
  if (!strchr(path, '/')) {
    snprintf(local, sizeof local, "./%s", path);
    path = local;
  }
  for (tries = 0; status == AOTC_STATUS_WRONG_STATE && tries < AOTC_LOAD_TRIES; ++tries) status = aotc_dlopen_checked(path, tries, lib);
  return status == AOTC_STATUS_OK ? aotc_library_table(path, lib) : status;
}

/* As aotc_library_load, from the bytes of an artifact's file, which are borrowed for the call and copied into a sealed memory file
 * (memfd_create). Nothing is written to a file system; /proc must be mounted. INCOMPATIBLE also means that the system refuses the memory
 * file. OUT_OF_MEMORY. If the artifact has a separate weights file, name it in aotc_model_options.weights_path. */
static inline aotc_status aotc_library_load_memory(const void* data, uint64_t bytes, aotc_library* lib) {
  static const char name[] = "the artifact in memory";
  memset(lib, 0, sizeof *lib);
  if (!data || !bytes) {
    snprintf(lib->error, sizeof lib->error, data ? "%s is empty" : "%s: there is none, data is null", name);
    return data ? AOTC_STATUS_DAMAGED : AOTC_STATUS_INVALID_ARGUMENT;
  }
  return aotc_load_copy((const unsigned char*)data, bytes, name, lib);
}

/* As aotc_library_load, from the whole file that the descriptor is open on for reading, whatever its offset. The caller may close the
 * descriptor after the call. A file on a disk is mapped, so it must not be overwritten while it is in use. A memory file (memfd, tmpfs) is
 * mapped if it is sealed with F_SEAL_SHRINK and F_SEAL_WRITE. Other files, and files that the process may not open by /proc/self/fd, are
 * copied as by aotc_library_load_memory, with its errors. */
static inline aotc_status aotc_library_load_fd(int fd, aotc_library* lib) {
  char name[64], path[64];
  const unsigned char* data;
  uint64_t bytes;
  aotc_status status;
  const off_t offset = lseek(fd, 0, SEEK_CUR);
  const int seals = fcntl(fd, AOTC_F_GET_SEALS);
  memset(lib, 0, sizeof *lib);
  snprintf(name, sizeof name, "descriptor %d", fd);
  if (offset < 0) {
    snprintf(lib->error, sizeof lib->error, "%s %s%s", name,
             errno == EBADF ? "is not open" : "is no regular file: ", errno == EBADF ? "" : strerror(errno));
    return AOTC_STATUS_NOT_FOUND;
  }
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (seals < 0 || (seals & AOTC_SEALED_CONTENT) == AOTC_SEALED_CONTENT) {
    const int own = aotc_open_file(path); /* has an offset of its own, and goes on when the caller's number is another file's */
    if (own >= 0) {
      status = aotc_load_own(own, name, lib);
      close(own);
      return status;
    }
  }
  status = aotc_map_descriptor(fd, name, &data, &bytes, lib->error, sizeof lib->error);
  lseek(fd, offset, SEEK_SET);
  if (status != AOTC_STATUS_OK) return status;
  status = aotc_load_copy(data, bytes, name, lib);
  munmap((void*)data, (size_t)bytes);
  return status;
}

/* aotc_library_load, then probe: can this machine run the artifact on that device? INCOMPATIBLE: it cannot. DEVICE: the driver failed. */
static inline aotc_status aotc_library_open(const char* path, int32_t device, aotc_library* lib) {
  const aotc_status status = aotc_library_load(path, lib);
  return status == AOTC_STATUS_OK ? aotc_library_probe(path, device, lib) : status;
}

/* aotc_library_load_memory, then probe. */
static inline aotc_status aotc_library_open_memory(const void* data, uint64_t bytes, int32_t device, aotc_library* lib) {
  const aotc_status status = aotc_library_load_memory(data, bytes, lib);
  return status == AOTC_STATUS_OK ? aotc_library_probe("the artifact in memory", device, lib) : status;
}

/* aotc_library_load_fd, then probe. */
static inline aotc_status aotc_library_open_fd(int fd, int32_t device, aotc_library* lib) {
  char name[64];
  const aotc_status status = aotc_library_load_fd(fd, lib);
  snprintf(name, sizeof name, "descriptor %d", fd);
  return status == AOTC_STATUS_OK ? aotc_library_probe(name, device, lib) : status;
}

#ifdef __cplusplus
}
#endif
#endif
