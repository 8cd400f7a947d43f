// Hostile tokenizer files and texts: a damaged tokenizer.json is read or refused, and whatever the text, tokens are made of it or TextError
// is thrown. tokenizer_fuzz COUNT FIRST FILE..: COUNT rounds from number FIRST on, each with one of the files, half of them damaged. A
// failure prints its number, with which it is repeated. For sanitizers.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "../../samples/tokenizer/nfc_utf8proc.h"
#include "../../samples/tokenizer/regex_pcre2.h"
#include "../../samples/tokenizer/tokenizer.h"

namespace {

using Random = std::mt19937_64;
unsigned long long g_round;  // for the handlers below alone

template <class List>
const auto& one_of(const List& list, Random& random) {
  return list[random() % std::size(list)];
}

/// The value, text or number that begins first from `from` on.
std::pair<size_t, size_t> token(const std::string& s, size_t from) {
  const size_t a = s.find_first_of("\"0123456789[{ntf", from);
  if (a == std::string::npos) return {0, 0};
  if (s[a] == '"') {
    const size_t b = s.find('"', a + 1);
    return b == std::string::npos ? std::pair<size_t, size_t>{0, 0} : std::pair{a, b + 1 - a};
  }
  const size_t b = s.find_first_of(",:]}", a);
  return {a, (b == std::string::npos ? s.size() : b) - a};
}

/// The value of the member at or after `from`, brackets and all.
std::pair<size_t, size_t> member(const std::string& s, const std::string& name, size_t from) {
  const size_t key = s.find('"' + name + '"', from);
  if (key == std::string::npos) return {0, 0};
  size_t at = s.find_first_not_of(": \n", key + name.size() + 2);
  const size_t begin = at;
  int depth = 0;
  for (bool quoted = false; at < s.size(); ++at) {
    const char c = s[at];
    if (quoted && c == '\\')
      ++at;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '{' || c == '['))
      ++depth;
    else if (!quoted && (c == '}' || c == ']'))
      --depth;
    if (depth < 0 || (depth == 0 && !quoted && (c == ',' || at + 1 == s.size()))) break;
  }
  return begin < s.size() ? std::pair{begin, std::min(at, s.size()) - begin} : std::pair<size_t, size_t>{0, 0};
}

/// Another file's part, or another expression: most such files can be read.
void exchange(std::string& s, const std::string& other, Random& random) {
  static const std::string kParts[] = {"normalizer", "pre_tokenizer", "decoder",   "post_processor", "behavior",
                                       "invert",     "content",       "use_regex", "prepend_scheme"};
  static const std::string kExpressions[] = {
      R"x("(a+)+b")x",
      R"x("(?:a|a)*(?:e|e)*x")x",
      R"x("x*")x",
      R"x("")x",
      R"x("^")x",
      R"x("$")x",
      R"x(".")x",
      R"x("[^\\s]*")x",
      R"x("(?=a)")x",
      R"x("\\w+|\\W")x",
      R"x("\\K")x",
      R"x("a\\Kb|(?=.\\K)")x",
      R"x("(?R)?a")x",
      R"x("[[:alpha:]]+")x",
      R"x("(?<=a)b|\\s+(?!\\S)")x",
      R"x("(a)\\1*+b?")x",
  };
  for (uint64_t n = 1 + random() % 2; n > 0; --n) {
    const bool expression = random() % 2;
    const std::string name = expression ? "Regex" : one_of(kParts, random);
    const auto [at, size] = member(s, name, 0);
    const auto [from, count] = member(other, name, random() % 2 ? 0 : random() % other.size());
    if (size > 0 && expression)
      s.replace(at, size, one_of(kExpressions, random));
    else if (size > 0 && count > 0)
      s.replace(at, size, other, from, count);
  }
}

/// Most changes are outside of the vocabulary, which is most of the file.
void damage(std::string& s, Random& random) {
  const size_t vocab = s.find("\"vocab\"");
  const auto place = [&] { return random() % (random() % 4 && vocab != std::string::npos ? std::min(vocab, s.size()) : s.size()); };
  for (uint64_t n = 1 + random() % 4; n > 0 && !s.empty(); --n) {
    if (random() % 4) {
      static const std::string kValues[] = {"0",
                                            "-1",
                                            "4294967295",
                                            "16777215",
                                            "1e300",
                                            "0.5",
                                            "null",
                                            "[]",
                                            "{}",
                                            "\"\"",
                                            "true",
                                            "false",
                                            "\"a\"",
                                            "\"\\u2581\"",
                                            "\"(\"",
                                            "\"(a*)*b\"",
                                            "\"\\\\s+(?!\\\\S)\"",
                                            "\"\\\\K\"",
                                            "\"Sequence\"",
                                            "\"ByteFallback\"",
                                            "\"Metaspace\"",
                                            "\"Regex\"",
                                            "{\"String\": \"a\"}",
                                            "{\"Regex\": \"x*\"}",
                                            "\"\\ud800\"",
                                            "[[[[[[[[]]]]]]]]"};
      const auto [at, length] = token(s, place());
      std::string other = one_of(kValues, random);
      if (random() % 2)
        if (const auto [from, size] = token(s, place()); size > 0) other = s.substr(from, size);
      if (length > 0) s.replace(at, length, other);
      continue;
    }
    const size_t at = place();
    switch (random() % 5) {
      case 0: s[at] = static_cast<char>(random()); break;
      case 1: s[at] = static_cast<char>(s[at] ^ (1 << (random() % 8))); break;
      case 2: s.erase(at, 1 + random() % 16); break;
      case 3: s.insert(at, s.substr(random() % s.size(), random() % 64)); break;
      default: s.resize(at); break;
    }
  }
}

