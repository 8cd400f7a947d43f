/* The entries of the kernel library that multiply unsigned bytes by signed ones and sum in 32 bits: a part of library_abi.h. C11 and
 * C++17. */
#ifndef AOTC_DETAIL_BYTES_ABI_H_
#define AOTC_DETAIL_BYTES_ABI_H_
#include "aotc/detail/library_abi.h"

/* ---- What becomes of a sum v at row m (of gemm_bytes's one batch element; of convolutions the pixel, counted over all images) and column
 * n (from its segment's begin; the output channel of all groups), as data. It does what the epilogue beside it does, but that what becomes
 * bytes may be multiplied by their steps before it is summed; an entry may take either.
 *   x = (float)(v - (sub.ptr < 0 ? 0 : i32 sub[n])) * (scale.ptr < 0 ? scale_all : f32 scale[n]) + (bias.ptr < 0 ? 0 : f32 bias[n])
 *   trips: x = (min(max(rint(x * trip_steps) + trip_zero, 0), 255) - trip_zero) * trip_scale, through bytes and back
 *   x += f32 add[m, n], or ((float)u8 add[m, n] - add_zero) * add_scale
 *   x = min(max(x, at_least), at_most)
 *   bytes.ptr < 0: x is stored at floats[m, n]. Else q = min(max(rint(x * steps) + zero, 0), 255) is stored at bytes[m, n], and
 *   (q - zero) * again at floats[m, n] if there are such.
 * NaN gives byte 0. [n]: element base + n; [m, n]: element base + m * pitch + n of args->ptr[ptr]; ptr -1: none. */
typedef struct aotc_byte_place {
  int32_t ptr;
  int64_t base, pitch;
} aotc_byte_place;
enum { AOTC_BYTES_ADD_NONE = 0, AOTC_BYTES_ADD_F32, AOTC_BYTES_ADD_U8 };
typedef struct aotc_byte_finish {
  int32_t taken; /* 0: there is the epilogue alone */
  int32_t add_kind;
  int32_t add_zero, zero; /* of bytes */
  int32_t trips, trip_zero;
  aotc_byte_place sub, scale, bias, add, bytes, floats;
  float scale_all, add_scale, at_least, at_most, steps, again, trip_steps, trip_scale;
} aotc_byte_finish;

/* ---- gemm_bytes_u8: out[b, m, n] = epilogue(sum_k A[b, m, k] * B[k, n]) -------------------------------------------------------------
 * A: u8 of any strides. B: i8, a weight without batch dims in the form of gemm_quant with bits 8, but k is padded to
 * aotc_bytes_depth(k). Sums are exact while they fit 32 bits. ptr: by the config. size and work: as gemm's; what is said of B is unused.
 * scratch: aotc_gemm_bytes_scratch_bytes(). */
typedef struct aotc_gemm_bytes_config {
  int32_t a_ptr, b_ptr;
  int32_t mc, nc; /* work unit, nc a multiple of AOTC_PANEL_N */
  int32_t n_segments;
  const aotc_epilogue_fn* epilogues; /* one per segment */
  const aotc_byte_finish* finish;    /* one per segment; NULL: none */
} aotc_gemm_bytes_config;

/* k of a weight as it is stored: whole steps of tile registers. */
static inline int64_t aotc_bytes_depth(int64_t k) { return (k + 63) / 64 * 64; }
enum { AOTC_BYTES_SUMS = 4096 }; /* that are finished at once, unless one panel of a unit's rows has more */
/* Bytes of a copied row of k, as bytes and as pairs of 16 bits. */
static inline int64_t aotc_bytes_row_bytes(int64_t k) { return (aotc_bytes_depth(k) + 64) * 3; }
static inline int64_t aotc_bytes_sums_bytes(int64_t rows) {
  int64_t panel = rows * AOTC_PANEL_N, least = AOTC_BYTES_SUMS;
  return (panel > least ? panel : least) * 4;
}
/* Bytes per thread; affine in k rounded up to a multiple of 64. */
static inline int64_t aotc_gemm_bytes_scratch_bytes(const aotc_gemm_bytes_config* c, int64_t k) {
  return aotc_bytes_sums_bytes(c->mc) + c->mc * aotc_bytes_row_bytes(k) + 256;
}

/* ---- gemm_bytes_tiles_u8: the same in tile registers; isa amx. As gemm_tiles is to gemm, with gemm_bytes standing in. scratch: the larger
 * of both. */
