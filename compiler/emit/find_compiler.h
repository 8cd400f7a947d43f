#pragma once
// What find_compiler (toolchain.h) knows of compilers.
#include <string>
#include <string_view>

namespace aotc::emit {

/// Why a compiler whose --version begins with this line cannot compile generated code ("is too old"); empty: it can, or the line does not
/// say.
std::string unfit_compiler(std::string_view version);

}  // namespace aotc::emit