std::string drawn_text(Random& random, const std::vector<std::string>& marks) {
  static const std::string kPieces[] = {" ",
                                        "  ",
                                        "\n",
                                        "\r\n",
                                        "a",
                                        "the",
                                        "'s",
                                        "\xe2\x96\x81",
                                        "\xc3\xa9",
                                        "e\xcc\x81\xcc\xa3",
                                        "\xf0\x9f\x98\x80",
                                        "\xe2\x80\x8d",
                                        "12345",
                                        "<0x0A>",
                                        "\xe1\xa0\x8e",
                                        "\xff",
                                        "\xc3",
                                        "\xe2\x96",
                                        "\xed\xa0\x80",
                                        "\xf4\x90\x80\x80",
                                        "\xc0\x80",
                                        std::string(1, '\0'),
                                        "\xe4\xb8\x96",
                                        "!!",
                                        "aaaaaaaaaaaaaaaaaaaaaaaa",
                                        "\xea\xb0\x80\xe1\x86\xa8"};
  std::string out;
  for (uint64_t n = random() % 40; n > 0; --n) {
    switch (random() % 4) {
      case 0: out += static_cast<char>(random()); break;
      case 1:
        if (!marks.empty()) out += one_of(marks, random);
        break;
      default: out += one_of(kPieces, random);
    }
  }
  return out;
}

struct File {
  std::string json;
  std::vector<std::string> marks;
  bool exact;  ///< tokens have all bytes of a text
};

File read_file(const char* path) {
  std::ifstream in(path, std::ios::binary);
  File f;
  f.json = {std::istreambuf_iterator<char>(in), {}};
  const tok::Json j = tok::JsonReader(f.json).read();
  for (const tok::Json& t : j["added_tokens"].list) f.marks.push_back(t["content"].text);
  f.exact = j["normalizer"].kind == tok::Json::Kind::null && j["decoder"]["type"].text == "ByteLevel" &&
            j["pre_tokenizer"]["type"].text == "ByteLevel";
  return f;
}

/// What went on: 0 refused, 1 text refused, 2 all.
int round(const File& file, const File& other, Random& random) {
  std::string json = file.json;
  const bool damaged = random() % 2;
  if (damaged && random() % 2)
    exchange(json, other.json, random);
  else if (damaged)
    damage(json, random);
  try {
    const tok::Tokenizer t(tok::JsonReader(json).read(), {tok::regex_by_pcre2, tok::normalized_by_utf8proc});
    for (int i = 0; i < 4; ++i) {
      const std::vector<tok::Tokenizer::Part> parts = {
          {drawn_text(random, file.marks), true}, {drawn_text(random, file.marks), false}, {drawn_text(random, file.marks), true}};
      std::vector<int64_t> ids;
      t.encode(parts, ids);
      std::string text;
      bool special = false;
      for (const int64_t id : ids) {
        if (id < 0 || static_cast<size_t>(id) >= t.size()) std::abort();
        text += t.bytes(id);
        special = special || t.bytes(id).empty();
      }
      const std::string whole = tok::repaired(parts[0].text) + tok::repaired(parts[1].text) + tok::repaired(parts[2].text);
      if (!damaged && file.exact && !special && text != whole) {
        std::fprintf(stderr, "round %llu: a text's tokens have other bytes\n", g_round);
        std::abort();
      }
      tok::Decoder::Begin begin;
      for (int k = 0; k < 20; ++k) t.bytes(static_cast<int64_t>(random() % (t.size() + 3)) - 1, begin);
    }
  } catch (const tok::TextError&) { return 1; } catch (const std::runtime_error&) {
    if (damaged) return 0;
    throw;
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: tokenizer_fuzz COUNT FIRST FILE..\n");
    return 2;
  }
  std::vector<File> files;
  for (int i = 3; i < argc; ++i) files.push_back(read_file(argv[i]));
  const unsigned long long first = std::strtoull(argv[2], nullptr, 10), count = std::strtoull(argv[1], nullptr, 10);
  const auto tell = [](int) {
    char line[64];
    const int n = std::snprintf(line, sizeof line, "round %llu failed or takes too long\n", g_round);
    if (::write(2, line, static_cast<size_t>(n)) < 0) std::_Exit(3);
    std::_Exit(1);
  };
  std::signal(SIGALRM, tell);
  std::signal(SIGABRT, tell);
  unsigned long long ends[3] = {};
  for (g_round = first; g_round < first + count; ++g_round) {
    ::alarm(300);
    Random random(g_round);
    try {
      ++ends[round(one_of(files, random), one_of(files, random), random)];
    } catch (const std::exception& e) {
      std::fprintf(stderr, "round %llu: %s\n", g_round, e.what());
      return 1;
    }
  }
  std::printf("ok   %llu rounds: %llu files refused, %llu texts refused, %llu taken\n", count, ends[0], ends[1], ends[2]);
  return 0;
}
