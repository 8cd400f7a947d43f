/* exclude: which of n stay, where each that does, in their order, takes out later ones. dtype bool. ptr: x [count, n, n], out [count, n]:
 * i stays where no j < i that does has x[j, i]. size: count, n, n. work: count. isa avx2. */
#ifndef AOTC_DETAIL_EXCLUDE_ABI_H_
#define AOTC_DETAIL_EXCLUDE_ABI_H_
#endif
