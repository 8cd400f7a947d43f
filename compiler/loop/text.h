#pragma once
// Text of a loop Module; parse_module(print(m)) prints the same text again. Used by --print-ir-after, explain and filetests.
#include <string>
#include <string_view>

#include "loop/loop.h"

namespace aotc::loop {
std::string print(const Module& m);
std::string print(const Kernel& k, const Module* m = nullptr);
/// Text of the kernel without what does not change its code: names and graph nodes.
std::string structure(Kernel k);
/// A hash of that, the same on every machine.
uint64_t structure_hash(const Kernel& k);
Module parse_module(std::string_view text, std::string_view file_name);
}  // namespace aotc::loop
