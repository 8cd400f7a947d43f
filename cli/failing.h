#pragma once
// How a program fails, and whether another one fails in the same way.
#include <set>
#include <string>
#include <vector>

#include "base/process.h"

namespace aotc::cli {

/// Which failure is looked for: one of these.
struct FailingOptions {
  std::string test;   ///< a command with {} for the program: it fails where the command ends with 0 (creduce, llvm-reduce)
  std::string fails;  ///< a command with {}: it fails where the command ends with the same code as on the whole, which is not 0
  bool build = false, verify = false;                  ///< aotc build refuses it, aotc verify finds that the built artifact departs
  std::string message;                                 ///< that the command's output must hold, too
  std::vector<std::string> build_words, verify_words;  ///< further options of the two
};

class Failing {
 public:
  /// folder: for artifacts. Throws Diagnostic (usage).
  Failing(FailingOptions options, std::string folder);

  /// Of the whole: whether it fails; what is looked for from now on.
  bool learn(const std::string& pt2);
  /// Whether this one fails as the whole did.
  bool same(const std::string& pt2);
  /// What the whole did: "exit code 4: zz.foo.default".
  const std::string& said() const { return said_; }
  int tests() const { return tests_; }

 private:
  struct Outcome {
    int exit_code = 0;
    bool verified = false;  ///< it got as far as verify
    std::string output;
    std::set<std::string> reasons;
  };
  Outcome run(const std::string& pt2);
  bool fails(const Outcome& o) const;
  FailingOptions options_;
  std::string folder_, said_;
  Outcome whole_;
  int tests_ = 0;
};

}  // namespace aotc::cli
