#include "nearest.h"

#include <algorithm>
#include <numeric>

namespace aotc::cli {
namespace {

/// Insertions, deletions, substitutions and exchanges of neighbours.
size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  std::iota(d[0].begin(), d[0].end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kMostEdits = 2, kLongestWord = 200;
  const size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  if (word.size() > kLongestWord) return {};
  const std::string* best = nullptr;
  size_t least = std::min(kMostEdits, (word.size() - dashes - (word.size() > dashes)) / 2) + 1;
  for (const std::string& k : known)
    if (const size_t n = edits(word, k); n < least) {
      least = n;
      best = &k;
    }
  return best ? "; did you mean '" + *best + "'?" : std::string{};
}

}  // namespace aotc::cli
