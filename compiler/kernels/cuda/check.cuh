// A condition of the program: where it is false the run fails.
#pragma once
#include "device.cuh"

// out: the condition; with an index that does not meet it, that at its byte 8 (aotc/detail/check_abi.h).
AOTC_DI void check(const bool* condition, const i64* index, bool* out, int* fault) {
  if (threadIdx.x > 0 || blockIdx.x > 0) return;
  *out = *condition;
  if (index) *reinterpret_cast<i64*>(out + 8) = *index;
  if (!*condition) *fault = 2;
}
