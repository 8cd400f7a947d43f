#pragma once
// Versions of torch, and those that aotc is tried with (packaging/libtorch.cmake has the numbers).
#include <string>
#include <string_view>
#include <tuple>

namespace aotc::import {

/// Its C++ interface, and what an archive may hold, change with the second number.
struct TorchVersion {
  int major = 0, minor = 0;
  std::string str() const;  ///< "2.13"
  friend bool operator==(const TorchVersion&, const TorchVersion&) = default;
  friend bool operator<(const TorchVersion& a, const TorchVersion& b) { return std::tie(a.major, a.minor) < std::tie(b.major, b.minor); }
};
/// Of "2.13.0+cpu"; 0.0 where the text does not begin with two numbers.
TorchVersion torch_version(std::string_view text);

TorchVersion oldest_torch();
TorchVersion newest_torch();

/// For a person: that an archive of this version ("2.16.0") is of a later torch than any that was tried. Empty where it is not.
std::string untried_archive(const std::string& version);

}  // namespace aotc::import
