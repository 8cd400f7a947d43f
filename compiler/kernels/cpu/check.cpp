// check of aotc/detail/check_abi.h.
#include "aotc/detail/check_abi.h"
#include "entry.h"

AOTC_ENTRY(check_bool) {
  if (begin >= end) return;
  const unsigned char holds = *static_cast<const unsigned char*>(args->ptr[0]);
  *static_cast<unsigned char*>(args->ptr[1]) = holds;
  if (!holds) *args->fault = AOTC_FAULT_CHECK;
}
