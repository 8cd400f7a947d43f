#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"

namespace aotc::emit {
struct HeaderMethod {
  std::string name;
  const Graph& graph;
};
/// The header generated beside an artifact: self-contained (the public ABI and the loader are part of it), C11 and C++17; headers of
/// several artifacts may be included in one file. It has each method's own sizes, names and typed functions; with several methods their
/// names have the method's. `stem`: file name of the artifact without ".so"; C names are made from it. linked: of a static archive whose
/// prefix is the stem: no loader, the function that gives the table.
std::string emit_header(const std::vector<HeaderMethod>& methods, const std::string& stem, const std::string& version, bool linked = false);
/// What the names of that header's functions begin with: the stem as an identifier, after "m_" where the ABI has names that begin so
/// ("aotc", "aotc_library").
std::string header_prefix(const std::string& stem);
}  // namespace aotc::emit
