// Weights that lie encrypted on the disk (AES-256-GCM) and are decrypted into the memory of a model that serves: model_swap_weights with a
// function that reads. No plain byte is written anywhere.
//
//   c++ -std=c++17 -O2 -I include samples/cpp/encrypted_weights.cpp -o encrypted_weights -lcrypto -ldl
//   head -c 32 /dev/urandom > key
//   ./encrypted_weights encrypt key finetuned.weights finetuned.enc
//   ./encrypted_weights run key model.so finetuned.enc
//
// `run` takes a model with one float32 input, whose symbolic dims become their least, and prints a sum of the first output's bytes before
// and after the swap. Needs libssl-dev.
//
// The file: a header (magic, bytes of the content, 8 random bytes), then frames of 1 MB of the content, each followed by its tag. The nonce
// of a frame is the random bytes and its number, the header is authenticated with each: frames that are changed, left out, in another order
// or of another file are refused.
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>

#include "aotc/aotc.hpp"

namespace {

using Key = std::array<unsigned char, 32>;
constexpr uint64_t kFrame = 1 << 20, kTag = 16;

struct Header {
  char magic[8];
  uint64_t bytes;  // of the content
  unsigned char nonce[8];
};

Key read_key(const char* path) {
  Key key;
  std::ifstream in(path, std::ios::binary);
  if (!in.read(reinterpret_cast<char*>(key.data()), key.size()) || in.peek() != EOF)
    throw std::runtime_error(std::string(path) + " is no key: 32 bytes are");
  return key;
}

struct Free {
  void operator()(EVP_CIPHER_CTX* c) const { EVP_CIPHER_CTX_free(c); }
};

/// One frame, either way; false where the tag is not the frame's.
bool crypt(bool encrypt, const Key& key, const Header& header, uint64_t number, const unsigned char* in, uint64_t bytes, unsigned char* out,
           unsigned char* tag) {
  unsigned char nonce[12];
  std::memcpy(nonce, header.nonce, 8);
  for (int i = 0; i < 4; ++i) nonce[8 + i] = static_cast<unsigned char>(number >> (24 - 8 * i));
  const std::unique_ptr<EVP_CIPHER_CTX, Free> c(EVP_CIPHER_CTX_new());
  const int way = encrypt ? 1 : 0, tag_bytes = kTag;
  int n = 0, rest = 0;
  return c && EVP_CipherInit_ex(c.get(), EVP_aes_256_gcm(), nullptr, key.data(), nonce, way) == 1 &&
         (encrypt || EVP_CIPHER_CTX_ctrl(c.get(), EVP_CTRL_GCM_SET_TAG, tag_bytes, tag) == 1) &&
         EVP_CipherUpdate(c.get(), nullptr, &n, reinterpret_cast<const unsigned char*>(&header), sizeof header) == 1 &&
         EVP_CipherUpdate(c.get(), out, &n, in, static_cast<int>(bytes)) == 1 && EVP_CipherFinal_ex(c.get(), out + n, &rest) == 1 &&
         (!encrypt || EVP_CIPHER_CTX_ctrl(c.get(), EVP_CTRL_GCM_GET_TAG, tag_bytes, tag) == 1);
}

void encrypt(const Key& key, const char* from, const char* to) {
  std::ifstream in(from, std::ios::binary | std::ios::ate);
  std::ofstream out(to, std::ios::binary);
  if (!in || !out) throw std::runtime_error(std::string(in ? to : from) + " cannot be opened");
  Header header{{'A', 'E', 'S', 'G', 'C', 'M', '0', '1'}, static_cast<uint64_t>(in.tellg()), {}};
  if (RAND_bytes(header.nonce, sizeof header.nonce) != 1) throw std::runtime_error("no random bytes");
  in.seekg(0);
  out.write(reinterpret_cast<const char*>(&header), sizeof header);
  std::vector<unsigned char> plain(kFrame), sealed(kFrame + kTag);
  for (uint64_t at = 0; at < header.bytes; at += kFrame) {
    const uint64_t n = std::min(kFrame, header.bytes - at);
    in.read(reinterpret_cast<char*>(plain.data()), static_cast<std::streamsize>(n));
    if (!in || !crypt(true, key, header, at / kFrame, plain.data(), n, sealed.data(), sealed.data() + n))
      throw std::runtime_error(std::string(from) + " cannot be encrypted");
    out.write(reinterpret_cast<const char*>(sealed.data()), static_cast<std::streamsize>(n + kTag));
  }
  if (!out.flush()) throw std::runtime_error(std::string(to) + " cannot be written");
}

/// The content of an encrypted file, by pieces.
class Decryptor {
 public:
  Decryptor(const Key& key, const char* path) : key_(key), in_(path, std::ios::binary), plain_(kFrame), sealed_(kFrame + kTag) {
    if (!in_.read(reinterpret_cast<char*>(&header_), sizeof header_) || std::memcmp(header_.magic, "AESGCM01", 8) != 0)
      throw std::runtime_error(std::string(path) + " was not made by `encrypt`");
  }
  ~Decryptor() { OPENSSL_cleanse(plain_.data(), plain_.size()); }

