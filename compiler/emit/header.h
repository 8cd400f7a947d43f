#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"

namespace aotc::emit {
struct HeaderMethod {
  std::string name;
  const Graph& graph;
};
struct HeaderStyle {
  bool linked = false;    ///< of a static archive whose prefix is the stem: no loader, the function that gives the table
  bool includes = false;  ///< the public headers are included from aotc's folder of them; else their text is part of this one
};
/// The header generated beside an artifact, C11 and C++17; headers of several artifacts may be included in one file, where they share the
/// public ABI and the loader. It has each method's own sizes, names and typed functions; with several methods their names have the
/// method's. `stem`: file name of the artifact without ".so"; C names are made from it.
std::string emit_header(const std::vector<HeaderMethod>& methods, const std::string& stem, const std::string& version,
                        const HeaderStyle& style = {});
/// What the names of that header's functions begin with: the stem as an identifier, after "m_" where the ABI has names that begin so
/// ("aotc", "aotc_library").
std::string header_prefix(const std::string& stem);
}  // namespace aotc::emit
