#pragma once
// The metadata of an artifact, read from its file alone: nothing of it is loaded, no code of it runs.
#include <optional>
#include <string>

#include "aotc/seal.h"

namespace aotc::cli {

/// JSON (schemas/metadata.schema.json) of a checked file that is mapped. Empty where the file does not say where it is: an earlier aotc
/// made it.
std::optional<std::string> metadata_text(const aotc_elf& elf);

}  // namespace aotc::cli
