// Instances that help one another (runtime/triton/src/crew.h): each is used by one at a time, all that is begun is done, and one can leave
// at any time.
#include "crew.h"

#include <atomic>
#include <cstdio>
#include <memory>

namespace aotc::triton {
class Instance {
 public:
  Helper helper;
  std::atomic<int> users{0};
};
}  // namespace aotc::triton

using namespace aotc::triton;

int main() {
  constexpr size_t kInstances = 4, kBatches = 500;
  Crew crew;
  std::vector<std::unique_ptr<Instance>> all;
  std::atomic<size_t> begun{0}, served{0}, shared{0};
  for (size_t i = 0; i < kInstances; ++i) {
    all.push_back(std::make_unique<Instance>());
    crew.join(all.back().get());
  }
  const std::vector<Instance*> idle = crew.take_idle(kInstances + 1);
  const bool counted = idle.size() == kInstances && crew.take_idle(1).empty();
  for (Instance* one : idle) crew.give_back(one);
  std::vector<std::thread> callers;
  for (size_t i = 0; i < kInstances; ++i)
    callers.emplace_back([&, i] {
      for (size_t n = 0; n < kBatches; ++n) {
        std::vector<Instance*> parts{crew.take(all[i].get())};
        for (Instance* other : crew.take_idle(n % kInstances)) parts.push_back(other);
        begun += parts.size();
        Latch latch(parts.size());
        const auto serve = [&](Instance* by) {
          if (by->users++ != 0) ++shared;
          ++served;
          --by->users;
          crew.give_back(by);
          latch.done();
        };
        for (size_t p = 1; p < parts.size(); ++p)
          if (!parts[p]->helper.begin([&serve, by = parts[p]] { serve(by); })) serve(parts[p]);
        serve(parts[0]);
        latch.wait();
      }
    });
  for (int k = 0; k < 20; ++k) {  // another comes, helps perhaps, and goes
    const auto guest = std::make_unique<Instance>();
    crew.join(guest.get());
    std::this_thread::yield();
    crew.leave(guest.get());
  }
  for (std::thread& t : callers) t.join();
  for (const auto& one : all) crew.leave(one.get());
  const bool left = crew.take_idle(1).empty();
  std::printf("%zu parts begun, %zu served, %zu by an instance in use\n", begun.load(), served.load(), shared.load());
  return counted && left && served == begun && shared == 0 ? 0 : 1;
}
