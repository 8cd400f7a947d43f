#pragma once
// The three kinds of failure: a bad model throws a Diagnostic (caught once, in cli); an expected failure is a value
// (Result, Fit); a bug of our own is an AOTC_CHECK.
#include <fmt/format.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace aotc {

/// Exit codes of the command line, documented in README.md.
enum class ExitCode : int {
  ok = 0,
  failed = 1,       ///< verify did not pass, or a check of the user's asking failed
  usage = 2,        ///< the command line is wrong
  bad_input = 3,    ///< the archive, shapes.json or .graph is malformed or inconsistent
  unsupported = 4,  ///< the model uses something that aotc does not support
  toolchain = 5,    ///< the compiler, linker or NVRTC failed or is missing
  io = 6,           ///< a file could not be read or written
  internal = 70,    ///< a bug in aotc
};

/// Where something is: a file, a JSON path or line in it, a graph node, the user's source line.
struct Loc {
  std::string file;    ///< file the fault is in ("shapes.json", "model.pt2")
  std::string path;    ///< JSON path or line ("$.inputs.x.shape[1]", "12:3")
  std::string node;    ///< graph node name
  std::string source;  ///< user's source line from the archive's stack trace
  bool empty() const { return file.empty() && path.empty() && node.empty() && source.empty(); }
  std::string str() const;  ///< "shapes.json: $.inputs.x: " style prefix without trailing separator
};

/// A fault in what the user gave: what is wrong, where, what was expected, what to do (notes).
class Diagnostic : public std::exception {
 public:
  Diagnostic(ExitCode code, Loc loc, std::string message) : code_(code), loc_(std::move(loc)), message_(std::move(message)) { render(); }
  Diagnostic(Loc loc, std::string message) : Diagnostic(ExitCode::bad_input, std::move(loc), std::move(message)) {}

  Diagnostic& note(std::string text) & {
    notes_.push_back(std::move(text));
    render();
    return *this;
  }
  Diagnostic&& note(std::string text) && {
    notes_.push_back(std::move(text));
    render();
    return std::move(*this);
  }

  ExitCode code() const { return code_; }
  const Loc& loc() const { return loc_; }
  const std::string& message() const { return message_; }
  const std::vector<std::string>& notes() const { return notes_; }
  const char* what() const noexcept override { return text_.c_str(); }  ///< the whole, several lines

 private:
  void render();
  ExitCode code_;
  Loc loc_;
  std::string message_, text_;
  std::vector<std::string> notes_;
};

/// A bug in aotc itself; caught once in cli, exit code 70.
class InternalError : public std::exception {
 public:
  explicit InternalError(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

[[noreturn]] void check_failed(const char* file, int line, const char* cond, const std::string& text);

/// A value, or the reason why there is none (an ordinary outcome: a losing candidate, a refused kernel).
template <class T>
class Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  static Result fail(std::string why) {
    Result r;
    r.why_ = std::move(why);
    return r;
  }
  explicit operator bool() const { return value_.has_value(); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const std::string& why() const { return why_; }

 private:
  Result() = default;
  std::optional<T> value_;
  std::string why_;
};

/// Whether a kernel or rule accepts a case; a refusal says why.
struct Fit {
  bool ok = true;
  std::string why;
  static Fit yes() { return {}; }
  explicit operator bool() const { return ok; }
};
template <class... A>
Fit refuse(fmt::format_string<A...> f, A&&... a) {
  return {false, fmt::format(f, std::forward<A>(a)...)};
}

}  // namespace aotc

#define AOTC_CHECK(cond, ...)                                                                    \
  do {                                                                                           \
    if (!(cond)) ::aotc::check_failed(__FILE__, __LINE__, #cond, ::fmt::format("" __VA_ARGS__)); \
  } while (0)
