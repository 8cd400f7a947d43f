#pragma once
// Names of an archive in C and C++ text: whatever they hold, the text compiles, alone and beside other generated headers.
#include <set>
#include <string>
#include <string_view>

namespace aotc::emit {

/// A C identifier from any text: letters and digits stay, a character beyond ASCII becomes its number ("größe": "gr_u00f6_u00dfe"), all
/// else an underscore. Not checked against keywords: it is the stem of longer names.
std::string c_identifier(std::string_view text);

/// Whether C, C++ or their headers may define it: a keyword, a macro in capitals, a type (int64_t), a name of the ABI.
bool is_reserved(const std::string& name);

/// Identifiers of one scope.
class CNames {
 public:
  /// Names that the scope uses itself.
  explicit CNames(std::set<std::string> taken = {}) : taken_(std::move(taken)) {}
  /// A new identifier for `text`: no keyword of C or C++, none that the languages or headers reserve, none given before.
  std::string add(std::string_view text);

 private:
  std::set<std::string> taken_;
};

}  // namespace aotc::emit
