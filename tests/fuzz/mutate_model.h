#pragma once
#include <random>
#include <string>

namespace aotc::fuzz {

/// The text of a model.json changed in one to three places, so that it stays JSON of the archive's schema, or nearly: other dims, dtypes,
/// symbols, numbers, arities, names.
std::string mutate_model(const std::string& json, std::mt19937_64& random);

}  // namespace aotc::fuzz
