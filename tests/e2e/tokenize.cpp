// samples/tokenizer by itself, for tests: tokenize tokenizer.json < LINES. Each line of the input gives one of the output; texts are in
// hexadecimal digits.
//
//   e TEXT           token ids of a text
//   p TEXT TEXT ..   the same of parts, of which each second one (from the second on) has no marks
//   d ID ID ..       the text of ids, as a stream gives it: the bytes of each token, with spaces between them
#include <cstdio>
#include <iostream>
#include <sstream>

#include "../../samples/tokenizer/nfc_utf8proc.h"
#include "../../samples/tokenizer/regex_pcre2.h"
#include "../../samples/tokenizer/tokenizer.h"

namespace {

std::string of_hex(const std::string& digits) {
  std::string out;
  for (size_t i = 1; i + 1 < digits.size(); i += 2) out += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return out;  // the first character only makes a word of an empty text
}

std::string to_hex(const std::string& bytes) {
  std::string out = "x";
  char digits[3];
  for (const char c : bytes) std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(c)), out += digits;
  return out;
}

int run(const std::string& path) {
  const tok::Tokenizer tokenizer(path, {tok::regex_by_pcre2, tok::normalized_by_utf8proc});
  std::printf("prefix");
  for (const int64_t id : tokenizer.prefix()) std::printf(" %lld", static_cast<long long>(id));
  std::puts("");
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command, word;
    words >> command;
    if (command == "d") {
      tok::Decoder::Begin begin;
      for (long long id; words >> id;) std::printf("%s ", to_hex(tokenizer.bytes(id, begin)).c_str());
    } else {
      std::vector<tok::Tokenizer::Part> parts;
      while (words >> word) parts.push_back({of_hex(word), command == "e" || parts.size() % 2 == 0});
      std::vector<int64_t> ids;
      try {
        tokenizer.encode(parts, ids);
        for (const int64_t id : ids) std::printf("%lld ", static_cast<long long>(id));
      } catch (const tok::TextError& e) { std::printf("error %s", e.what()); }
    }
    std::puts("");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tokenize tokenizer.json < LINES\n");
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tokenize: %s\n", e.what());
    return 1;
  }
}
