// A condition of the program: where it is false the run fails.
#pragma once
#include "device.cuh"

// out: the condition.
AOTC_DI void check(const bool* condition, bool* out, int* fault) {
  if (threadIdx.x > 0 || blockIdx.x > 0) return;
  *out = *condition;
  if (!*condition) *fault = 2;
}
