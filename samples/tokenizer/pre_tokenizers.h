#pragma once
// tokenizer.json's `pre_tokenizer`: how a text is cut into words, each of which the model makes tokens of by itself.
#include <vector>

#include "pattern.h"

namespace tok {

/// How a byte stands in the vocabularies of byte-level models: as a character that prints.
class ByteAlphabet {
 public:
  ByteAlphabet();
  const std::string& shown(unsigned char byte) const { return shown_[byte]; }
  /// -1: it stands for no byte.
  int byte_of(uint32_t code) const { return code < kCodes ? bytes_[code] : -1; }

 private:
  static constexpr uint32_t kCodes = 256 + 68;  ///< bytes that do not print are code points from 256 on
  std::string shown_[256];
  int16_t bytes_[kCodes];
};

class PreTokenizer {
 public:
  /// A word, and whether it begins where the text does.
  using Emit = std::function<void(std::string_view word, bool first)>;

  /// Throws std::runtime_error.
  PreTokenizer(const Field& field, const Libraries& libraries);
  /// The words of a text, which is UTF-8, in order; none is empty. first: the text is the begin of all that is encoded.
  void split(std::string_view text, bool first, const Emit& word) const { run(0, text, first, word); }
  /// Words are bytes in ByteAlphabet.
  bool byte_level() const { return byte_level_; }

 private:
  using Step = std::function<void(std::string_view piece, bool first, const Emit& emit)>;
  void run(size_t step, std::string_view piece, bool first, const Emit& word) const;
  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace tok
