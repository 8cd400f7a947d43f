#pragma once
// tokenizer.json's `added_tokens`: texts that are one token wherever they stand, marks of a conversation among them.
#include <unordered_map>
#include <vector>

#include "normalizers.h"

namespace tok {

struct AddedToken {
  std::string content;
  std::string searched;  ///< the content, or what normalisation makes of it: what is looked for, and what a text of the token is made of
  int64_t id = 0;
  bool special = false;
  bool mark = false;                    ///< only bytes that may be a mark are it: special tokens, and what set_mark() names
  bool normalized = false;              ///< it is looked for after normalisation
  bool lstrip = false, rstrip = false;  ///< spaces beside it belong to it
  bool single_word = false;             ///< not within a word
};

class AddedTokens {
 public:
  /// Throws std::runtime_error.
  AddedTokens(const Field& list, const Normalizer& normalizer);
  AddedTokens(const AddedTokens&) = delete;
  AddedTokens& operator=(const AddedTokens&) = delete;
  const std::vector<AddedToken>& all() const { return all_; }

  /// Ranges of a text in order: of a token, or (null) what is between two. Of an empty text there is none.
  using Emit = std::function<void(const AddedToken* token, size_t begin, size_t end)>;
  void split(const Text& text, bool normalized, const Emit& emit) const;
  /// This token is a mark, though the file does not say that it is special.
  void set_mark(int64_t id);

 private:
  /// Tokens by what is searched, a node for each text that one begins with.
  struct Tree {
    std::unordered_map<uint64_t, uint32_t> edges;    ///< by node and byte
    std::vector<const AddedToken*> tokens{nullptr};  ///< by node
    bool begins[256] = {};
  };
  static void add(Tree& tree, const AddedToken& token);
  /// The longest token at this place, and its end; null: none.
  static const AddedToken* longest(const Tree& tree, const Text& text, size_t at, size_t* end);
  std::vector<AddedToken> all_;  ///< not changed in size once the trees are there
  Tree trees_[2];                ///< of tokens that are looked for before normalisation, and after
};

}  // namespace tok
