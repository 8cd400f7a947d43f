#include "dlpack.h"
#include "native.h"

/* Floats that the buffer protocol has no format for go as unsigned integers of their bits. */
static const aotc_dtype kTypes[] = {
    {"bool", "?", AOTC_DTYPE_BOOL, 1, DL_BOOL, 8},
    {"uint8", "B", AOTC_DTYPE_U8, 1, DL_UINT, 8},
    {"int8", "b", AOTC_DTYPE_I8, 1, DL_INT, 8},
    {"int16", "h", AOTC_DTYPE_I16, 2, DL_INT, 16},
    {"int32", "i", AOTC_DTYPE_I32, 4, DL_INT, 32},
    {"int64", "q", AOTC_DTYPE_I64, 8, DL_INT, 64},
    {"float16", "e", AOTC_DTYPE_F16, 2, DL_FLOAT, 16},
    {"bfloat16", "H", AOTC_DTYPE_BF16, 2, DL_BFLOAT, 16},
    {"float32", "f", AOTC_DTYPE_F32, 4, DL_FLOAT, 32},
    {"float64", "d", AOTC_DTYPE_F64, 8, DL_FLOAT, 64},
    {"complex64", "Zf", AOTC_DTYPE_C64, 8, DL_COMPLEX, 64},
    {"complex128", "Zd", AOTC_DTYPE_C128, 16, DL_COMPLEX, 128},
    {"float8_e4m3fn", "B", AOTC_DTYPE_F8E4M3FN, 1, DL_FLOAT8_E4M3FN, 8},
    {"float8_e5m2", "B", AOTC_DTYPE_F8E5M2, 1, DL_FLOAT8_E5M2, 8},
};
enum { kTypesN = sizeof kTypes / sizeof *kTypes };

const aotc_dtype* aotc_dtype_of(uint32_t dtype) {
  for (int i = 0; i < kTypesN; ++i)
    if (kTypes[i].dtype == dtype) return &kTypes[i];
  return NULL;
}

const aotc_dtype* aotc_dtype_named(const char* name) {
  for (int i = 0; i < kTypesN; ++i)
    if (strcmp(kTypes[i].name, name) == 0) return &kTypes[i];
  return NULL;
}

const aotc_dtype* aotc_dtype_of_dlpack(uint8_t code, uint8_t bits) {
  for (int i = 0; i < kTypesN; ++i)
    if (kTypes[i].dlpack_code == code && kTypes[i].dlpack_bits == bits) return &kTypes[i];
  return NULL;
}

const aotc_dtype* aotc_dtype_of_format(const char* format, Py_ssize_t itemsize, uint32_t expected) {
  if (!format) format = "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  const char* c = *format == 'Z' ? format + 1 : format;
  if (!c[0] || c[1]) return NULL;
  const int complex = c != format;
  switch (c[0]) {
    case 'f':
    case 'd':
    case 'e': return aotc_dtype_of_dlpack(complex ? DL_COMPLEX : DL_FLOAT, (uint8_t)(itemsize * 8));
    case '?': return aotc_dtype_of(AOTC_DTYPE_BOOL);
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n': return aotc_dtype_of_dlpack(DL_INT, (uint8_t)(itemsize * 8));
    case 'B':
    case 'H': {
      const aotc_dtype* bits = aotc_dtype_of(expected);
      if (bits && bits->format[0] == c[0] && bits->bytes == itemsize) return bits;
      return c[0] == 'B' ? aotc_dtype_of(AOTC_DTYPE_U8) : NULL;
    }
    default: return NULL;
  }
}
