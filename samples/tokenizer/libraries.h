#pragma once
// What this folder takes from libraries. A program passes what it is linked with; without, files that need it are refused.
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tok {

/// A text that cannot be made tokens of. Any text of a client may end so, where the file's expressions take too long for it.
struct TextError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Takes half-open ranges of a text, in order, no two of which overlap.
using Found = std::function<void(size_t begin, size_t end)>;

/// A compiled regular expression. Any number of threads may use it.
class Regex {
 public:
  virtual ~Regex() = default;
  /// All matches, one after the other. The text must be UTF-8. Throws TextError.
  virtual void each(std::string_view text, const Found& found) const = 0;
};

enum class Form { nfc, nfd, nfkc, nfkd };

struct Libraries {
  /// Throws std::runtime_error that says what is wrong with the expression.
  std::function<std::unique_ptr<Regex>(const std::string& expression)> regex;
  /// A normalisation form of Unicode; the text must be UTF-8.
  std::function<std::string(std::string_view text, Form)> normalized;
};

}  // namespace tok
