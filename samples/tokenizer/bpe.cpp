#include "bpe.h"

#include <cstdio>
#include <queue>

namespace tok {

namespace {
constexpr uint32_t kFirstCharacters = 0x400;
}

Bpe::Bpe(const Field& model) {
  // Old files have no type.
  if (const Field type = model["type"]; !type.is_null() && type.text() != "BPE") type.wrong(type.text() + " is not supported; known: BPE");
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const Field f = model[affix]; !f.is_null() && !f.text().empty()) f.wrong("is not supported, expected none");
  if (const Field dropout = model["dropout"]; !dropout.is_null() && dropout.json().number != 0)
    dropout.wrong("is not supported, expected none");

  const Field vocab = model["vocab"];
  if (vocab.json().kind != Json::Kind::object) vocab.wrong("expected an object of tokens and ids");
  std::unordered_map<std::string, uint32_t> ids;
  of_first_characters_.assign(kFirstCharacters, kNone);
  for (const auto& [token, number] : vocab.json().members) {
    const auto id = static_cast<uint32_t>(Field(number, vocab.path() + "." + token).count(kMostId));
    ids[token] = id;
    if (id >= tokens_.size()) tokens_.resize(id + 1);
    tokens_[id] = token;
  }
  for (const auto& [token, id] : ids) {
    size_t n = 0;
    if (token.empty()) continue;
    if (const uint32_t code = code_at(token, 0, &n); n == token.size()) {
      of_characters_[code] = id;
      if (code < kFirstCharacters) of_first_characters_[code] = id;
    }
  }
  if (const Field unknown = model["unk_token"]; !unknown.is_null()) {
    const auto it = ids.find(unknown.text());
    if (it == ids.end()) unknown.wrong("is not in the vocabulary: " + unknown.text());
    unknown_ = it->second;
  }
  fuse_unknown_ = model["fuse_unk"].flag(false);
  if (model["byte_fallback"].flag(false)) {
    of_bytes_.assign(256, kNone);
    for (unsigned b = 0; b < 256; ++b) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", b);
      if (const auto it = ids.find(name); it != ids.end()) of_bytes_[b] = it->second;
    }
  }
  read_merges(model["merges"], ids);
  if (model["ignore_merges"].flag(false)) whole_ = std::move(ids);
}

void Bpe::read_merges(const Field& merges, const std::unordered_map<std::string, uint32_t>& ids) {
  if (merges.json().kind != Json::Kind::list) merges.wrong("expected a list");
  uint32_t rank = 0;
  for (const Json& m : merges.json().list) {
    const auto wrong = [&](const std::string& what) { merges.wrong("the one at " + std::to_string(rank) + " " + what); };
    std::string a, b;
    if (m.kind == Json::Kind::list && m.list.size() == 2) {
      a = m.list[0].text, b = m.list[1].text;
    } else if (const size_t space = m.text.find(' '); space != std::string::npos && m.text.find(' ', space + 1) == std::string::npos) {
      a = m.text.substr(0, space), b = m.text.substr(space + 1);
    } else {
      wrong("is no pair of tokens");
    }
    const auto left = ids.find(a), right = ids.find(b), both = ids.find(a + b);
    if (left == ids.end() || right == ids.end() || both == ids.end()) wrong("has tokens that are not in the vocabulary: " + a + " " + b);
    merges_[pair_of(left->second, right->second)] = {rank++, both->second};
  }
}

uint32_t Bpe::of_character(uint32_t code) const {
  if (code < kFirstCharacters) return of_first_characters_[code];
  const auto it = of_characters_.find(code);
  return it == of_characters_.end() ? kNone : it->second;
}

std::vector<uint32_t> Bpe::symbols(std::string_view word) const {
  std::vector<uint32_t> out;
  bool pending = false;  // an unknown one that is not written yet: others may join it
  for (size_t at = 0, n; at < word.size(); at += n) {
    if (const uint32_t id = of_character(code_at(word, at, &n)); id != kNone) {
      if (std::exchange(pending, false)) out.push_back(unknown_);
      out.push_back(id);
      continue;
    }
    bool bytes = !of_bytes_.empty();
    for (size_t i = at; i < at + n; ++i) bytes = bytes && of_bytes_[static_cast<unsigned char>(word[i])] != kNone;
    if (bytes) {  // before a pending one, as the tokenizers library has it
      for (size_t i = at; i < at + n; ++i) out.push_back(of_bytes_[static_cast<unsigned char>(word[i])]);
    } else if (unknown_ != kNone) {
      if (pending && !fuse_unknown_) out.push_back(unknown_);
      pending = true;
    }
  }
  if (pending) out.push_back(unknown_);
  return out;
}

/// The pair of the lowest rank first, of equals the leftmost, until there is none.
void Bpe::encode(std::string_view word, std::vector<int64_t>& ids) const {
  if (!whole_.empty())
    if (const auto it = whole_.find(std::string(word)); it != whole_.end()) return ids.push_back(it->second);
  struct Symbol {
    uint32_t id, before, after;  ///< kNone: there is none
  };
  struct Candidate {
    uint32_t rank, left, a, b, made;
    bool operator<(const Candidate& o) const { return rank != o.rank ? rank > o.rank : left > o.left; }
  };
  if (word.size() >= kNone) throw TextError("a word has " + std::to_string(word.size()) + " bytes, expected fewer than 4 GiB");
  std::vector<Symbol> s;
  for (const uint32_t id : symbols(word)) {
    const auto i = static_cast<uint32_t>(s.size());
    s.push_back({id, i > 0 ? i - 1 : kNone, i + 1});
  }
  if (s.empty()) return;
  s.back().after = kNone;
  std::priority_queue<Candidate> candidates;
  const auto look = [&](uint32_t left) {
    if (left == kNone || s[left].after == kNone) return;
    const uint32_t a = s[left].id, b = s[s[left].after].id;
    if (const auto it = merges_.find(pair_of(a, b)); it != merges_.end()) candidates.push({it->second.rank, left, a, b, it->second.made});
  };
  for (uint32_t i = 0; i < s.size(); ++i) look(i);
  while (!candidates.empty()) {
    const Candidate c = candidates.top();
    candidates.pop();
    Symbol& left = s[c.left];
    if (left.id != c.a || left.after == kNone || s[left.after].id != c.b) continue;  // one of them was merged meanwhile
    Symbol& right = s[left.after];
    left.id = c.made;
    right.id = kNone;
    left.after = right.after;
    if (left.after != kNone) s[left.after].before = c.left;
    look(left.before);
    look(c.left);
  }
  for (uint32_t i = 0; i != kNone; i = s[i].after) ids.push_back(s[i].id);
}

}  // namespace tok
