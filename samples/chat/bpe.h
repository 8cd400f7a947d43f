#pragma once
// Byte-level BPE as a Hugging Face tokenizer.json describes it: text to token ids and back.
#include <fstream>
#include <iterator>
#include <queue>
#include <unordered_map>

#include "json.h"
#include "unicode.h"

namespace chat {

class Tokenizer {
 public:
  /// Throws std::runtime_error where the file cannot be read or describes another kind of tokenizer.
  explicit Tokenizer(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw std::runtime_error(path + ": cannot be opened");
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    try {
      read(JsonReader(text).read());
    } catch (const std::runtime_error& e) { throw std::runtime_error(path + ": " + e.what()); }
  }

  std::vector<int64_t> encode(std::string_view text) const {
    std::vector<int64_t> ids;
    encode({{std::string(text), true}}, ids);
    return ids;
  }

  /// A part of a text: with marks, what looks like an added token is one; else it is text, whatever it says.
  struct Part {
    std::string text;
    bool marks;
  };
  /// The parts as one text, appended to the ids: words may cross from one part to the next.
  void encode(const std::vector<Part>& parts, std::vector<int64_t>& ids) const {
    std::string plain;
    const auto flush = [&] {
      for (const std::string_view word : words(plain)) merge(word, ids);
      plain.clear();
    };
    for (const Part& part : parts) {
      std::string_view text = part.text;
      while (part.marks) {  // the leftmost added token, of those the longest
        size_t at = text.size();
        const std::pair<std::string, int64_t>* found = nullptr;
        for (const auto& token : added_)
          if (const size_t p = text.find(token.first); p < at || (p == at && found && token.first.size() > found->first.size()))
            at = p, found = &token;
        if (!found) break;
        plain += text.substr(0, at);
        flush();
        ids.push_back(found->second);
        text.remove_prefix(at + found->first.size());
      }
      plain += text;
    }
    flush();
  }

  /// The bytes of a token; one character may take several tokens. Nothing for special tokens.
  std::string bytes(int64_t id) const {
    if (id < 0 || static_cast<size_t>(id) >= bytes_.size()) return {};
    return bytes_[static_cast<size_t>(id)];
  }
  /// The id of an added token; -1: there is none.
  int64_t added(std::string_view content) const {
    for (const auto& [text, id] : added_)
      if (text == content) return id;
    return -1;
  }
  size_t size() const { return bytes_.size(); }

 private:
  struct Merge {
    uint32_t rank, made;
  };
  static uint64_t pair_of(uint64_t a, uint64_t b) { return a << 32 | b; }

  void read(const Json& j) {
    const Json& model = j["model"];
    if (model["type"].text != "BPE") throw std::runtime_error("the model is " + model["type"].text + ", expected BPE");
    if (j["normalizer"].kind != Json::Kind::null)
      throw std::runtime_error("it normalises text (" + j["normalizer"]["type"].text + "), expected none");
    bool byte_level = false;
    read_splitter(j["pre_tokenizer"], &byte_level);
    if (!byte_level) throw std::runtime_error("the pre_tokenizer is not ByteLevel");

    uint32_t next = 256;  // bytes that do not print stand as code points from 256 on
    for (uint32_t b = 0; b < 256; ++b) {
      const bool prints = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
      shown_[b].clear();
      append_utf8(shown_[b], prints ? b : next++);
    }
    std::unordered_map<std::string, uint32_t> ids;
    for (const auto& [token, id] : model["vocab"].members) ids[token] = static_cast<uint32_t>(id.number);
    std::unordered_map<std::string, unsigned char> byte_of;
    for (uint32_t b = 0; b < 256; ++b) {
      byte_of[shown_[b]] = static_cast<unsigned char>(b);
      const auto it = ids.find(shown_[b]);
      byte_id_[b] = it == ids.end() ? kNone : it->second;
    }
    for (const auto& [token, id] : ids) {
      if (id >= bytes_.size()) bytes_.resize(id + 1);
      for (size_t i = 0; i < token.size();) {
        const size_t n = static_cast<unsigned char>(token[i]) < 0x80 ? 1 : static_cast<unsigned char>(token[i]) < 0xe0 ? 2 : 3;
        const auto it = byte_of.find(token.substr(i, n));
        if (it != byte_of.end()) bytes_[id] += static_cast<char>(it->second);
        i += n;
      }
    }
    uint32_t rank = 0;
    for (const Json& m : model["merges"].list) {
      std::string a, b;
      if (m.kind == Json::Kind::list && m.list.size() == 2) {
        a = m.list[0].text, b = m.list[1].text;
      } else {
        const size_t space = m.text.find(' ');
        a = m.text.substr(0, space), b = space == std::string::npos ? "" : m.text.substr(space + 1);
      }
      const auto left = ids.find(a), right = ids.find(b), both = ids.find(a + b);
      if (left == ids.end() || right == ids.end() || both == ids.end())
        throw std::runtime_error("a merge of tokens that are not in the vocabulary: " + a + " " + b);
      merges_.insert({pair_of(left->second, right->second), {rank++, both->second}});
    }
    for (const Json& t : j["added_tokens"].list) {
      const auto id = static_cast<size_t>(t["id"].number);
      if (id >= bytes_.size()) bytes_.resize(id + 1);
      bytes_[id] = t["special"].flag(false) ? "" : t["content"].text;
      added_.emplace_back(t["content"].text, static_cast<int64_t>(id));
    }
  }

