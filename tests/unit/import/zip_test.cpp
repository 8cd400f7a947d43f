#include "support.h"

using namespace aotc;
using namespace aotc::import;
using namespace aotc::import::test;
using Catch::Matchers::Contains;

namespace {

std::string open_all(const std::string& zip) {
  return refusal([&] {
    const Zip z(bytes_of(zip), "m.pt2");
    for (const ZipEntry& e : z.entries()) z.read(e);
  });
}

const Entry kA{"m/a", "first"}, kB{"m/b", "second one"};

}  // namespace

TEST_CASE("a plain zip is read in place") {
  const std::string text = make_zip({kA, kB});
  const Zip z(bytes_of(text), "m.pt2");
  REQUIRE(z.entries().size() == 2);
  const Bytes b = z.read(*z.find("m/b"));
  CHECK(std::string(reinterpret_cast<const char*>(b.data()), b.size()) == "second one");
  CHECK(z.find("m/c") == nullptr);
}

TEST_CASE("hostile zips are refused with the reason") {
  struct Case {
    std::string zip, why;
  };
  std::string comment = make_zip({kA});
  comment[comment.size() - 2] = 1;
  comment += "x";
  const Case cases[] = {
      {"", "not a zip file"},
      {make_zip({kA, kA}), "same name"},
      {make_zip({kA, {.name = "m/b", .content = "x", .offset_add = -38}}), "disagree"},
      {make_zip({{.name = "m/a", .content = "x", .local_name = "m/z"}}), "disagree"},
      {make_zip({{.name = "m/../a"}}), "'..'"},
      {make_zip({{.name = "../a"}}), "'..'"},
      {make_zip({{.name = "/etc/a"}}), "absolute"},
      {make_zip({{.name = "m\\a"}}), "'\\'"},
      {make_zip({{.name = "c:a"}}), "':'"},
      {make_zip({{.name = "m//a"}}), "empty part"},
      {make_zip({{.name = "m/a", .content = "x", .central_size_add = 1}}), "disagree about size"},
      {make_zip({{.name = "m/a", .content = "x", .local_size_add = 1}}), "disagree about size"},
      {make_zip({{.name = "m/a", .content = "x", .central_size_add = 1 << 20, .local_size_add = 1 << 20}}), "beyond"},
      {make_zip({{.name = "m/a", .content = "x", .central_size_add = 1, .local_size_add = 1}, kB}), "beyond|overlap"},
      {make_zip({{.name = "m/a", .content = "x", .offset_add = 1 << 30}}), "beyond"},
      {make_zip({{.name = "m/a", .content = "x", .crc_xor = 1}}), "CRC mismatch"},
      {make_zip({{.name = "m/a", .content = "x", .method = 8}}), "compressed"},
      {make_zip({{.name = "m/a", .content = "x", .flags = 1}}), "encrypted"},
      {make_zip({kA}, "MZ"), "before the first"},
      {make_zip({kA, kB}, "", std::string(40, 'x')), "between"},
      {make_zip({kA}) + "x", "no end record"},
      {comment, "no end record"},
      {make_zip({kA}, "", "", 1), "cut off|bad central"},
      {make_zip({kA, kB}, "", "", -1), "more than its entries"},
  };
  for (const Case& c : cases) {
    const std::string got = open_all(c.zip);
    bool found = false;
    for (size_t i = 0; i <= c.why.size();) {
      const size_t j = std::min(c.why.find('|', i), c.why.size());
      found |= got.find(c.why.substr(i, j - i)) != std::string::npos;
      i = j + 1;
    }
    INFO(c.why << " in " << got);
    CHECK(found);
    CHECK_THAT(got, Contains("m.pt2"));
  }
}

TEST_CASE("entries that share bytes are refused") {
  // Two central entries for one local header under the same name are duplicates; a local header inside another entry's content overlaps.
  const std::string inner = make_zip({{.name = "m/b", .content = "zz"}});
  const std::string local = inner.substr(0, 30 + 3 + 2);
  const std::string outer = make_zip({{.name = "m/a", .content = local}});
  const size_t central = outer.find("PK\x01\x02"), end = outer.find("PK\x05\x06");
  std::string second = inner.substr(inner.find("PK\x01\x02"), 46 + 3);
  second[42] = 33;  // the offset of the inner header
  std::string zip = outer.substr(0, end) + second;
  put(zip, 0x06054b50, 4);
  put(zip, 0, 4);
  put(zip, 2, 2);
  put(zip, 2, 2);
  put(zip, end - central + second.size(), 4);
  put(zip, central, 4);
  put(zip, 0, 2);
  CHECK_THAT(open_all(zip), Contains("overlap"));
}

TEST_CASE("zip64 sizes that lie are refused") {
  std::string zip = make_zip({kA});
  const size_t end = zip.find("PK\x05\x06"), central = zip.find("PK\x01\x02");
  std::string tail;
  put(tail, 0x06064b50, 4);
  put(tail, 44, 8);
  put(tail, 45, 2);
  put(tail, 45, 2);
  put(tail, 0, 8);
  put(tail, 1, 8);
  put(tail, 1, 8);
  put(tail, end - central, 8);
  put(tail, central, 8);
  std::string locator;
  put(locator, 0x07064b50, 4);
  put(locator, 0, 4);
  put(locator, end, 8);
  put(locator, 1, 4);
  const std::string good = zip.substr(0, end) + tail + locator + zip.substr(end);
  CHECK(open_all(good) == "(accepted)");
  for (const size_t field : {24u, 32u, 40u, 48u}) {
    std::string bad = good;
    bad[end + field + 7] = 0x7f;
    CHECK_THAT(open_all(bad), Contains("zip"));
    CHECK(open_all(bad) != "(accepted)");
  }
  std::string bad = good;
  bad[end + 56 + 8 + 7] = 0x7f;  // where the locator points
  CHECK_THAT(open_all(bad), Contains("zip64"));
}

TEST_CASE("no prefix and no flipped bit of a zip crashes the reader") {
  const std::string zip = make_zip({kA, kB});
  for (size_t n = 0; n < zip.size(); ++n) CHECK(open_all(zip.substr(0, n)) != "(accepted)");
  for (size_t i = 0; i < zip.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string z = zip;
      z[i] = static_cast<char>(z[i] ^ (1 << bit));
      open_all(z);
    }
}

TEST_CASE("crc32 is that of zip files") { CHECK(crc32(bytes_of(std::string("123456789"))) == 0xcbf43926u); }
