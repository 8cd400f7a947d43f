#include "added_tokens.h"

#include <algorithm>

#include "unicode.h"

namespace tok {

void AddedTokens::add(Tree& tree, const AddedToken& token) {
  if (token.searched.empty()) return;
  tree.begins[static_cast<unsigned char>(token.searched[0])] = true;
  uint32_t node = 0;
  for (const char c : token.searched) {
    const uint64_t key = uint64_t{node} << 8 | static_cast<unsigned char>(c);
    const auto [it, made] = tree.edges.try_emplace(key, static_cast<uint32_t>(tree.tokens.size()));
    if (made) tree.tokens.push_back(nullptr);
    node = it->second;
  }
  if (!tree.tokens[node]) tree.tokens[node] = &token;  // of equal ones the first counts
}

const AddedToken* AddedTokens::longest(const Tree& tree, const Text& text, size_t at, size_t* end) {
  if (!tree.begins[static_cast<unsigned char>(text.bytes[at])]) return nullptr;
  const AddedToken* found = nullptr;
  uint32_t node = 0;
  bool marks = true;  // all bytes so far may be a mark
  for (size_t i = at; i < text.bytes.size(); ++i) {
    const auto it = tree.edges.find(uint64_t{node} << 8 | static_cast<unsigned char>(text.bytes[i]));
    if (it == tree.edges.end()) break;
    node = it->second;
    marks = marks && text.marks[i];
    if (const AddedToken* t = tree.tokens[node]; t && (marks || !t->mark)) found = t, *end = i + 1;
  }
  return found;
}

void AddedTokens::set_mark(int64_t id) {
  for (AddedToken& t : all_)
    if (t.id == id) t.mark = true;
}

AddedTokens::AddedTokens(const Field& list, const Normalizer& normalizer) {
  if (list.is_null()) return;
  for (const Field& f : list.list()) {
    AddedToken t;
    t.content = f["content"].text();
    t.id = f["id"].count(kMostId);
    t.special = t.mark = f["special"].flag(false);
    t.normalized = f["normalized"].flag(!t.special);
    t.lstrip = f["lstrip"].flag(false);
    t.rstrip = f["rstrip"].flag(false);
    t.single_word = f["single_word"].flag(false);
    Text wanted;
    wanted.add(t.content, true);
    if (t.normalized) normalizer.apply(wanted);
    t.searched = std::move(wanted.bytes);
    all_.push_back(std::move(t));
  }
  for (const bool special : {true, false})
    for (const AddedToken& t : all_)
      if (t.special == special) add(trees_[t.normalized], t);
}

namespace {

/// The character before text[at].
uint32_t code_before(std::string_view text, size_t at) {
  size_t begin = at - 1, n;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
  return code_at(text, begin, &n);
}

}  // namespace

void AddedTokens::split(const Text& text, bool normalized, const Emit& emit) const {
  const Tree& tree = trees_[normalized];
  const std::string_view all = text.bytes;
  size_t done = 0, n;
  for (size_t at = 0, next; at < all.size() && !tree.edges.empty(); at = next) {
    size_t end = at + 1;
    const AddedToken* const found = longest(tree, text, at, &end);
    next = end;
    if (!found) continue;
    const AddedToken& t = *found;
    size_t begin = at;
    if (t.single_word && ((begin > 0 && is_word(code_before(all, begin))) || (end < all.size() && is_word(code_at(all, end, &n)))))
      continue;
    if (t.lstrip)
      while (begin > done && is_space(code_before(all, begin))) {
        do --begin;
        while ((static_cast<unsigned char>(all[begin]) & 0xc0) == 0x80);
      }
    if (t.rstrip)
      while (end < all.size() && is_space(code_at(all, end, &n))) end += n;
    begin = std::max(begin, done);  // spaces that are a token may belong to the one before already
    if (done < begin) emit(nullptr, done, begin);
    emit(&t, begin, end);
    done = std::max(done, end);
  }
  if (done < all.size()) emit(nullptr, done, all.size());
}

}  // namespace tok
