#pragma once
// The signature of a package as OpenSSF model signing writes it: a Sigstore bundle with a DSSE envelope of an in-toto statement that lists
// each file with its SHA-256 (https://github.com/sigstore/model-transparency). `model_signing verify key` takes the unpacked folder.
#include "package/package.h"

namespace aotc::cli {

/// The text of model.sig. files: sorted by name. key: file of a private key. Throws Diagnostic as SigningKey.
std::string sign_files(const std::vector<FileDigest>& files, const std::string& model, const std::string& key);

/// What a signature says, before it is known to be true.
struct Signature {
  std::string key;      ///< SHA-256 of the public key's PEM, in hex
  std::string payload;  ///< what was signed
  std::string value;    ///< the signature of that
};
/// Of model.sig; throws Diagnostic (failed) where it is not of that form or is not about exactly these files. `path`: for messages.
Signature read_signature(const std::string& path, std::string_view text, const std::vector<FileDigest>& files);
/// Throws Diagnostic: failed where the key did not make it.
void check_signature(const std::string& path, const Signature& signature, const std::string& key);

}  // namespace aotc::cli
