/* What the C++ library, the unwinder and the start code of this machine's compiler take of C libraries later than the floor of aotc-device and aotc
 * (runtime/glibc/programs.txt), made of what the floor has. Linked for x86-64 Linux, with --wrap=__libc_start_main. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FLOOR __attribute__((visibility("hidden")))

/* Start code since 2.34 leaves it to the C library to run the program's constructors, one before that waits to be told how. */
typedef void constructor(int argc, char** argv, char** envp);
extern FLOOR constructor* const __init_array_start[];
extern FLOOR constructor* const __init_array_end[];
static void construct(int argc, char** argv, char** envp) {
  constructor* const* c;
  for (c = __init_array_start; c != __init_array_end; ++c) (*c)(argc, argv, envp);
}
int __real___libc_start_main(int (*run)(int, char**, char**), int argc, char** argv, constructor* init, void (*fini)(void),
                             void (*loader_fini)(void), void* stack_end);
FLOOR int __wrap___libc_start_main(int (*run)(int, char**, char**), int argc, char** argv, constructor* init, void (*fini)(void),
                                   void (*loader_fini)(void), void* stack_end) {
  return __real___libc_start_main(run, argc, argv, init ? init : construct, fini, loader_fini, stack_end);
}

/* 2.32: whether atomic operations can be spared. */
FLOOR char __libc_single_threaded = 0;

/* 2.25 */
FLOOR int getentropy(void* to, size_t bytes) {
  size_t done = 0;
  int fd = -1;
  while (done < bytes) {
    long n = fd < 0 ? syscall(SYS_getrandom, (char*)to + done, bytes - done, 0) : read(fd, (char*)to + done, bytes - done);
    if (n > 0) done += (size_t)n;
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    if (fd >= 0 || (fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC)) < 0) break; /* Linux before 3.17 */
  }
  if (fd >= 0) close(fd);
  return done == bytes ? 0 : -1;
}
/* 2.27 */
FLOOR int memfd_create(const char* name, unsigned flags) { return (int)syscall(SYS_memfd_create, name, flags); }

/* 2.36 */
FLOOR uint32_t arc4random(void) {
  uint32_t x;
  if (getentropy(&x, sizeof x) != 0) abort();
  return x;
}

/* 2.33 */
enum { STAT_VERSION = 1 };
int __xstat(int version, const char* path, struct stat* out);
int __lxstat(int version, const char* path, struct stat* out);
int __fxstat(int version, int fd, struct stat* out);
int __fxstat64(int version, int fd, struct stat64* out);
FLOOR int stat(const char* path, struct stat* out) { return __xstat(STAT_VERSION, path, out); }
FLOOR int lstat(const char* path, struct stat* out) { return __lxstat(STAT_VERSION, path, out); }
FLOOR int fstat(int fd, struct stat* out) { return __fxstat(STAT_VERSION, fd, out); }
FLOOR int fstat64(int fd, struct stat64* out) { return __fxstat64(STAT_VERSION, fd, out); }

#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 35)
/* 2.35: the object whose code is at an address. */
typedef struct {
  uintptr_t address;
  struct dl_find_object* out;
} search;
static int look(struct dl_phdr_info* info, size_t bytes, void* arg) {
  const search* s = (const search*)arg;
  const ElfW(Phdr)* end = info->dlpi_phdr + info->dlpi_phnum;
  const ElfW(Phdr) * p, *code = NULL, *frames = NULL;
  (void)bytes;
  for (p = info->dlpi_phdr; p != end; ++p) {
    if (p->p_type == PT_GNU_EH_FRAME) frames = p;
    if (p->p_type == PT_LOAD && s->address - info->dlpi_addr - p->p_vaddr < p->p_memsz) code = p;
  }
  if (!code || !frames) return 0;
  s->out->dlfo_map_start = (void*)(info->dlpi_addr + code->p_vaddr);
  s->out->dlfo_map_end = (void*)(info->dlpi_addr + code->p_vaddr + code->p_memsz);
  s->out->dlfo_eh_frame = (void*)(info->dlpi_addr + frames->p_vaddr);
  return 1;
}
FLOOR int _dl_find_object(void* address, struct dl_find_object* out) {
  search s = {(uintptr_t)address, out};
  *out = (struct dl_find_object){0};
  return dl_iterate_phdr(look, &s) ? 0 : -1;
}
#endif
#endif
