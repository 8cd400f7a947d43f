/* A libcupti whose device is that of driver.c: it tells of each launch since the last flush, 2 us long, 3 us after the one before. In the
 * layout of CUPTI's own records, of which it has an unknown kind between. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { OK = 0, NOT_ENABLED = 1, AT_THE_END = 12, KERNEL = 10, RECORD = 192, ENDS = 2000, EVERY = 3000 };
typedef struct Launch {
  const char* name;
  unsigned grid[3], block[3], shared;
} Launch;
static void (*request)(uint8_t**, size_t*, size_t*);
static void (*complete)(void*, uint32_t, uint8_t*, size_t, size_t);
static int enabled;
static uint64_t now_ns = 1000000;

int cuptiGetVersion(uint32_t* version) { return *version = 130001, OK; }
int cuptiGetResultString(int code, const char** text) { return *text = code ? "a fault of the stand-in" : "none", OK; }
int cuptiActivityEnable(int kind) { return enabled |= kind == KERNEL, kind == KERNEL || kind == 1 || kind == 2 ? OK : NOT_ENABLED; }
int cuptiActivityDisable(int kind) { return enabled &= kind != KERNEL, OK; }
int cuptiActivityRegisterCallbacks(void (*r)(uint8_t**, size_t*, size_t*), void (*c)(void*, uint32_t, uint8_t*, size_t, size_t)) {
  return request = r, complete = c, OK;
}
int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, const uint8_t** record) {
  const uint8_t* next = *record ? *record + RECORD : buffer;
  if (next + RECORD > buffer + valid) return AT_THE_END;
  return *record = next, OK;
}
static void put(uint8_t* r, size_t at, const void* value, size_t bytes) { memcpy(r + at, value, bytes); }
int cuptiActivityFlushAll(uint32_t flag) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  int (*launches)(const Launch**) = NULL;
  const Launch* rows = NULL;
  uint8_t* buffer = NULL;
  size_t bytes = 0, most = 0, valid = 0;
  int n, i;
  (void)flag;
  if (driver) *(void**)&launches = dlsym(driver, "emulated_launches");
  if (!launches || (n = launches(&rows)) == 0 || !enabled) return OK;
  request(&buffer, &bytes, &most);
  for (i = 0; i <= n && valid + RECORD <= bytes; ++i, valid += RECORD) {
    uint8_t* const r = buffer + valid;
    const int32_t kind = i == 0 ? 99 : KERNEL;
    const uint64_t end_ns = now_ns + ENDS;
    const uint32_t stream = 7;
    const uint16_t registers = 32;
    memset(r, 0, RECORD);
    put(r, 0, &kind, 4);
    if (i == 0) continue;
    put(r, 6, &registers, 2), put(r, 16, &now_ns, 8), put(r, 24, &end_ns, 8), put(r, 48, &stream, 4);
    put(r, 52, rows[i - 1].grid, 12), put(r, 64, rows[i - 1].block, 12), put(r, 80, &rows[i - 1].shared, 4);
    put(r, 104, &rows[i - 1].name, 8);
    now_ns += EVERY;
  }
  complete(NULL, 0, buffer, bytes, valid);
  return OK;
}
