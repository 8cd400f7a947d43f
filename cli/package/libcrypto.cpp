#include "package/libcrypto.h"

#include <algorithm>
#include <cstring>

#include "base/diagnostic.h"
#include "base/file.h"
#include "base/system_library.h"

namespace aotc::cli {
namespace {

// member, result, arguments: as OpenSSL's headers declare them, pointers to its own types as void*.
#define AOTC_CRYPTO(X)                                                                          \
  X(BIO_new_mem_buf, void*, (const void*, int))                                                 \
  X(BIO_free, int, (void*))                                                                     \
  X(PEM_read_bio_PUBKEY, void*, (void*, void**, int (*)(char*, int, int, void*), void*))        \
  X(PEM_read_bio_PrivateKey, void*, (void*, void**, int (*)(char*, int, int, void*), void*))    \
  X(EVP_PKEY_free, void, (void*))                                                               \
  X(i2d_PUBKEY, int, (const void*, unsigned char**))                                            \
  X(EVP_MD_CTX_new, void*, ())                                                                  \
  X(EVP_MD_CTX_free, void, (void*))                                                             \
  X(EVP_sha256, const void*, ())                                                                \
  X(EVP_sha384, const void*, ())                                                                \
  X(EVP_sha512, const void*, ())                                                                \
  X(EVP_DigestSignInit, int, (void*, void**, const void*, void*, void*))                        \
  X(EVP_DigestSign, int, (void*, unsigned char*, size_t*, const unsigned char*, size_t))        \
  X(EVP_DigestVerifyInit, int, (void*, void**, const void*, void*, void*))                      \
  X(EVP_DigestVerify, int, (void*, const unsigned char*, size_t, const unsigned char*, size_t)) \
  X(SHA256, unsigned char*, (const unsigned char*, size_t, unsigned char*))                     \
  X(ERR_get_error, unsigned long, ())                                                           \
  X(ERR_error_string_n, void, (unsigned long, char*, size_t))

struct Library {
#define AOTC_X(name, result, arguments) result(*name) arguments = nullptr;
  AOTC_CRYPTO(AOTC_X)
#undef AOTC_X
  const char* missing = nullptr;  ///< what of it is not on the machine

  Library() {
    SystemLibrary found({"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"});
#define AOTC_X(name, result, arguments) found.take(#name, name);
    AOTC_CRYPTO(AOTC_X)
#undef AOTC_X
    missing = found.missing();
  }

