#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

namespace aotc::rt {
namespace {

constexpr size_t kPage = 4096, kHuge = 2u << 20;

/// mmap aligned to huge pages when the block is large, so that the kernel can use them.
void* map(size_t bytes) {
  const size_t slack = bytes >= kHuge ? kHuge : 0;
  void* got = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  if (!slack) return got;
  const uintptr_t from = reinterpret_cast<uintptr_t>(got), base = align_up(from, kHuge);
  if (base > from) munmap(got, base - from);
  const uintptr_t end = from + bytes + slack;
  if (end > base + bytes) munmap(reinterpret_cast<void*>(base + bytes), end - base - bytes);
  void* result = reinterpret_cast<void*>(base);
  madvise(result, bytes, MADV_HUGEPAGE);
  return result;
}

}  // namespace

bool block_alloc(const aotc_allocator& allocator, int32_t device, size_t bytes, Block* out) {
  *out = Block{};
  if (bytes == 0) return true;
  if (bytes > static_cast<size_t>(INT64_MAX) - 2 * kHuge) return false;
  const int saved = errno;
  const size_t rounded = allocator.alloc ? bytes : align_up(bytes, bytes >= kHuge ? kHuge : kPage);
  void* base = allocator.alloc ? allocator.alloc(allocator.user, bytes, kAlign, device) : map(rounded);
  errno = saved;
  if (!base) return false;
  *out = Block{base, rounded};
  return true;
}

void block_free(const aotc_allocator& allocator, int32_t device, Block* block) {
  if (!block->base) return;
  const int saved = errno;
  if (allocator.alloc)
    allocator.free(allocator.user, block->base, block->bytes, device);
  else
    munmap(block->base, block->bytes);
  errno = saved;
  *block = Block{};
}

void* take_page_of_process() {
  const int saved = errno;
  void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) page = nullptr;
  if (page && madvise(page, kPage, MADV_WIPEONFORK) != 0) {
    munmap(page, kPage);
    page = nullptr;
  }
  errno = saved;
  return page;
}

void free_page_of_process(void* page) {
  if (page) munmap(page, kPage);
}

void* take(size_t count, size_t bytes_each) {
  const int saved = errno;
  void* p = calloc(count ? count : 1, bytes_each);
  errno = saved;
  return p;
}

}  // namespace aotc::rt
