/* check: a condition of the program. dtype bool. ptr: the condition, or the condition and an index (int64) that does not meet it, then out,
 * one element each: out becomes the condition, and where that is false the fault is AOTC_FAULT_CHECK. out is a hidden output of the
 * artifact, of AOTC_HIDDEN_BYTES: the index comes to its byte AOTC_CHECK_INDEX. size: how many are before out. work: 1. isa avx2. */
#ifndef AOTC_DETAIL_CHECK_ABI_H_
#define AOTC_DETAIL_CHECK_ABI_H_

enum { AOTC_CHECK_INDEX = 8 };
enum { AOTC_FAULT_CHECK = 2 }; /* beside those of aotc/detail/kernel_abi.h */

#endif
