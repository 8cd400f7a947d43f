#pragma once
// Where a build puts what is not finished.
#include <filesystem>
#include <string>

namespace aotc::pipeline {

/// A hidden folder beside the output (finished files are renamed, so they must not cross file systems), gone when the build ends. A file in
/// it is locked for as long; folders that builds left which were killed are found by that and removed when the next build starts there.
class WorkDir {
 public:
  /// Throws Diagnostic (io).
  explicit WorkDir(const std::filesystem::path& output);
  ~WorkDir();
  WorkDir(const WorkDir&) = delete;
  WorkDir& operator=(const WorkDir&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string str() const { return path_.string(); }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace aotc::pipeline
