#pragma once
// Bytes of an answer on their way out: whole characters only, and nothing of a stop string.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

/// How many bytes of the text are whole UTF-8 characters, if it may go on.
inline size_t whole_characters(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto c = static_cast<unsigned char>(text[text.size() - back]);
    if ((c & 0xc0) == 0x80) continue;
    return c >= 0xc0 && back < (c < 0xe0 ? 2u : c < 0xf0 ? 3u : 4u) ? text.size() - back : text.size();
  }
  return text.size();
}

class TextOut {
 public:
  explicit TextOut(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// What can be shown after these bytes. Where a stop string is complete, stopped() and what stands before it.
  std::string put(std::string_view bytes) {
    held_ += bytes;
    size_t found = std::string::npos;
    for (const std::string& s : stops_) found = std::min(found, held_.find(s));
    if (found != std::string::npos) {
      stopped_ = true;
      held_.resize(found);
      return std::move(held_);
    }
    size_t show = whole_characters(held_);
    for (const std::string& s : stops_)  // the begin of a stop string at the end waits
      for (size_t n = std::min(s.size() - 1, held_.size()); n > 0; --n)
        if (held_.compare(held_.size() - n, n, s, 0, n) == 0) {
          show = std::min(show, held_.size() - n);
          break;
        }
    std::string out = held_.substr(0, show);
    held_.erase(0, show);
    return out;
  }
  /// What was held back, at the end of an answer.
  std::string rest() { return std::move(held_); }
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace llm
