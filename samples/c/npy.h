/* Reads and writes .npy files of the types that aotc knows. C11. */
#ifndef AOTC_SAMPLES_NPY_H_
#define AOTC_SAMPLES_NPY_H_
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aotc/dtype.h"

enum { NPY_MAX_RANK = 32 };
typedef struct npy_array {
  void* data; /* free() it */
  uint64_t bytes;
  int64_t shape[NPY_MAX_RANK];
  int32_t rank;
  uint32_t dtype; /* AOTC_DTYPE_*; 16-bit raw data (<V2) is taken as bfloat16 */
} npy_array;

static const struct {
  const char* descr;
  uint32_t dtype, bytes;
} npy_types[] = {{"|b1", AOTC_DTYPE_BOOL, 1},  {"|u1", AOTC_DTYPE_U8, 1},  {"|i1", AOTC_DTYPE_I8, 1},  {"<i2", AOTC_DTYPE_I16, 2},
                 {"<i4", AOTC_DTYPE_I32, 4},   {"<i8", AOTC_DTYPE_I64, 8}, {"<f2", AOTC_DTYPE_F16, 2}, {"<V2", AOTC_DTYPE_BF16, 2},
                 {"|V2", AOTC_DTYPE_BF16, 2},  {"<f4", AOTC_DTYPE_F32, 4}, {"<f8", AOTC_DTYPE_F64, 8}, {"<c8", AOTC_DTYPE_C64, 8},
                 {"<c16", AOTC_DTYPE_C128, 16}};
enum { NPY_TYPES = sizeof npy_types / sizeof npy_types[0] };

/* Parses the header's dictionary into a->dtype, shape, rank. Returns the element size, 0: not understood. */
static uint32_t npy_parse(const char* header, npy_array* a) {
  const char* descr = strstr(header, "'descr'");
  const char* shape = strstr(header, "'shape'");
  const char* order = strstr(header, "'fortran_order'");
  uint32_t i, size = 0;
  if (!descr || !shape || !order) return 0;
  order = strchr(order, ':');
  if (!order || strncmp(order + 1 + strspn(order + 1, " "), "False", 5) != 0) return 0;
  descr = strchr(descr + 7, '\'');
  if (!descr) return 0;
  for (i = 0; i < NPY_TYPES; ++i) {
    const size_t n = strlen(npy_types[i].descr);
    if (strncmp(descr + 1, npy_types[i].descr, n) == 0 && descr[1 + n] == '\'') {
      a->dtype = npy_types[i].dtype;
      size = npy_types[i].bytes;
    }
  }
  shape = strchr(shape, '(');
  if (!shape || !size) return 0;
  for (++shape, a->rank = 0; *shape && *shape != ')'; shape += strspn(shape, " ,")) {
    char* end;
    const long long d = strtoll(shape, &end, 10);
    if (end == shape || d < 0 || a->rank == NPY_MAX_RANK) return 0;
    a->shape[a->rank++] = d;
    shape = end;
  }
  return size;
}

/* 0: could not be read; `why` then says so. */
static int npy_read(const char* path, npy_array* a, const char** why) {
  unsigned char head[12];
  char* header = NULL;
  uint32_t length, size;
  int32_t d;
  FILE* f = fopen(path, "rb");
  memset(a, 0, sizeof *a);
  *why = "cannot be opened";
  if (!f) return 0;
  *why = "is not a .npy file of a known type, C order";
  if (fread(head, 1, 10, f) != 10 || memcmp(head, "\x93NUMPY", 6) != 0) goto fail;
  length = head[8] | (uint32_t)head[9] << 8;
  if (head[6] >= 2) {
    if (fread(head + 10, 1, 2, f) != 2) goto fail;
    length |= (uint32_t)head[10] << 16 | (uint32_t)head[11] << 24;
  }
  if (length > 1u << 20 || !(header = (char*)calloc(length + 1, 1)) || fread(header, 1, length, f) != length) goto fail;
  size = npy_parse(header, a);
  if (!size) goto fail;
  a->bytes = size;
  for (d = 0; d < a->rank; ++d)
    if (__builtin_mul_overflow(a->bytes, (uint64_t)a->shape[d], &a->bytes)) goto fail;
  *why = "is shorter than its shape says";
  a->data = malloc(a->bytes ? a->bytes : 1);
  if (!a->data || fread(a->data, 1, a->bytes, f) != a->bytes) goto fail;
  free(header);
  fclose(f);
  return 1;
fail:
  free(header);
  free(a->data);
  a->data = NULL;
  fclose(f);
  return 0;
}

/* 0: could not be written. */
static int npy_write(const char* path, const npy_array* a) {
  char header[1024];
  const char* descr = "|V2";
  uint32_t i;
  int32_t d;
  int n, ok;
  FILE* f;
  for (i = 0; i < NPY_TYPES; ++i)
    if (npy_types[i].dtype == a->dtype) descr = npy_types[i].descr;
  n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
  for (d = 0; d < a->rank; ++d) n += snprintf(header + n, sizeof header - (size_t)n, "%lld,", (long long)a->shape[d]);
  n += snprintf(header + n, sizeof header - (size_t)n, "), }");
  while ((10 + n + 1) % 64) header[n++] = ' ';
  header[n++] = '\n';
  f = fopen(path, "wb");
  if (!f) return 0;
  ok = fwrite("\x93NUMPY\x01\x00", 1, 8, f) == 8 && fputc(n & 255, f) != EOF && fputc(n >> 8, f) != EOF &&
       fwrite(header, 1, (size_t)n, f) == (size_t)n && fwrite(a->data, 1, a->bytes, f) == a->bytes;
  return fclose(f) == 0 && ok;
}
#endif
