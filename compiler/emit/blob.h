#pragma once
// Big constant data as an ELF object, written without an assembler so that hundreds of MB are written once.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace aotc::emit {

/// Writes a relocatable x86-64 ELF object with one read-only section (`section`, aligned to 4096) of `bytes` bytes and the hidden symbol
/// `symbol` at its start. `fill` gets the mapped bytes (zero at first). flags: SHF_* that the section has beside SHF_ALLOC. Throws
/// Diagnostic (io).
void write_blob_object(const std::string& path, const std::string& section, const std::string& symbol, uint64_t bytes,
                       const std::function<void(std::span<std::byte>)>& fill, uint64_t flags = 0);
/// The same bytes as a plain file.
void write_blob_file(const std::string& path, uint64_t bytes, const std::function<void(std::span<std::byte>)>& fill);

}  // namespace aotc::emit
