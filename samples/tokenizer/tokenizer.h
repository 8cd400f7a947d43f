#pragma once
// BPE as a Hugging Face tokenizer.json describes it: text to token ids and back, as the tokenizers library does it.
//
//   added_tokens.h    marks, cut out of the text first
//   normalizers.h     how the text is changed
//   pre_tokenizers.h  how it is cut into words
//   bpe.h             the tokens of a word
//   decoders.h        the bytes of tokens
//
// Regular expressions and normalisation forms are a library's (regex_pcre2.h, nfc_utf8proc.h).
#include "added_tokens.h"
#include "bpe.h"
#include "decoders.h"
#include "pre_tokenizers.h"

namespace tok {

/// Any number of threads may use it.
class Tokenizer {
 public:
  /// Throws std::runtime_error where the file cannot be read or describes another kind of tokenizer, with the JSON path of what is not
  /// known.
  explicit Tokenizer(const std::string& path, const Libraries& libraries = {});
  /// The same of a file that is read already.
  Tokenizer(const Json& file, const Libraries& libraries);

  /// A part of a text: with marks, what looks like a special token is one; else it is text, whatever it says. Added tokens that are not
  /// special (runs of spaces, tags) are tokens in both.
  struct Part {
    std::string text;
    bool marks;
  };
  /// The parts as one text, appended to the ids: words may cross from one part to the next. No tokens that a text begins with (prefix()).
  /// What is no UTF-8 counts as U+FFFD. Throws TextError.
  void encode(const std::vector<Part>& parts, std::vector<int64_t>& ids) const;
  std::vector<int64_t> encode(std::string_view text) const;
  /// The tokens that a text begins with (`post_processor`): a mark of its begin, or none.
  const std::vector<int64_t>& prefix() const { return prefix_; }

  /// The bytes of a token within a text; one character may take several tokens. Nothing for special tokens.
  std::string bytes(int64_t id) const { return known(id) ? bytes_[static_cast<size_t>(id)] : std::string(); }
  /// The bytes of the next token of a text, which loses a space at its begin in some models.
  std::string bytes(int64_t id, Decoder::Begin& begin) const;
  /// The id of an added token; -1: there is none.
  int64_t added(std::string_view content) const;
  /// The ids of the added tokens whose contents stand in a text and are more than spaces.
  std::vector<int64_t> marks_in(std::string_view text) const;
  /// Takes a token for special, though the file does not say so: one that ends answers, or that a chat template has.
  void set_mark(int64_t id);
  size_t size() const { return bytes_.size(); }

 private:
  bool known(int64_t id) const { return id >= 0 && static_cast<size_t>(id) < bytes_.size(); }
  void read_post_processor(const Field& field, int depth);

  Normalizer normalizer_;
  AddedTokens added_;
  PreTokenizer pre_tokenizer_;
  Bpe model_;
  Decoder decoder_;
  std::vector<int64_t> prefix_;
  std::vector<std::string> tokens_;  ///< by id, as the file writes them; empty: special ones, and those that there are not
  std::vector<std::string> bytes_;   ///< by id
};

}  // namespace tok
