#include "crew.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace aotc::triton {

Crew::Member* Crew::find(Instance* one) {
  const auto at = std::find_if(members_.begin(), members_.end(), [one](const Member& m) { return m.one == one; });
  return at == members_.end() ? nullptr : &*at;
}

void Crew::join(Instance* one) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    members_.push_back({one, false});
  }
  some_.notify_all();
}

void Crew::leave(Instance* one) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!find(one)) return;
  some_.wait(lock, [&] { return !find(one)->used; });
  members_.erase(members_.begin() + (find(one) - members_.data()));
}

Instance* Crew::take(Instance* own) {
  std::unique_lock<std::mutex> lock(mutex_);
  Member* taken = nullptr;
  some_.wait(lock, [&] {
    taken = find(own);
    for (Member& m : members_)
      if (taken->used && !m.used) taken = &m;
    return !taken->used;
  });
  taken->used = true;
  return taken->one;
}

std::vector<Instance*> Crew::take_idle(size_t most) {
  std::vector<Instance*> taken;
  const std::lock_guard<std::mutex> lock(mutex_);
  taken.reserve(std::min(most, members_.size()));
  for (Member& m : members_)
    if (!m.used && taken.size() < most) {
      m.used = true;
      taken.push_back(m.one);
    }
  return taken;
}

void Crew::give_back(Instance* one) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    find(one)->used = false;
  }
  some_.notify_all();  // who leaves waits for one of them, who takes for any
}

Helper::~Helper() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  some_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool Helper::begin(std::function<void()> work) {
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { loop(); });
    } catch (const std::system_error&) { return false; }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  work_ = std::move(work);
  some_.notify_one();  // within: whoever sees the work done may end this
  return true;
}

void Helper::loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    some_.wait(lock, [this] { return stop_ || work_; });
    if (!work_) return;
    const std::function<void()> work = std::exchange(work_, nullptr);
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace aotc::triton
