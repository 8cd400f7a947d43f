#pragma once
// What two artifacts differ in, by what their files say of themselves.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "artifact.h"

namespace aotc::cli {

/// One entry: {section name change: added | removed | changed, a, b, method and target where there are several}. Sections: build, sizes,
/// methods, targets, inputs, outputs, states, symbols, guards, variants, kernels, choices, weights. Empty: the files have the same bytes.
nlohmann::json differences(const std::string& a, const std::string& b);

/// A line each, under the names of the sections.
std::string differences_text(const nlohmann::json& changes);

}  // namespace aotc::cli
