#pragma once
// Large blocks: from the caller's allocator, else from mmap (huge pages asked for). See model_alloc for devices.
#include <stddef.h>
#include <stdint.h>

#include "aotc/aotc.h"

namespace aotc::rt {

constexpr size_t kAlign = 64;
constexpr uint64_t align_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

struct Block {
  void* base = nullptr;
  size_t bytes = 0;
};

/// `allocator.alloc` null: mmap (then device is AOTC_DEVICE_HOST). Zero bytes give an empty block. False: no memory (no message).
bool block_alloc(const aotc_allocator& allocator, int32_t device, size_t bytes, Block* out);
void block_free(const aotc_allocator& allocator, int32_t device, Block* block);

/// A page of zeros that a forked child finds as zeros again. Null where the kernel has no such pages (before Linux 4.14).
void* take_page_of_process();
void free_page_of_process(void* page);

/// Bookkeeping, zero-filled, freed with free(). Null only when there is no memory.
void* take(size_t count, size_t bytes_each);
template <class T>
T* take(size_t count) {
  return static_cast<T*>(take(count, sizeof(T)));
}

}  // namespace aotc::rt
