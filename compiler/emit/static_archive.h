#pragma once
// A model as an archive that is linked into programs: one object that shows one function and asks for the C library alone, and one that
// holds the weights.
#include <string>
#include <vector>

#include "emit/toolchain.h"

namespace aotc::emit {

struct Archived {
  std::vector<std::vector<std::string>> commands;  ///< what repeats it, in order; the last writes the archive
  std::string file;                                ///< in the work folder, where the last leaves it; not there any more
};
/// The weights as an object of their own in the work folder. Returns their hash (aotc_blob_hash).
uint64_t write_weights_object(const Blob& weights, const std::string& work_dir, std::string& object);
/// Merges `objects` and what they use of the archives embedded in aotc, makes local all but the function `PREFIX_get_api` and puts the
/// result into the archive `output`, beside it the weights' object, if there is one (else ""). Throws Diagnostic (toolchain, io).
Archived link_static_archive(const Compiler& compiler, const std::vector<std::string>& objects, const std::string& weights_object,
                             const std::string& prefix, const std::string& work_dir, const std::string& output);

}  // namespace aotc::emit
