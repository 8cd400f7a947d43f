#include "import/torch_versions.h"

#include <fmt/format.h>

#include <charconv>

namespace aotc::import {

std::string TorchVersion::str() const { return fmt::format("{}.{}", major, minor); }

TorchVersion torch_version(std::string_view text) {
  TorchVersion v;
  const char* const end = text.data() + text.size();
  const auto [dot, bad_major] = std::from_chars(text.data(), end, v.major);
  if (bad_major != std::errc() || dot == end || *dot != '.') return {};
  return std::from_chars(dot + 1, end, v.minor).ec == std::errc() ? v : TorchVersion{};
}

TorchVersion oldest_torch() { return torch_version(AOTC_LIBTORCH_OLDEST); }
TorchVersion newest_torch() { return torch_version(AOTC_LIBTORCH_NEWEST); }

std::string untried_archive(const std::string& version) {
  if (!(newest_torch() < torch_version(version))) return {};
  return fmt::format(
      "the archive is of torch {}, and {} is the latest whose archives aotc was tried with: if it is misread, export with that one",
      version, newest_torch().str());
}

}  // namespace aotc::import
