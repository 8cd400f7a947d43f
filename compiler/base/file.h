#pragma once
// What a path names, before it is opened: a FIFO would be waited for, a folder or a device read as nothing. And what is there.
#include <string>

namespace aotc {

/// Throws Diagnostic (io) unless there is a regular file at `path`, which a link may lead to.
void require_file(const std::string& path);
/// All bytes of a regular file. Throws Diagnostic (io).
std::string read_file(const std::string& path);
/// Throws Diagnostic (io) where something other than a regular file is in the way of a file to be written.
void require_place_for_file(const std::string& path);

}  // namespace aotc
