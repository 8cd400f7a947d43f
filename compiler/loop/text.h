#pragma once
// Text of a loop Module; parse_module(print(m)) prints the same text again. Used by --print-ir-after, explain and filetests.
#include <string>
#include <string_view>

#include "loop/loop.h"

namespace aotc::loop {
std::string print(const Module& m);
std::string print(const Kernel& k, const Module* m = nullptr);
Module parse_module(std::string_view text, std::string_view file_name);
}  // namespace aotc::loop
