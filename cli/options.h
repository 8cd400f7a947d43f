#pragma once
// How verbs declare their options. CLI11 is behind it: a source that sees it costs seconds to compile, so only options.cpp,
// command_tree.cpp and shell.cpp do.
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace aotc::cli {

/// Looks at the text of a value, and may change it. Returns what is wrong with it, "" if nothing.
using Check = std::function<std::string(std::string&)>;

/// An option that was added, to say more about: each call returns it again.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option required() const;
  Option one_value() const;  ///< of an option with a list: given once, with one value
  Option repeated() const;   ///< of an option with a list: one value each time it is given
  Option separated_by(char c) const;
  Option needs(Option other) const;
  Option one_of(const std::vector<std::string>& choices) const;
  Option range(int least, int most) const;
  Option not_negative() const;
  Option positive() const;
  Option transform(Check check, const char* title) const;  ///< title: of the value, in the help

 private:
  CLI::Option* option_;
};

/// names: "-o,--output", or a bare word for a positional argument. The value is written when the command line is read; a list has every
/// value that is given. Of the types that options.cpp lists.
template <class T>
Option add_option(CLI::App& app, const std::string& names, T& value, const std::string& help);
Option add_flag(CLI::App& app, const std::string& names, bool& value, const std::string& help);

/// A Check: a number of bytes, "500M", "2G" or "4096" (K, M, G and T are powers of 1024), becomes that number.
std::string as_bytes(std::string& text);

/// Whether the text is a number as an option of one takes it.
bool read_number(const std::string& text, double& number);
/// The words of a command line; quotes hold words together.
std::vector<std::string> split_words(const std::string& line);

}  // namespace aotc::cli
