#pragma once
// Regular expressions by PCRE2 (Debian: libpcre2-dev; link with -lpcre2-8), as Oniguruma reads them, which the tokenizers library uses.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <ctime>
#include <new>

#include "libraries.h"

namespace tok {

/// The expression as PCRE2 means it. Throws std::runtime_error for what means another thing to PCRE2 and is not rewritten here.
inline std::string pcre2_expression(const std::string& oniguruma) {
  const std::string& in = oniguruma;
  const auto refuse = [](const std::string& what) {
    throw std::runtime_error("the regular expression has " + what + ", which PCRE2 reads differently");
  };
  constexpr const char* kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < in.size(); ++i) {
    const char c = in[i], next = i + 1 < in.size() ? in[i + 1] : '\0';
    if (c == '\\') {
      if (next == 'w')
        out += in_class ? kWord : std::string("[") + kWord + "]";
      else if (next == 'W' && !in_class)
        out += std::string("[^") + kWord + "]";
      else if (next == 'W' || next == 'b' || next == 'B' || next == 'h' || next == 'H')
        refuse(std::string("\\") + next);
      else
        out += c, out += next;
      if (next == '\0') refuse("a \\ at its end");
      ++i;
      if (i + 1 < in.size() && in[i + 1] == '{') {  // a name or a number, no repetition
        const size_t end = std::min(in.find('}', i), in.size() - 1);
        out += in.substr(i + 1, end - i);
        i = end;
      }
      continue;
    }
    if (in_class) {
      if (c == '[' && next == ':') {
        const size_t end = in.find(":]", i + 2);
        if (end == std::string::npos) refuse("[: without its end");
        out += in.substr(i, end + 2 - i);
        i = end + 1;
        continue;
      }
      if (c == '[') refuse("a set within a set");
      if (c == '&' && next == '&') refuse("&& within a set");
      if (c == ']') in_class = false;
    } else if (c == '[') {
      in_class = true;
      out += c;
      if (next == '^') out += next, ++i;
      if (i + 1 < in.size() && in[i + 1] == ']') out += "\\]", ++i;
      continue;
    } else if (c == '}' && next == '+') {
      refuse("a repetition {..} with + behind it");
    } else if (c == '(' && next == '?') {
      const size_t end = std::min(in.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", i + 2), in.size());
      if (in.substr(i + 2, end - i - 2).find('m') != std::string::npos) refuse("the option m");
    }
    out += c;
  }
  return out;
}

class Pcre2Regex : public Regex {
 public:
  explicit Pcre2Regex(const std::string& expression) {
    const std::string rewritten = pcre2_expression(expression);
    const Owned<pcre2_compile_context, pcre2_compile_context_free_8> context(pcre2_compile_context_create(nullptr));
    if (!context) throw std::bad_alloc();
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    pcre2_set_max_pattern_length(context.get(), 1 << 16);
    pcre2_set_parens_nest_limit(context.get(), 100);
    int error;
    size_t at;
    // No callout or code of any kind can be in an expression; \C would cut characters.
    constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(), kOptions, &error, &at, context.get()));
    if (!code_) throw std::runtime_error("the regular expression is not one, at byte " + std::to_string(at) + ": " + message(error));
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // where it is not there, matches are interpreted
    match_.reset(pcre2_match_context_create(nullptr));
    if (!match_) throw std::bad_alloc();
    // What one match may cost, whatever the text: some tenths of a second, 64 MB.
    pcre2_set_match_limit(match_.get(), 10'000'000);
    pcre2_set_depth_limit(match_.get(), 1'000'000);
    pcre2_set_heap_limit(match_.get(), 64 << 10);
  }

  void each(std::string_view text, const Found& found) const override {
    // U+180E is a space to PCRE2 alone: another character of its kind (Cf) and width stands for it.
    constexpr std::string_view kVowelSeparator = "\xe1\xa0\x8e", kJoiner = "\xe2\x81\xa0";
    std::string changed;
    if (text.find(kVowelSeparator) != text.npos) {
      changed = text;
      for (size_t i = 0; (i = changed.find(kVowelSeparator, i)) != std::string::npos;) changed.replace(i, kJoiner.size(), kJoiner);
      text = changed;
    }
    const Owned<pcre2_match_data, pcre2_match_data_free_8> data(pcre2_match_data_create(1, nullptr));
    if (!data) throw std::bad_alloc();
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    size_t last_end = PCRE2_UNSET, tries = 0;
    const double begun = seconds();
    for (size_t at = 0; at <= text.size();) {
      // Many matches, each within its bounds, may take long together; by time of this thread's, so that other threads do not count.
      if (++tries % 16 == 0 && seconds() - begun > kMostSeconds)
        throw TextError("the tokenizer's regular expression takes too long for this text");
      // Checking the text again at every match would take time by its square.
      int rc = pcre2_match(code_.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK, data.get(), match_.get());
      if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(code_.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data.get(), match_.get());
      if (rc == PCRE2_ERROR_NOMATCH) return;
      if (rc < 0) throw TextError("the tokenizer's regular expression takes too long for this text (" + message(rc) + ")");
      const size_t* range = pcre2_get_ovector_pointer(data.get());
      const size_t begin = range[0], end = range[1];
      if (begin > end || begin < at) throw TextError("the tokenizer's regular expression moves a match's begin (\\K)");
      if (begin == end && end == last_end) {  // an empty match right behind another
        at = end;
        do ++at;
        while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
        continue;
      }
      at = last_end = end;
      found(begin, end);
    }
  }

 private:
  template <class T, void (*release)(T*)>
  struct Release {
    void operator()(T* p) const { release(p); }
  };
  template <class T, void (*release)(T*)>
  using Owned = std::unique_ptr<T, Release<T, release>>;

  static constexpr double kMostSeconds = 10;
  static double seconds() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  static std::string message(int error) {
    PCRE2_UCHAR text[200] = {};
    pcre2_get_error_message(error, text, sizeof text);
    return reinterpret_cast<const char*>(text);
  }
  Owned<pcre2_code, pcre2_code_free_8> code_;
  Owned<pcre2_match_context, pcre2_match_context_free_8> match_;
};

inline std::unique_ptr<Regex> regex_by_pcre2(const std::string& expression) { return std::make_unique<Pcre2Regex>(expression); }

}  // namespace tok
