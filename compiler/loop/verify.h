#pragma once
#include <string_view>

#include "loop/loop.h"

namespace aotc::loop {
/// Params against args, dtypes, use before definition, blocks, masks, reduce uses, index ranges that can be proved wrong.
void verify(const Module& m, std::string_view after);
}  // namespace aotc::loop
