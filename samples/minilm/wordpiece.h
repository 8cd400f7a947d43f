#pragma once
// The tokenizer of BERT's uncased models: clean, lower-case, strip accents, split at spaces and punctuation, then WordPiece.
#include <cstdint>
#include <fstream>
#include <string>
#include <unordered_map>
#include <vector>

class WordPiece {
 public:
  /// vocab: path of vocab.txt, one piece a line. ok() says whether it was read.
  explicit WordPiece(const std::string& vocab) {
    std::ifstream file(vocab);
    for (std::string line; std::getline(file, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      ids_.emplace(line, static_cast<int64_t>(ids_.size()));
    }
  }
  bool ok() const { return ids_.count("[CLS]") && ids_.count("[SEP]") && ids_.count("[UNK]"); }

  /// [CLS] pieces [SEP], at most `limit` ids.
  std::vector<int64_t> encode(const std::string& text, size_t limit) const {
    std::vector<int64_t> out = {ids_.at("[CLS]")};
    for (const std::u32string& word : words(text)) add_pieces(word, &out);
    if (out.size() > limit - 1) out.resize(limit - 1);
    out.push_back(ids_.at("[SEP]"));
    return out;
  }

 private:
  static std::u32string decode(const std::string& s) {
    std::u32string out;
    for (size_t i = 0; i < s.size();) {
      const unsigned char c = static_cast<unsigned char>(s[i]);
      const size_t n = c < 0x80 ? 1 : c >> 5 == 6 ? 2 : c >> 4 == 14 ? 3 : c >> 3 == 30 ? 4 : 0;
      if (n == 0 || i + n > s.size()) {
        ++i;  // a stray byte
        continue;
      }
      char32_t v = n == 1 ? c : c & (0x7f >> n);
      for (size_t k = 1; k < n; ++k) v = v << 6 | (static_cast<unsigned char>(s[i + k]) & 0x3f);
      out.push_back(v);
      i += n;
    }
    return out;
  }

  static std::string encode_utf8(const std::u32string& s) {
    std::string out;
    for (char32_t v : s) {
      if (v < 0x80) {
        out += static_cast<char>(v);
      } else if (v < 0x800) {
        out += static_cast<char>(0xc0 | v >> 6);
        out += static_cast<char>(0x80 | (v & 0x3f));
      } else {
        if (v < 0x10000) {
          out += static_cast<char>(0xe0 | v >> 12);
        } else {
          out += static_cast<char>(0xf0 | v >> 18);
          out += static_cast<char>(0x80 | (v >> 12 & 0x3f));
        }
        out += static_cast<char>(0x80 | (v >> 6 & 0x3f));
        out += static_cast<char>(0x80 | (v & 0x3f));
      }
    }
    return out;
  }

  static bool is_space(char32_t c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
  }
  static bool is_dropped(char32_t c) {  // control characters and combining accents
    return c == 0 || c == 0xfffd || (c < 0x20 && !is_space(c)) || (c >= 0x7f && c < 0xa0) || c == 0xad || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x300 && c <= 0x36f) || c == 0xfeff;
  }
  static bool is_punctuation(char32_t c) {
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126) || c == 0xa1 || c == 0xa7 ||
           c == 0xab || c == 0xb6 || c == 0xb7 || c == 0xbb || c == 0xbf || (c >= 0x2010 && c <= 0x2027) || (c >= 0x2030 && c <= 0x205e) ||
           (c >= 0x3001 && c <= 0x3003) || (c >= 0x3008 && c <= 0x3011) || (c >= 0xff01 && c <= 0xff0f) || (c >= 0xff1a && c <= 0xff20);
  }
  static bool is_cjk(char32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2fa1f) || (c >= 0xf900 && c <= 0xfaff);
  }
  /// Lower case, without its accent: Latin, Greek and Cyrillic capitals; Latin letters with accents.
  static char32_t fold(char32_t c) {
    // U+00C0 to U+017F; a dot: the letter has no accent to lose (lower-cased below).
    static const char base[] =
        "aaaaaa.ceeeeiiii.nooooo..uuuuy..aaaaaa.ceeeeiiii.nooooo..uuuuy.y"
        "aaaaaaccccccccdd..eeeeeeeeeegggggggghh..iiiiiiiii...jjkk.llllll....nnnnnn...oooooo..rrrrrrssssssssttttt.uuuuuuuuuuuuwwyyyzzzzzz.";
    if (c >= 'A' && c <= 'Z') return c + 32;
    if (c >= 0xc0 && c <= 0x17f) {
      const char b = base[c - 0xc0];
      if (b != '.') return static_cast<char32_t>(b);
      if (c < 0xdf && c != 0xd7) return c + 32;
      const bool capital = c >= 0x100 && (c >= 0x139 && c <= 0x148 ? c % 2 == 1 : c % 2 == 0 && c != 0x138);
      return capital ? c + 1 : c;
    }
    static const char32_t accented[][2] = {{0x386, 0x3b1}, {0x388, 0x3b5}, {0x389, 0x3b7}, {0x38a, 0x3b9}, {0x38c, 0x3bf}, {0x38e, 0x3c5},
                                           {0x38f, 0x3c9}, {0x390, 0x3b9}, {0x3aa, 0x3b9}, {0x3ab, 0x3c5}, {0x3ac, 0x3b1}, {0x3ad, 0x3b5},
                                           {0x3ae, 0x3b7}, {0x3af, 0x3b9}, {0x3b0, 0x3c5}, {0x3ca, 0x3b9}, {0x3cb, 0x3c5}, {0x3cc, 0x3bf},
                                           {0x3cd, 0x3c5}, {0x3ce, 0x3c9}, {0x400, 0x435}, {0x401, 0x435}, {0x403, 0x433}, {0x407, 0x456},
                                           {0x40c, 0x43a}, {0x40d, 0x438}, {0x40e, 0x443}, {0x419, 0x438}, {0x439, 0x438}, {0x450, 0x435},
                                           {0x451, 0x435}, {0x453, 0x433}, {0x457, 0x456}, {0x45c, 0x43a}, {0x45d, 0x438}, {0x45e, 0x443}};
    for (const auto& pair : accented)
      if (pair[0] == c) return pair[1];
    if (c >= 0x391 && c <= 0x3a9) return c + 32;
    if (c >= 0x410 && c <= 0x42f) return c + 32;
    if (c >= 0x400 && c <= 0x40f) return c + 80;
    return c;
  }

  static std::vector<std::u32string> words(const std::string& text) {
    std::vector<std::u32string> out;
    bool open = false;  // the last word goes on
    for (char32_t raw : decode(text)) {
      if (is_dropped(raw)) continue;
      if (is_space(raw)) {
        open = false;
        continue;
      }
      const char32_t c = fold(raw);
      const bool alone = is_punctuation(c) || is_cjk(c);
      if (!open || alone) out.emplace_back();
      out.back().push_back(c);
      open = !alone;
    }
    return out;
  }

  /// Longest pieces first; a word that has no cover is one [UNK].
  void add_pieces(const std::u32string& word, std::vector<int64_t>* out) const {
    const size_t before = out->size();
    for (size_t at = 0; at < word.size() && word.size() <= 100;) {
      size_t end = word.size();
      for (; end > at; --end) {
        const auto found = ids_.find((at ? "##" : "") + encode_utf8(word.substr(at, end - at)));
        if (found == ids_.end()) continue;
        out->push_back(found->second);
        break;
      }
      if (end == at) break;
      at = end;
      if (at == word.size()) return;
    }
    out->resize(before);
    out->push_back(ids_.at("[UNK]"));
  }

  std::unordered_map<std::string, int64_t> ids_;
};
