#pragma once
// Archives of one form (POSIX ustar): owner, time and mode of every file are the same, so that the same files give the same bytes.
#include <string>
#include <string_view>
#include <vector>

namespace aotc::cli {

struct PackedFile {
  std::string name;        ///< relative, with '/'
  std::string_view bytes;  ///< borrowed
};

/// Whether a file may be called so in a package: relative, UTF-8 without control characters, quotes and "..", at most 99 bytes.
bool is_packed_name(std::string_view name);
/// Writes beside its place, then renames. Throws Diagnostic (io).
void write_tar(const std::string& path, const std::vector<PackedFile>& files);
/// The files of an archive that write_tar could have written, byte for byte; throws Diagnostic (failed) for any other, which names `path`.
std::vector<PackedFile> read_tar(const std::string& path, std::string_view archive);

}  // namespace aotc::cli