enum { AOTC_BYTES_TILE_SUMS = 2048 }; /* finished while as many are made */
enum { AOTC_BYTES_NEAR = 1 << 16 };   /* bytes of a unit's columns of B that are read for every block of rows again, others once */
/* Bytes per thread, of `rows` copied rows. */
static inline int64_t aotc_bytes_tiles_scratch_bytes(int64_t rows, int64_t k) {
  return 2 * (int64_t)AOTC_BYTES_TILE_SUMS * 4 + (rows + 15) / 16 * 16 * (aotc_bytes_depth(k) + 64);
}

/* ---- conv_bytes_u8, conv_bytes_depthwise_u8: channels-last convolutions of u8 x by i8 w in 32 bits -----------------------------------
 * ptr: by the config. size: enum aotc_conv_size, then what the epilogue uses. Outside of the images x is `around`.
 * conv_bytes: an implicit product. w: for each group a matrix [(kd, kh, kw, c), Co / groups] in the form of gemm_bytes, each line of taps
 *   (kw, c) filled up with zeros to `line` rows.
 *   work: groups * ceil(co / groups / mc) * ceil(n * od * oh * ow / nc).
 * conv_bytes_depthwise: a channel a group. w: one matrix [(kd, kh, kw), C] in the form of gemm_bytes. work: n * od * ceil(oh / kp): bands
 * of kp rows; mc channels (a multiple of AOTC_PANEL_N) of nc pixels of a row at a time. scratch: aotc_conv_bytes_scratch_bytes(),
 * aotc_conv_bytes_depthwise_scratch_bytes(). */
typedef struct aotc_conv_bytes_config {
  int32_t x_ptr, w_ptr;
  int32_t kernel[3], stride[3], pad[3], dilation[3]; /* d h w; 1, 1, 0, 1 for the missing leading ones */
  int32_t groups, around;
  int32_t line; /* KW * C / groups or more */
  int32_t way;  /* AOTC_BYTES_*: how conv_bytes_tiles reads x */
  int32_t mc, nc, kp;
  aotc_epilogue_fn epilogue;      /* batch = n, m = pixel of one image, n = output channel of all groups */
  const aotc_byte_finish* finish; /* NULL: none */
} aotc_conv_bytes_config;

/* k: KD * KH * line. Bytes per thread; affine in k rounded up to a multiple of 64. */
static inline int64_t aotc_conv_bytes_scratch_bytes(const aotc_conv_bytes_config* c, int64_t k) {
  return aotc_bytes_sums_bytes(c->nc) + c->nc * aotc_bytes_row_bytes(k) + 256;
}
/* ---- conv_bytes_tiles_u8: conv_bytes in tile registers; isa amx. As gemm_bytes_tiles is to gemm_bytes.
 * AOTC_BYTES_COPIES: the rows of the implicit product are copied. AOTC_BYTES_PIXELS (windows of one pixel, stride 1, no padding): they are
 * read where they lie. AOTC_BYTES_STRIP (two dims, one group, no dilation of width, `line` a multiple of 64): windows are read from a copy
 * of the pixels with their borders, if that has room where the rows would have; a unit has whole output rows then. */
enum { AOTC_BYTES_COPIES = 0, AOTC_BYTES_PIXELS, AOTC_BYTES_STRIP };
/* Bytes from pixel to pixel of a strip: pixels a multiple of 512 bytes apart share cache sets. */
static inline int64_t aotc_bytes_strip_pixel(int64_t c) { return c % 512 == 0 ? c + 64 : c; }
/* Whether output pixels are counted along bordered rows; else each output row begins a tile of 16. */
static inline int32_t aotc_bytes_strip_along(const aotc_conv_bytes_config* c) { return c->stride[1] == 1 && c->stride[2] == 1; }
static inline int64_t aotc_bytes_strip_columns(const aotc_conv_bytes_config* c, int64_t ow) {
  return (ow - 1) * c->stride[2] + c->kernel[2];
}

enum { AOTC_BYTES_DEPTHWISE_TAPS = 128 };
static inline int64_t aotc_conv_bytes_depthwise_scratch_bytes(const aotc_conv_bytes_config* c, int64_t taps) {
  return (int64_t)c->mc * ((int64_t)c->nc * 4 + taps * 4 + 1) + 512;
}

#endif
