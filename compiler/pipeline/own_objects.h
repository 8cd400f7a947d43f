#pragma once
// Objects of the user's own kernels: compiled, or taken as they are; each is merged into one object that shows nothing but the functions
// that the artifact calls, by names of aotc's own. So nothing in them can clash with the artifact's code, nor be clashed with.
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/target.h"
#include "loop/loop.h"
#include "own/description.h"

namespace aotc::pipeline {

class OwnObjects {
 public:
  /// kernels: null where there are none. work_dir: exists.
  OwnObjects(const own::Kernels* kernels, std::string work_dir) : kernels_(kernels), work_dir_(std::move(work_dir)) {}
  /// Those that the module's kernels call, in the code versions of the target. Throws Diagnostic: toolchain for what does not compile or
  /// link, bad_input for a function that is not there.
  std::vector<std::string> of(const loop::Module& module, const Target& target);
  /// What made all that were asked for.
  const std::vector<std::string>& command_lines() const { return lines_; }

 private:
  struct Version {
    size_t code;
    std::string isa;  ///< empty: of an object or a library, which has one version
    friend bool operator<(const Version& a, const Version& b) { return std::tie(a.code, a.isa) < std::tie(b.code, b.isa); }
  };
  std::string made(const Version& v);
  std::string compiled(const own::CodeFile& code, const std::string& isa, const std::string& object);
  void run(const std::vector<std::string>& command, const own::CodeFile& code, const std::string& what);
  void check_alone(const own::CodeFile& code, const std::string& object);

  const own::Kernels* kernels_;
  std::string work_dir_;
  std::map<Version, std::string> objects_;
  std::vector<std::string> lines_;
};

}  // namespace aotc::pipeline