  std::string error() const {
    char text[256] = "unknown error";
    if (const unsigned long code = ERR_get_error()) ERR_error_string_n(code, text, sizeof text);
    while (ERR_get_error()) continue;
    return text;
  }
};

const Library& opened() {
  static const Library one;
  return one;
}

const Library& library() {
  if (const char* missing = opened().missing)
    throw Diagnostic(ExitCode::toolchain, {}, fmt::format("signatures need OpenSSL's libcrypto, 1.1.1 or 3: {} is not there", missing))
        .note("Debian: apt-get install libssl3; what is not about signatures works without it");
  return opened();
}

/// A context of OpenSSL for one signature.
struct Context {
  Context() : at(library().EVP_MD_CTX_new()) { AOTC_CHECK(at, "no memory for a context of libcrypto"); }
  ~Context() { library().EVP_MD_CTX_free(at); }
  void* at;
};

const unsigned char* octets(std::string_view s) { return reinterpret_cast<const unsigned char*>(s.data()); }

constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

SigningKey::SigningKey(const std::string& path, bool is_private) : path_(path) {
  const std::string pem = read_file(path);
  const Library& l = library();
  void* from = l.BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  char no_password[] = "";  // given, so that nothing asks the terminal
  key_ = (is_private ? l.PEM_read_bio_PrivateKey : l.PEM_read_bio_PUBKEY)(from, nullptr, nullptr, no_password);
  l.BIO_free(from);
  if (!key_)
    throw Diagnostic(Loc{path, "", "", ""},
                     is_private ? "has no private key in PEM that can be read" : "has no public key in PEM that can be read")
        .note(l.error())
        .note(is_private ? "make one: openssl ecparam -name prime256v1 -genkey -noout -out key.pem (without a password)"
                         : "make it of the private key: openssl ec -in key.pem -pubout -out key.pub");
  unsigned char* der = nullptr;
  if (const int n = l.i2d_PUBKEY(key_, nullptr); n > 0) {
    der_.resize(static_cast<size_t>(n));
    der = reinterpret_cast<unsigned char*>(der_.data());
    l.i2d_PUBKEY(key_, &der);
  }
  // SubjectPublicKeyInfo of RFC 5480: id-ecPublicKey, then the curve.
  const std::string ec = "\x06\x07\x2a\x86\x48\xce\x3d\x02\x01";
  const std::pair<std::string, const void* (*)()> curves[] = {{"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07", l.EVP_sha256},
                                                              {std::string("\x06\x05\x2b\x81\x04\x00\x22", 7), l.EVP_sha384},
                                                              {std::string("\x06\x05\x2b\x81\x04\x00\x23", 7), l.EVP_sha512}};
  for (const auto& [oid, hash] : curves)
    if (const size_t at = der_.find(ec + oid); at != std::string::npos && at < 16) hash_ = hash;
  if (hash_) return;
  l.EVP_PKEY_free(key_);
  throw Diagnostic(Loc{path, "", "", ""}, "has a key of another kind than P-256, P-384 and P-521, which model signing takes")
      .note("make one: openssl ecparam -name prime256v1 -genkey -noout -out key.pem");
}

SigningKey::~SigningKey() { library().EVP_PKEY_free(key_); }

std::string SigningKey::sign(std::string_view bytes) const {
  const Library& l = library();
  const Context context;
  std::string signature(256, '\0');
  size_t n = signature.size();
  if (l.EVP_DigestSignInit(context.at, nullptr, hash_(), nullptr, key_) != 1 ||
      l.EVP_DigestSign(context.at, reinterpret_cast<unsigned char*>(signature.data()), &n, octets(bytes), bytes.size()) != 1)
    throw Diagnostic(Loc{path_, "", "", ""}, "cannot sign: " + l.error());
  signature.resize(n);
  return signature;
}

bool SigningKey::verifies(std::string_view bytes, std::string_view signature) const {
  const Library& l = library();
  const Context context;
  const bool good = l.EVP_DigestVerifyInit(context.at, nullptr, hash_(), nullptr, key_) == 1 &&
                    l.EVP_DigestVerify(context.at, octets(signature), signature.size(), octets(bytes), bytes.size()) == 1;
  while (l.ERR_get_error()) continue;
  return good;
}

std::string SigningKey::public_pem() const {
  std::string pem = "-----BEGIN PUBLIC KEY-----\n";
  const std::string text = base64(der_);
  for (size_t at = 0; at < text.size(); at += 64) pem += text.substr(at, 64) + "\n";
  return pem + "-----END PUBLIC KEY-----\n";
}

bool libcrypto_sha256(std::string_view bytes, Digest& digest) {
  if (opened().missing) return false;
  opened().SHA256(octets(bytes), bytes.size(), digest.data());
  return true;
}

std::string base64(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k) word = word << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? kAlphabet[word >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

bool from_base64(std::string_view text, std::string& bytes) {
  bytes.clear();
  uint32_t word = 0;
  int bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    const char* digit = c ? std::strchr(kAlphabet, c) : nullptr;
    if (!digit) return false;
    word = word << 6 | static_cast<uint32_t>(digit - kAlphabet);
    if ((bits += 6) >= 8) bytes += static_cast<char>(word >> (bits -= 8) & 255);
  }
  return base64(bytes) == text;
}

}  // namespace aotc::cli
