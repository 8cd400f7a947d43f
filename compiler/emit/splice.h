#pragma once
// A big blob in a shared object without passing it through the linker: one page stands in for it at link time, as the last segment, and is
// exchanged for the blob afterwards, which is thus written once, straight to its place.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace aotc::emit {

struct Blob {
  std::string section;  ///< ".aotc_weights"
  std::string symbol;   ///< hidden, at its start
  uint64_t bytes = 0;
  std::function<void(std::span<std::byte>)> fill;  ///< gets the mapped bytes, zero at first
};

/// Linker script that puts the section behind all others.
std::string last_section_script(const std::string& section);
/// Writes the object that stands in for the blob while linking.
void write_stand_in(const std::string& path, const Blob& blob);
/// Copies `linked` to `output` with the blob in place of its stand-in and the blob's hash mixed into the build-id. Returns the hash
/// (aotc_blob_hash); none, with nothing written, when the linker laid the file out in another way than last_section_script asks for.
std::optional<uint64_t> splice(const std::string& linked, const std::string& output, const Blob& blob);

}  // namespace aotc::emit
