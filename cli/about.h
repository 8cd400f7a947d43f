#pragma once
// What the JSON of every verb says of where it comes from (schemas/about.schema.json).
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "artifact.h"
#include "cli.h"

namespace aotc::cli {

/// The processor's name, the processors that this process may use, memory, the operating system.
nlohmann::json machine_json();

/// Of an artifact's file: its name, `id`, the hash of all its bytes and those of its weights file (16 hex digits), and `archive`, the id of
/// the archive that it was built from. Without what an older artifact does not say.
nlohmann::json artifact_json(const ArtifactFile& artifact);
/// Its `id` alone; empty: it has none.
std::string artifact_id(const ArtifactFile& artifact);
/// The id of its archive; empty: it says none.
std::string archive_id(const nlohmann::json& metadata);

/// The verb, the program's version, the machine.
nlohmann::json about(const Common& common);
nlohmann::json about(const Common& common, const ArtifactFile& artifact);

/// A verb's result on stdout, with `about` in it.
void print_result(nlohmann::json result, const nlohmann::json& about);

}  // namespace aotc::cli
