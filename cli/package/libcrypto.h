#pragma once
// ECDSA by OpenSSL's libcrypto (1.1.1 or 3), which is opened when a signature is made or checked: no program of aotc is linked with it.
#include <string>
#include <string_view>

#include "package/sha256.h"

namespace aotc::cli {

/// A key on P-256, P-384 or P-521 of a PEM file; signatures are ASN.1 (DER) over the curve's hash: SHA-256, SHA-384, SHA-512.
class SigningKey {
 public:
  /// Throw Diagnostic: io where there is no such file, bad_input where it has no such key, toolchain where libcrypto is not on the machine.
  static SigningKey read_private(const std::string& path) { return SigningKey(path, true); }
  static SigningKey read_public(const std::string& path) { return SigningKey(path, false); }
  ~SigningKey();
  SigningKey(const SigningKey&) = delete;
  SigningKey& operator=(const SigningKey&) = delete;

  std::string sign(std::string_view bytes) const;
  bool verifies(std::string_view bytes, std::string_view signature) const;
  /// Its public part as PEM.
  std::string public_pem() const;

 private:
  SigningKey(const std::string& path, bool is_private);
  std::string path_;
  void* key_ = nullptr;
  std::string der_;  ///< its public part
  const void* (*hash_)() = nullptr;
};

/// SHA-256 by libcrypto, with the processor's instructions for it; false where it is not on the machine.
bool libcrypto_sha256(std::string_view bytes, Digest& digest);

std::string base64(std::string_view bytes);
/// Of the one text that base64() gives for some bytes; false for any other.
bool from_base64(std::string_view text, std::string& bytes);

}  // namespace aotc::cli
