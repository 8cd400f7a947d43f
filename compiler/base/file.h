#pragma once
// What a path names, before it is opened: a FIFO would be waited for, a folder or a device read as nothing. And what is there.
#include <string>
#include <vector>

namespace aotc {

/// Throws Diagnostic (io) unless there is a regular file at `path`, which a link may lead to.
void require_file(const std::string& path);
/// All bytes of a regular file. Throws Diagnostic (io).
std::string read_file(const std::string& path);
/// Throws Diagnostic (io) where something other than a regular file is in the way of a file to be written, or its folder is not there.
void require_place_for_file(const std::string& path);
/// The folder, which is made, with those above it, where it is not there. Throws Diagnostic (io).
std::string made_folder(std::string path);

/// A file, and what names it on the command line: "-o", "--shapes", "model". An empty path: none.
struct NamedFile {
  std::string option, path;
};
/// A folder that files with these ends of their names are written into, anywhere below it.
struct NamedFolder {
  std::string option, path;
  std::vector<std::string> ends;
};
/// Throws Diagnostic (usage), naming both, where a file to be written is one that is read: the same file, or the same place.
void require_apart(const std::vector<NamedFile>& written, const std::vector<NamedFile>& read);
void require_apart(const NamedFolder& written, const std::vector<NamedFile>& read);

}  // namespace aotc
