// SHA-256 beside the examples of FIPS 180-2 (B.1 to B.3), whatever pieces the bytes come in.
#include "base/sha256.h"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace aotc;

TEST_CASE("SHA-256 of known texts") {
  const std::pair<std::string, const char*> known[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {std::string(1000000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
  for (const auto& [text, digest] : known)
    for (const size_t piece : {1, 55, 56, 63, 64, 65, 1000, 1000000}) {
      Sha256 hash;
      for (size_t at = 0; at < text.size(); at += piece) hash.add(std::string_view(text).substr(at, piece));
      CHECK(hex(hash.finish()) == digest);
    }
}
