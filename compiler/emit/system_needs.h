#pragma once
// What a shared object needs of the system that loads it, read from its ELF tables.
#include <optional>
#include <string>
#include <vector>

namespace aotc::emit {

struct SystemNeeds {
  std::vector<std::string> libraries;  ///< DT_NEEDED, in order
  std::string glibc;                   ///< the newest version among the needed symbols', "2.14"; empty where none has one
};
/// None where the file is no shared object or its tables are damaged.
std::optional<SystemNeeds> system_needs(const std::string& path);

}  // namespace aotc::emit
