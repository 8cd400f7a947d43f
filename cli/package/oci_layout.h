#pragma once
// A package as an OCI image layout: an artifact whose layers are its files, as registries and their tools (oras, skopeo) take it.
#include <string>
#include <vector>

#include "package/package.h"

namespace aotc::cli {

/// Writes the layout into a new folder, which appears whole or not at all; the digest of its manifest, "sha256:...". The same files give
/// the same bytes. digests: of the files, in their order. Throws Diagnostic (io).
std::string write_oci_layout(const std::string& folder, const std::string& model, const std::vector<PackedFile>& files,
                             const std::vector<FileDigest>& digests);

}  // namespace aotc::cli
