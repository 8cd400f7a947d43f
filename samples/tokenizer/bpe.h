#pragma once
// tokenizer.json's `model` of type BPE: the tokens of a word.
#include <unordered_map>
#include <vector>

#include "field.h"
#include "libraries.h"

namespace tok {

class Bpe {
 public:
  /// Throws std::runtime_error.
  explicit Bpe(const Field& model);

  /// Appends the tokens of a word, which is UTF-8. Time: n log n. Throws TextError.
  void encode(std::string_view word, std::vector<int64_t>& ids) const;
  /// By id, as the vocabulary writes them; empty: there is none.
  std::vector<std::string> take_tokens() { return std::move(tokens_); }
  /// No word is this token by itself, whatever it says: a mark.
  void never_a_word(const std::string& token) { whole_.erase(token); }

 private:
  struct Merge {
    uint32_t rank, made;
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  static uint64_t pair_of(uint64_t a, uint64_t b) { return a << 32 | b; }
  void read_merges(const Field& merges, const std::unordered_map<std::string, uint32_t>& ids);
  uint32_t of_character(uint32_t code) const;
  /// The symbols that a word begins as: its characters, their bytes, or what stands for the unknown.
  std::vector<uint32_t> symbols(std::string_view word) const;

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, uint32_t> whole_;       ///< tokens that a word can be at once (ignore_merges)
  std::unordered_map<uint32_t, uint32_t> of_characters_;  ///< tokens of one character, by code point
  std::vector<uint32_t> of_first_characters_;             ///< the same for small code points, kNone: there is none
  std::vector<uint32_t> of_bytes_;                        ///< <0x00> to <0xFF>; empty: bytes are no tokens
  std::unordered_map<uint64_t, Merge> merges_;
  uint32_t unknown_ = kNone;
  bool fuse_unknown_ = false;
};

}  // namespace tok
