#pragma once
#include <string>
#include <string_view>

namespace aotc::emit {

/// A C string literal with this content, whatever it is.
std::string c_string(std::string_view text);

}  // namespace aotc::emit
