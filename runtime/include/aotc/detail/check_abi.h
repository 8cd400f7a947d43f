/* check: a condition of the program. dtype bool. ptr: the condition, out, one element each: out becomes the condition, and where that is
 * false the fault is AOTC_FAULT_CHECK. size: 0. work: 1. isa avx2. */
#ifndef AOTC_DETAIL_CHECK_ABI_H_
#define AOTC_DETAIL_CHECK_ABI_H_

enum { AOTC_FAULT_CHECK = 2 }; /* beside those of aotc/detail/kernel_abi.h */

#endif