  void read_splitter(const Json& p, bool* byte_level) {
    const std::string& type = p["type"].text;
    if (type == "Sequence") {
      for (const Json& each : p["pretokenizers"].list) read_splitter(each, byte_level);
    } else if (type == "Digits") {
      single_digits_ = p["individual_digits"].flag(false);
      split_digits_ = true;
    } else if (type == "ByteLevel") {
      if (p["add_prefix_space"].flag(false)) throw std::runtime_error("ByteLevel with add_prefix_space is not known here");
      *byte_level = true, words_ = p["use_regex"].flag(true);
    } else {
      throw std::runtime_error("the pre_tokenizer has a part " + (type.empty() ? "without a type" : type) + "; known: ByteLevel, Digits");
    }
  }

  /// The code point at text[at] and how many bytes it takes; of bytes that are no UTF-8 each stands for itself, as neither letter nor
  /// space.
  static uint32_t code_at(std::string_view text, size_t at, size_t* bytes) {
    const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[at + i])); };
    const uint32_t lead = byte(0);
    const size_t n = lead < 0x80                   ? 1
                     : lead >= 0xc2 && lead < 0xe0 ? 2
                     : lead >= 0xe0 && lead < 0xf0 ? 3
                     : lead >= 0xf0 && lead < 0xf5 ? 4
                                                   : 0;
    *bytes = 1;
    if (n == 0 || at + n > text.size()) return 0xfffd;
    uint32_t c = n == 1 ? lead : lead & (0x7f >> n);
    for (size_t i = 1; i < n; ++i) {
      if ((byte(i) & 0xc0) != 0x80) return 0xfffd;
      c = c << 6 | (byte(i) & 0x3f);
    }
    *bytes = n;
    return c;
  }

  /// Pieces that are merged each by itself.
  std::vector<std::string_view> words(std::string_view text) const {
    std::vector<std::string_view> out;
    if (!split_digits_) {
      split(text, out);
      return out;
    }
    for (size_t at = 0, begin = 0; begin < text.size(); begin = at) {
      size_t n;
      const bool digits = is_number(code_at(text, begin, &n));
      at = begin + n;
      while (at < text.size() && is_number(code_at(text, at, &n)) == digits && !(digits && single_digits_)) at += n;
      split(text.substr(begin, at - begin), out);
    }
    return out;
  }

  /// As 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ finds them, one after the other.
  void split(std::string_view text, std::vector<std::string_view>& out) const {
    if (!words_) {
      if (!text.empty()) out.push_back(text);
      return;
    }
    enum Class { letter, number, space, other };
    const auto class_at = [&](size_t at, size_t* n) {
      const uint32_t c = code_at(text, at, n);
      return is_letter(c) ? letter : is_number(c) ? number : is_space(c) ? space : other;
    };
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
      end = begin;
      for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
        if (end == begin && text.substr(begin, ending.size()) == ending) end += ending.size();
      size_t n, last = begin;
      if (end == begin) {
        size_t at = begin + (text[begin] == ' ' ? 1 : 0);
        if (at == text.size() || class_at(at, &n) == space) at = begin;
        const Class kind = class_at(at, &n);
        for (end = at; end < text.size() && class_at(end, &n) == kind; end += n) last = end;
        // Of spaces before anything else the last one stays for that.
        if (kind == space && end < text.size() && last > begin) end = last;
      }
      out.push_back(text.substr(begin, end - begin));
    }
  }

  /// The pair of the lowest rank first, of equals the leftmost, until there is none.
  void merge(std::string_view word, std::vector<int64_t>& out) const {
    struct Symbol {
      uint32_t id;
      int before, after;
    };
    struct Candidate {
      uint32_t rank;
      int left;
      uint32_t a, b, made;
      bool operator<(const Candidate& o) const { return rank != o.rank ? rank > o.rank : left > o.left; }
    };
    std::vector<Symbol> s;
    for (const char c : word)
      if (const uint32_t id = byte_id_[static_cast<unsigned char>(c)]; id != kNone)
        s.push_back({id, static_cast<int>(s.size()) - 1, static_cast<int>(s.size()) + 1});
    if (s.empty()) return;
    s.back().after = -1;
    std::priority_queue<Candidate> candidates;
    const auto look = [&](int left) {
      if (left < 0 || s[static_cast<size_t>(left)].after < 0) return;
      const uint32_t a = s[static_cast<size_t>(left)].id, b = s[static_cast<size_t>(s[static_cast<size_t>(left)].after)].id;
      if (const auto it = merges_.find(pair_of(a, b)); it != merges_.end()) candidates.push({it->second.rank, left, a, b, it->second.made});
    };
    for (size_t i = 0; i < s.size(); ++i) look(static_cast<int>(i));
    while (!candidates.empty()) {
      const Candidate c = candidates.top();
      candidates.pop();
      Symbol& left = s[static_cast<size_t>(c.left)];
      if (left.id != c.a || left.after < 0 || s[static_cast<size_t>(left.after)].id != c.b) continue;  // one of them was merged meanwhile
      Symbol& right = s[static_cast<size_t>(left.after)];
      left.id = c.made;
      right.id = kNone;
      left.after = right.after;
      if (left.after >= 0) s[static_cast<size_t>(left.after)].before = c.left;
      look(left.before);
      look(c.left);
    }
    for (int i = 0; i >= 0; i = s[static_cast<size_t>(i)].after) out.push_back(s[static_cast<size_t>(i)].id);
  }

  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<std::pair<std::string, int64_t>> added_;
  std::vector<std::string> bytes_;  ///< by id
  std::string shown_[256];          ///< how a byte stands in the vocabulary
  uint32_t byte_id_[256];
  std::unordered_map<uint64_t, Merge> merges_;
  bool words_ = true, split_digits_ = false, single_digits_ = false;
};

}  // namespace chat
