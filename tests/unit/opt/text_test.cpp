// Texts of all three IRs: stages by name, and texts with random faults, which are read or refused with a Diagnostic, whatever they say.
// AOTC_RANDOM_RUNS mutations of each text of the filetests.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "opt/opt.h"

using namespace aotc;
namespace fs = std::filesystem;

namespace {

std::vector<std::pair<std::string, std::string>> texts() {
  std::vector<std::pair<std::string, std::string>> all;
  std::vector<fs::path> files;
  for (const auto& e : fs::recursive_directory_iterator(AOTC_TEST_DIR "/filetests"))
    if (const auto kind = e.path().extension(); kind == ".graph" || kind == ".loop" || kind == ".plan") files.push_back(e.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& f : files) {
    std::ifstream in(f, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const size_t expect = text.find("# expect:\n");
    all.emplace_back(f.filename().string(), text.substr(0, expect));
    if (expect != std::string::npos) all.emplace_back(f.filename().string(), text.substr(expect));
  }
  return all;
}

class Mutator {
 public:
  Mutator(std::string text, uint32_t seed) : text_(std::move(text)), rng_(seed) {
    for (size_t i = 0; i < text_.size();) {  // words and numbers, else single characters
      const size_t begin = i;
      auto of_word = [&] { return std::isalnum(static_cast<unsigned char>(text_[i])) || text_[i] == '_' || text_[i] == '.'; };
      while (i < text_.size() && of_word()) ++i;
      if (i == begin) ++i;
      tokens_.emplace_back(begin, i - begin);
    }
  }
  std::string run() {
    std::string t = text_;
    const auto [at, size] = pick();
    static constexpr const char* kNumbers[] = {"0", "1", "-1", "7", "9999", "999999999999", "9223372036854775807", "1e30", "nan", "inf"};
    static constexpr const char* kPieces[] = {
        "[", "]", "{", "}", "(", ")", ",", "\"", "\n", "#", "((((", "mod(1, 0)", "floordiv(n, n - n)"};
    switch (rng_() % 8) {
      case 0: return t.erase(at, size);
      case 1: return t.insert(at, t.substr(at, size) + " ");
      case 2: return t.substr(0, at);
      case 3: return t.insert(at, kPieces[rng_() % std::size(kPieces)]);
      case 4: {
        const auto [from, length] = pick();
        return t.replace(at, size, t.substr(from, length));
      }
      case 5: {  // a line less, or twice
        const size_t begin = t.rfind('\n', at) + 1, end = std::min(t.find('\n', at), t.size() - 1) + 1;
        return rng_() % 2 ? t.erase(begin, end - begin) : t.insert(begin, t.substr(begin, end - begin));
      }
      default: {  // a number
        for (int tries = 0; tries < 20; ++tries) {
          const auto [from, length] = pick();
          if (std::isdigit(static_cast<unsigned char>(t[from]))) return t.replace(from, length, kNumbers[rng_() % std::size(kNumbers)]);
        }
        return t.replace(at, size, kNumbers[rng_() % std::size(kNumbers)]);
      }
    }
  }

 private:
  std::pair<size_t, size_t> pick() { return tokens_[rng_() % tokens_.size()]; }
  std::string text_;
  std::vector<std::pair<size_t, size_t>> tokens_;
  std::mt19937 rng_;
};

int runs() {
  const char* n = std::getenv("AOTC_RANDOM_RUNS");
  return n ? std::atoi(n) : 25;
}

std::string failure(const std::string& text, const std::string& stages, opt::Options options = {}) {
  try {
    opt::Ir ir = opt::parse(text, "t");
    opt::run(ir, stages, options);
  } catch (const Diagnostic& d) { return d.what(); }
  return "none";
}

}  // namespace

TEST_CASE("texts with faults are read or refused") {
  int refused = 0, read = 0;
  uint32_t seed = 1;
  for (const auto& [name, text] : texts()) {
    for (int i = 0; i < runs(); ++i, ++seed) {
      const std::string mutant = Mutator(text, seed).run();
      try {
        const std::string printed = opt::print(opt::parse(mutant, name));
        ++read;
        INFO(name << " seed " << seed << "\n" << mutant);
        CHECK(opt::print(opt::parse(printed, "printed")) == printed);
      } catch (const Diagnostic& d) {
        ++refused;
        if (d.loc().file.empty()) FAIL(name << " seed " << seed << ": no place: " << d.what());
      } catch (const std::exception& e) { FAIL(name << " seed " << seed << ": " << e.what() << "\n" << mutant); }
    }
  }
  CHECK(refused > 10 * static_cast<int>(texts().size()));
  CHECK(read > static_cast<int>(texts().size()));
}

TEST_CASE("stages take the IR that they are for") {
  const std::string graph = "graph @m\nsym n [1, 8]\ninput %x : float32[n] \"\"\n%0 = exp(%x)\noutput %0 \"y\"\n";
  CHECK(failure(graph, "") == "none");
  CHECK(failure(graph, "all, dce,loop,plan") == "none");
  CHECK_THAT(failure(graph, "plan"), Catch::Contains("'plan' takes a text of loops, and this is a graph"));
  CHECK_THAT(failure(graph, "loop,dce"), Catch::Contains("'dce' takes a graph, and this is a text of loops"));
  CHECK_THAT(failure(graph, "loop,plan,loop"), Catch::Contains("this is a text of plans"));
  CHECK_THAT(failure(graph, "loops"), Catch::Contains("there is no pass or stage 'loops'") && Catch::Contains("fold_constants"));
  CHECK_THAT(failure("hello\n", ""), Catch::Contains("t: 1:1: the text of a graph begins with 'graph'"));
  CHECK_THAT(failure("", ""), Catch::Contains("the text ends too early"));

  opt::Options o;
  o.variants = {"n=3", "n in [2, 8] by 2", "default"};
  opt::Ir ir = opt::parse(graph, "t");
  opt::run(ir, "loop,plan", o);
  REQUIRE(ir.plans->plans.size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(ir.plans->plans[i].name == o.variants[i]);
  for (const auto& [variant, want] : {std::pair<const char*, const char*>{"m=3", "there is no symbol m"},
                                      {"n=9", "the range is empty"},
                                      {"n in [4, 2]", "the range is empty"},
                                      {"n in [2, 8] by 0", "expected at least 1"},
                                      {"n=3 junk", "unexpected text"}}) {
    o.variants = {variant};
    CHECK_THAT(failure(graph, "loop,plan", o), Catch::Contains(want));
  }
}
