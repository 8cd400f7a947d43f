#pragma once
// Reading of IR text, for the parsers of Graph, Loop and Plan: words, numbers, strings and expressions, one line after another. # starts a
// comment. Whatever does not fit is a Diagnostic with file, "line:column" and what was expected.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sym/expr.h"

namespace aotc {

class TextReader {
 public:
  TextReader(std::string_view text, std::string_view file) : rest_(text), file_(file) {}

  bool next_line();  ///< to the next line that holds something; false at the end of the text
  void need_line();
  bool at_end();    ///< of the line
  void end_line();  ///< fails where something follows

  /// A place to complain about later.
  struct Place {
    std::string_view line;
    int number = 0;
    size_t column = 0;
  };
  Place place() const { return {line_, number_, token_}; }  ///< of what was read last
  Place next_place() {                                      ///< of what comes next
    token();
    return place();
  }
  [[noreturn]] void fail(std::string_view what) const { fail(place(), what); }
  [[noreturn]] void fail(const Place& at, std::string_view what) const;
  /// A fault of the text as a whole.
  [[noreturn]] static void fail_whole(std::string_view file, std::string_view what);

  /// `ir` as it is, after `verify(ir)`: whatever that finds is the text's fault.
  template <class T, class F>
  static T verified(T ir, std::string_view file, F&& verify) {
    try {
      verify(ir);
    } catch (const std::exception& e) { fail_whole(file, e.what()); }
    return ir;
  }

  char peek();  ///< the next character that is no space, or 0
  bool accept(char c);
  void want(char c);
  bool accept_word(std::string_view w);  ///< only where it stands alone
  void want_word(std::string_view w);
  std::string_view word();  ///< letters, digits, '_' and '.'
  std::string string();     ///< "quoted", see quoted_text
  std::string word_or_string();
  std::string_view chunk();  ///< up to a comma, a closing bracket or a quote that is not nested
  int64_t integer(int64_t min = INT64_MIN, int64_t max = INT64_MAX);
  int64_t bound();  ///< an integer or "inf"
  double real();
  bool boolean();
  Expr expr(const SymTable& syms);
  /// "[item, item]"
  template <class F>
  auto list(F&& item) {
    std::vector<decltype(item())> out;
    want('[');
    if (accept(']')) return out;
    do out.push_back(item());
    while (accept(','));
    want(']');
    return out;
  }
  std::vector<Expr> exprs(const SymTable& syms) {
    return list([&] { return expr(syms); });
  }
  std::vector<int64_t> integers() {
    return list([&] { return integer(); });
  }
  /// What stands after "sym": a name that `syms` lacks, range, multiple_of, tune.
  SymInfo symbol(const SymTable& syms);

 private:
  void token();  ///< skips spaces; what is read next begins here
  std::string_view rest_, file_, line_;
  int number_ = 0;
  size_t pos_ = 0, token_ = 0;
};

/// Text that TextReader::string reads back.
std::string quoted_text(std::string_view s);
std::string list_text(const std::vector<int64_t>& v);
std::string list_text(const std::vector<Expr>& v, const SymTable& syms);
std::string bound_text(int64_t v);  ///< "inf" for kInf
/// A double that parses back to itself and never reads as an integer.
std::string real_text(double v);
/// "sym batch [1, 64] multiple_of 2 tune [2, 8]", without a newline.
std::string symbol_text(const SymInfo& s);

}  // namespace aotc
