/* The functions of loader.h, which are inline, by names that Rust can link with. */
#include "aotc/loader.h"

aotc_status aotc_rust_open(const char* path, int32_t device, aotc_library* lib) { return aotc_library_open(path, device, lib); }
aotc_status aotc_rust_open_memory(const void* data, uint64_t bytes, int32_t device, aotc_library* lib) {
  return aotc_library_open_memory(data, bytes, device, lib);
}
void aotc_rust_close(aotc_library* lib) { aotc_library_close(lib); }
uint64_t aotc_rust_library_bytes(void) { return sizeof(aotc_library); }
