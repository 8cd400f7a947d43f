#pragma once
// Regions of torch.autocast: which operators cast their operands there.
#include <optional>
#include <string_view>
#include <vector>

#include "import/program.h"

namespace aotc::import {

/// Of wrap_with_autocast's arguments before its graph (device type, dtype, enabled, cache): the operators that have a kernel for autocast
/// on this kind of device, as words; none where it is off. Nothing for other kinds.
std::optional<std::string_view> autocast_region(const std::vector<Arg>& args);

}  // namespace aotc::import
