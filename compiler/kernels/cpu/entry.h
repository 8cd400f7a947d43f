#pragma once
// How an entry of the library is defined.
#include "aotc/detail/library_abi.h"

#define AOTC_CAT_(a, b) a##_##b
#define AOTC_CAT(a, b) AOTC_CAT_(a, b)
/// Defines the entry aotc_<name>_<isa>.
#define AOTC_ENTRY(name) extern "C" void AOTC_CAT(AOTC_CAT(aotc, name), AOTC_ISA)(const aotc_kargs* args, int64_t begin, int64_t end)