  /// As aotc_weights_source.read.
  aotc_status read(uint64_t offset, void* to, uint64_t bytes) {
    if (offset > header_.bytes || bytes > header_.bytes - offset) return AOTC_STATUS_DAMAGED;
    auto* out = static_cast<unsigned char*>(to);
    while (bytes) {
      const uint64_t number = offset / kFrame, skipped = offset % kFrame, frame = std::min(kFrame, header_.bytes - number * kFrame);
      const uint64_t n = std::min(bytes, frame - skipped);
      in_.clear();
      in_.seekg(static_cast<std::streamoff>(sizeof header_ + number * (kFrame + kTag)));
      if (!in_.read(reinterpret_cast<char*>(sealed_.data()), static_cast<std::streamsize>(frame + kTag))) return AOTC_STATUS_DAMAGED;
      if (!crypt(false, key_, header_, number, sealed_.data(), frame, plain_.data(), sealed_.data() + frame)) return AOTC_STATUS_DAMAGED;
      std::memcpy(out, plain_.data() + skipped, n);
      out += n, offset += n, bytes -= n;
    }
    return AOTC_STATUS_OK;
  }

 private:
  const Key& key_;
  std::ifstream in_;
  Header header_;
  std::vector<unsigned char> plain_, sealed_;
};

/// FNV-1a of the first output for an input that is always the same.
uint64_t answer(const aotc::host::Model& model, aotc::host::Context& context) {
  std::vector<int64_t> shape;
  const std::vector<aotc::host::TensorInfo> inputs = model.inputs();
  for (const aotc_dim& d : inputs.at(0).dims) shape.push_back(d.symbol ? d.min : d.value);
  int64_t elems = 1;
  for (const int64_t d : shape) elems *= d;
  std::vector<float> x(static_cast<size_t>(elems));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) / 8 - 1;
  std::vector<std::vector<int64_t>> shapes;
  context.output_bounds({aotc::host::tensor(x.data(), shape)}, &shapes).check();
  std::vector<std::vector<float>> results;
  std::vector<aotc_tensor> out;
  for (const auto& s : shapes) {
    elems = 1;
    for (const int64_t d : s) elems *= d;
    results.emplace_back(static_cast<size_t>(elems));
    out.push_back(aotc::host::tensor(results.back().data(), s));
  }
  context.run({aotc::host::tensor(x.data(), shape)}, out).check();
  uint64_t sum = 14695981039346656037u;
  const auto* bytes = reinterpret_cast<const unsigned char*>(results.at(0).data());
  for (size_t i = 0; i < results[0].size() * sizeof(float); ++i) sum = (sum ^ bytes[i]) * 1099511628211u;
  return sum;
}

void run(const Key& key, const char* artifact, const char* weights) {
  aotc::host::Model model;
  aotc::host::Context context;
  aotc::host::Model::load(artifact, &model).check();
  model.context(&context).check();
  std::printf("own weights: %016llx\n", static_cast<unsigned long long>(answer(model, context)));
  Decryptor decryptor(key, weights);
  uint64_t version = 0;
  model.swap_weights([&](uint64_t offset, void* to, uint64_t bytes) { return decryptor.read(offset, to, bytes); }, &version).check();
  std::printf("version %llu: %016llx\n", static_cast<unsigned long long>(version), static_cast<unsigned long long>(answer(model, context)));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string verb = argc == 5 ? argv[1] : "";
    if (verb == "encrypt")
      encrypt(read_key(argv[2]), argv[3], argv[4]);
    else if (verb == "run")
      run(read_key(argv[2]), argv[3], argv[4]);
    else
      throw std::runtime_error("usage: encrypted_weights encrypt KEY FILE.weights FILE.enc | run KEY MODEL.so FILE.enc");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "encrypted_weights: %s\n", e.what());
    return 1;
  }
  return 0;
}
