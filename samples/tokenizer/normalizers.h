#pragma once
// tokenizer.json's `normalizer`: how a text is changed before it is cut into words.
#include <vector>

#include "pattern.h"

namespace tok {

/// UTF-8, and for each byte whether it may be a part of an added token (1) or is text, whatever it says (0).
struct Text {
  std::string bytes, marks;

  void add(std::string_view text, bool mark) {
    bytes += text;
    marks.append(text.size(), mark ? 1 : 0);
  }
  void add(const Text& from, size_t begin, size_t end) {
    bytes.append(from.bytes, begin, end - begin);
    marks.append(from.marks, begin, end - begin);
  }
  /// All of these bytes may be a part of an added token.
  bool all_marks(size_t begin, size_t end) const {
    return std::string_view(marks).substr(begin, end - begin).find('\0') == std::string::npos;
  }
};

class Normalizer {
 public:
  /// Throws std::runtime_error.
  Normalizer(const Field& field, const Libraries& libraries);
  bool nothing() const { return steps_.empty(); }
  void apply(Text& text) const {
    for (const Step& step : steps_) step(text);
  }

 private:
  using Step = std::function<void(Text&)>;
  std::vector<Step> steps_;
};

}  // namespace tok
