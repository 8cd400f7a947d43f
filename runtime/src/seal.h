#pragma once
// Whether the file that this artifact was loaded from is whole: seal.cpp, or of what is linked into programs ../linked/linked.cpp.
#include <stddef.h>

#include "aotc/aotc.h"

namespace aotc::rt {

/// Code and tables, and with `all` the weights within it and the rest: DAMAGED where they are not what was built, or the seal is lost. What
/// cannot be asked is no fault, but with `all`: the file is gone (NOT_FOUND) or is another one by now (INCOMPATIBLE). Of an artifact that
/// was opened from memory or a descriptor the seal, and with `all` the weights, where they are loaded.
aotc_status seal_check(bool all);
/// Hash of the weights that this artifact was built with; 0: it has none.
uint64_t seal_weights_hash();
/// Of all bytes of the artifact's file: what the command line calls its id; 0: there is none.
uint64_t seal_self_hash();
/// Where the file lies that this code was loaded from; null where it has no path. It may lie in `buffer`, of kPathMax bytes.
constexpr size_t kPathMax = 4096;
const char* own_path(char* buffer);
/// That path is a descriptor's (loader.h), whose number may be another file's by now.
bool is_of_descriptor(const char* path);

}  // namespace aotc::rt
