#include "plan/packing.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace aotc::plan {

namespace {

class Packer {
 public:
  Packer(const std::vector<LiveRange>& lives, const std::vector<int64_t>& sizes) : lives_(lives), sizes_(sizes) {}

  /// Each item in turn at the lowest place that is free (or, best_fit, in the smallest gap that takes it).
  Packed place(const std::vector<size_t>& order, bool best_fit) const {
    Packed p;
    p.offsets.assign(sizes_.size(), 0);
    std::vector<size_t> placed;  // by offset
    for (size_t i : order) {
      int64_t at = -1, gap = INT64_MAX, end = 0;
      if (sizes_[i] > 0) {
        for (size_t j : placed) {
          if (!overlap(lives_[i], lives_[j])) continue;
          const int64_t room = p.offsets[j] - end;
          if (room >= sizes_[i] && (best_fit ? room < gap : at < 0)) at = end, gap = room;
          end = std::max(end, p.offsets[j] + sizes_[j]);
        }
      }
      if (at < 0) at = end;
      p.offsets[i] = at;
      p.bytes = std::max(p.bytes, at + sizes_[i]);
      if (sizes_[i] == 0) continue;
      placed.insert(
          std::upper_bound(placed.begin(), placed.end(), i,
                           [&](size_t a, size_t b) { return p.offsets[a] < p.offsets[b] || (p.offsets[a] == p.offsets[b] && a < b); }),
          i);
    }
    return p;
  }

  Packed best() const {
    const size_t n = sizes_.size();
    const int64_t bound = largest_live_set(lives_, sizes_);
    std::vector<size_t> base(n);
    std::iota(base.begin(), base.end(), size_t{0});
    auto length = [&](size_t i) { return lives_[i].end - lives_[i].begin; };
    const std::vector<int64_t> crowd = crowding();
    using Less = std::function<bool(size_t, size_t)>;
    const Less by[] = {
        [&](size_t a, size_t b) { return std::tuple(-sizes_[a], -length(a)) < std::tuple(-sizes_[b], -length(b)); },
        [&](size_t a, size_t b) { return std::tuple(-length(a), -sizes_[a]) < std::tuple(-length(b), -sizes_[b]); },
        [&](size_t a, size_t b) { return static_cast<double>(sizes_[a]) * length(a) > static_cast<double>(sizes_[b]) * length(b); },
        [&](size_t a, size_t b) { return std::tuple(lives_[a].begin, -sizes_[a]) < std::tuple(lives_[b].begin, -sizes_[b]); },
        [&](size_t a, size_t b) { return std::tuple(-crowd[a], -sizes_[a]) < std::tuple(-crowd[b], -sizes_[b]); },
    };
    Packed best;
    std::vector<size_t> best_order;
    bool best_fit = false;
    for (const Less& less : by) {
      std::vector<size_t> order = base;
      std::stable_sort(order.begin(), order.end(), less);
      for (bool fit : {false, true}) {
        Packed p = place(order, fit);
        if (!best_order.empty() && p.bytes >= best.bytes) continue;
        best = std::move(p), best_order = order, best_fit = fit;
        if (best.bytes <= bound) return best;
      }
    }
    return improve(std::move(best), std::move(best_order), best_fit, bound);
  }

 private:
  /// The largest live set that each item is part of.
  std::vector<int64_t> crowding() const {
    int steps = 0;
    for (const LiveRange& l : lives_) steps = std::max(steps, l.end);
    std::vector<int64_t> live(static_cast<size_t>(steps), 0), r;
    for (size_t i = 0; i < lives_.size(); ++i)
      for (int s = lives_[i].begin; s < lives_[i].end; ++s) live[static_cast<size_t>(s)] += sizes_[i];
    for (const LiveRange& l : lives_) {
      int64_t m = 0;
      for (int s = l.begin; s < l.end; ++s) m = std::max(m, live[static_cast<size_t>(s)]);
      r.push_back(m);
    }
    return r;
  }

  Packed improve(Packed best, std::vector<size_t> order, bool best_fit, int64_t bound) const {
    const size_t n = order.size();
    const size_t rounds = std::min<size_t>(400, 40'000'000 / (n * n + 1));
    uint64_t random = 88172645463325252ULL;
    std::vector<size_t> current = order;
    Packed now = best;
    for (size_t r = 0; r < rounds && best.bytes > bound; ++r) {
      std::vector<size_t> tops;
      for (size_t k = 0; k < n; ++k)
        if (now.offsets[current[k]] + sizes_[current[k]] == now.bytes) tops.push_back(k);
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      std::vector<size_t> next = current;
      const size_t from = tops[random % tops.size()];
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      const size_t to = from == 0 ? random % n : random % from;
      const size_t item = next[from];
      next.erase(next.begin() + static_cast<std::ptrdiff_t>(from));
      next.insert(next.begin() + static_cast<std::ptrdiff_t>(to), item);
      Packed p = place(next, best_fit);
      if (p.bytes > now.bytes) continue;
      now = std::move(p), current = std::move(next);
      if (now.bytes < best.bytes) best = now;
    }
    return best;
  }

  const std::vector<LiveRange>& lives_;
  const std::vector<int64_t>& sizes_;
};

}  // namespace

int64_t largest_live_set(const std::vector<LiveRange>& lives, const std::vector<int64_t>& sizes) {
  std::vector<std::pair<int, int64_t>> events;
  for (size_t i = 0; i < lives.size(); ++i) {
    if (lives[i].begin >= lives[i].end) continue;
    events.emplace_back(lives[i].begin, sizes[i]);
    events.emplace_back(lives[i].end, -sizes[i]);
  }
  std::sort(events.begin(), events.end());  // at one step ends come first: their change is negative
  int64_t now = 0, most = 0;
  for (const auto& [step, change] : events) most = std::max(most, now += change);
  return most;
}

Packed pack_intervals(const std::vector<LiveRange>& lives, const std::vector<int64_t>& sizes) {
  if (lives.empty()) return {};
  return Packer(lives, sizes).best();
}

}  // namespace aotc::plan
