/* What the emulated driver writes into the 128 bytes of a tensor map, and the emulated copies read. Dimensions from the contiguous one
 * outwards. */
#ifndef AOTC_EMULATED_MAP
#define AOTC_EMULATED_MAP
#include <stdint.h>

typedef struct EmulatedMap {
  uint64_t data, strides[4]; /* bytes, of dimensions 1, 2 .. */
  uint32_t dims[5];
  uint16_t box[5];                       /* elements of a copy; windows: channels, then pixels */
  int16_t lower[3], upper[3];            /* windows: where they begin beside the first and the last element of dimensions 1, 2 .. */
  uint8_t steps[5];                      /* windows: from one to the next */
  uint8_t rank, bytes, swizzle, windows; /* bytes: of an element; swizzle: 0 none, 1 to 3: 32, 64, 128 bytes */
} EmulatedMap;
#endif
