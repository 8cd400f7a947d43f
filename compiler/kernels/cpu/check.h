#pragma once
// A condition of the program: check of aotc/detail/check_abi.h.
#include "aotc/detail/check_abi.h"
#include "entry.h"

namespace {

inline void check(const aotc_kargs* args, int64_t begin, int64_t end) {
  if (begin >= end) return;
  const unsigned char holds = *static_cast<const unsigned char*>(args->ptr[0]);
  const int64_t before_out = args->size[0];
  auto* out = static_cast<unsigned char*>(args->ptr[before_out]);
  *out = holds;
  if (before_out == 2) *reinterpret_cast<int64_t*>(out + AOTC_CHECK_INDEX) = *static_cast<const int64_t*>(args->ptr[1]);
  if (!holds) *args->fault = AOTC_FAULT_CHECK;
}

}  // namespace
