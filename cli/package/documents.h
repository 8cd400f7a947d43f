#pragma once
// What a package says of its artifact: where it comes from and what is linked into it. The same artifact gives the same text, wherever and
// whenever it was packed.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "package/package.h"

namespace aotc::cli {

struct Described {
  const nlohmann::json& metadata;   ///< of the artifact
  const nlohmann::json& report;     ///< of its build
  std::vector<FileDigest> built;    ///< the artifact, then its weights file where it has one
  std::vector<FileDigest> sources;  ///< archives that it was built from, as far as they were given
  std::string builder;              ///< a URI
  std::string glibc;                ///< the oldest that it loads under
};

/// The report without what differs from run to run: times, paths, what the cache of objects had.
nlohmann::json lasting_report(nlohmann::json report);
/// An SBOM (CycloneDX 1.6): the artifact, the archive, and what is linked in with its licenses.
nlohmann::json sbom(const Described& d);
/// An in-toto statement with SLSA's provenance 1.
nlohmann::json provenance(const Described& d);
/// What LICENSES/NOTICE says of the parts.
std::string notice(const Described& d);

}  // namespace aotc::cli
