#pragma once
// Phases of work that the threads of one call share: a phase begins when every item of the one before it is done.
//
// Each thread has a range of the items, the same ones in all phases, and helps with the ranges of the others when its own are taken. Items
// are taken one by one, and a thread waits only for items that a running thread has taken: no thread needs another one to run at all, so
// that a pool which runs the parts of a call one after another ends, too.
#include "aotc/detail/team_abi.h"

namespace {

class Team {
 public:
  Team(const aotc_team_kargs& team, int64_t items)
      : ranges_(team.team), items_(items), thread_(team.args.thread), threads_(team.args.threads) {
    if (threads_ > AOTC_TEAM_RANGES) threads_ = AOTC_TEAM_RANGES;
    if (threads_ > items_) threads_ = static_cast<int>(items_ < 1 ? 1 : items_);
    own_ = thread_ % threads_;
    alone_ = !ranges_;
    idle_ = alone_ && thread_ > 0;
  }

  /// All items of phases 0 to n - 1 are taken: a later call of the same step has nothing to do.
  bool over(int64_t n) const {
    if (alone_) return false;
    for (int r = 0; r < threads_; ++r)
      if (__atomic_load_n(&ranges_[r].taken, __ATOMIC_RELAXED) < n * (begin(r + 1) - begin(r))) return false;
    return true;
  }

  /// f(item) of every item of phase 0, 1, 2, ...: a thread calls it once a phase, in their order.
  template <class F>
  void phase(int64_t number, const F& f) const {
    if (idle_) return;
    if (alone_) {
      for (int64_t i = 0; i < items_; ++i) f(i);
      return;
    }
    for (int d = 0; d < threads_; ++d) {
      const int r = own_ + d < threads_ ? own_ + d : own_ + d - threads_;
      const int64_t first = begin(r), n = begin(r + 1) - first, end = (number + 1) * n;
      for (int64_t next = __atomic_load_n(&ranges_[r].taken, __ATOMIC_RELAXED); next < end;) {
        if (!__atomic_compare_exchange_n(&ranges_[r].taken, &next, next + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) continue;
        f(first + next - number * n);
        __atomic_fetch_add(&ranges_[r].done, 1, __ATOMIC_RELEASE);
        ++next;
      }
    }
    for (int r = 0; r < threads_; ++r)
      while (__atomic_load_n(&ranges_[r].done, __ATOMIC_ACQUIRE) < (number + 1) * (begin(r + 1) - begin(r))) __builtin_ia32_pause();
  }

 private:
  int64_t begin(int64_t range) const { return range * items_ / threads_; }

  aotc_team_range* ranges_;
  int64_t items_;
  int thread_, threads_, own_;
  bool alone_, idle_;
};

}  // namespace
