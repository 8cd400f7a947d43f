#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace aotc::cli {

/// "; did you mean 'build'?" where one of the known words is likely what was meant (two edits at most, and fewer than half of the word),
/// else empty.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace aotc::cli
