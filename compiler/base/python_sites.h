#pragma once
// Where Python packages lie on this machine: places as data, best first, so that a message can name every one of them.
#include <map>
#include <string>
#include <vector>

namespace aotc {

/// Environment variables as a search sees them.
using Variables = std::map<std::string, std::string>;
Variables process_variables();
/// Empty when it is not set.
std::string variable(const Variables& variables, const std::string& name);

/// What a pattern of glob() matches, and a path as a pattern: what the user's folders are called is none.
std::vector<std::string> glob_matches(const std::string& pattern);
std::string glob_literal(const std::string& path);

struct PythonSites {
  std::string what;                  ///< as a message names it: "VIRTUAL_ENV=/opt/venv"
  std::string none;                  ///< why it cannot be looked in ("not set"); else empty
  std::vector<std::string> folders;  ///< site-packages and the like
};

/// The folders of packages of the installation or virtual environment at `prefix`.
std::vector<std::string> sites_of_prefix(const std::string& prefix);
/// In order: VIRTUAL_ENV, CONDA_PREFIX, PYTHONPATH (when it is set), the python3 of PATH, the user's folder. Starts no program.
std::vector<PythonSites> python_sites(const Variables& variables);
/// Those of the python3 of PATH alone.
PythonSites sites_of_path(const Variables& variables);
/// The last resort, where Python itself is asked for its sys.path (it may be a launcher script such as pyenv's).
PythonSites sites_of_python(const Variables& variables);

}  // namespace aotc
