#pragma once
// tokenizer.json's `decoder`: the bytes of tokens, one after the other.
#include <vector>

#include "pattern.h"

namespace tok {

class Decoder {
 public:
  /// byte_level: what a file without a decoder has. Throws std::runtime_error for what cannot be decoded token by token.
  Decoder(const Field& field, const Libraries& libraries, bool byte_level);

  /// What a text's begin leaves out.
  struct Begin {
    bool first = true;      ///< no token came yet
    size_t stripped = 0;    ///< of the bytes so far
    bool stripping = true;  ///< nothing else came yet
  };
  /// The bytes of a token within a text. They may begin or end within a character.
  std::string bytes(std::string token) const { return run(std::move(token), false); }
  /// The bytes of a text's next token.
  std::string bytes(std::string token, Begin& begin) const;

 private:
  using Step = std::function<void(std::string& token, bool first)>;
  std::string run(std::string token, bool first) const;
  void read(const Field& field, const Libraries& libraries, int depth);
  void read_strip(const Field& field);

  std::vector<Step> steps_;
  bool joined_ = false;  ///< what further steps would see is not one token any more
  size_t strip_ = 0;     ///< how many of this the text loses at its begin
  char stripped_ = ' ';
};

}  // namespace tok
