#include "engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace llm {

namespace {
double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

/// Tokens that another slot holds are copied from so many on; fewer are fed again with the rest of a chunk.
constexpr size_t kWorthCopy = 16;

/// How many tokens both begin with.
size_t alike(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  const auto n = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + n, b.begin()).first - a.begin());
}
}  // namespace

void Channel::put(Event event) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    events_.push_back(std::move(event));
  }
  some_.notify_one();
}

std::deque<Event> Channel::take(std::chrono::milliseconds most) {
  std::unique_lock<std::mutex> lock(mutex_);
  some_.wait_for(lock, most, [this] { return !events_.empty(); });
  return std::exchange(events_, {});
}

Engine::Engine(Decoder& decoder, const Description& description, Metrics& metrics, const tok::Tokenizer& tokenizer,
               const Schedule& schedule)
    : decoder_(decoder),
      d_(description),
      metrics_(metrics),
      tokenizer_(tokenizer),
      schedule_(schedule),
      slots_(static_cast<size_t>(description.slots)) {
  thread_ = std::thread([this] { loop(); });
}

Engine::~Engine() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = cancel_ = true;
  }
  work_.notify_all();
  thread_.join();
}

bool Engine::submit(std::vector<Task> tasks, const std::shared_ptr<Channel>& channel) {
  std::vector<SequencePtr> made;
  for (Task& t : tasks) made.push_back(std::make_unique<Sequence>(std::move(t), made.size(), channel));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Free slots take sequences at once, so they count as room.
    if (stop_ || active_ + made.size() > schedule_.queue + slots_.size()) return false;
    active_ += made.size();
    for (SequencePtr& s : made) waiting_.push_back(std::move(s));
    metrics_.waiting = static_cast<int64_t>(waiting_.size());
  }
  work_.notify_all();
  return true;
}

void Engine::drain(std::chrono::milliseconds most) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (idle_.wait_for(lock, most, [this] { return active_ == 0; })) return;
  cancel_ = true;
  work_.notify_all();
  idle_.wait(lock, [this] { return active_ == 0; });
}

void Engine::between_runs(const std::function<void()>& f) {
  std::packaged_task<void()> call(f);
  std::future<void> done = call.get_future();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stop_) throw std::runtime_error("the server is shutting down");
    calls_.push_back(std::move(call));
  }
  work_.notify_all();
  done.get();
}

void Engine::loop() {
  for (;;) {
    std::deque<std::packaged_task<void()>> calls;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      const auto some = [this] { return stop_ || !waiting_.empty() || !running_.empty() || !calls_.empty(); };
      if (schedule_.trim_after.count() == 0 || trimmed_) {
        work_.wait(lock, some);
      } else if (!work_.wait_for(lock, schedule_.trim_after, some)) {
        lock.unlock();
        trimmed_ = true;
        if (decoder_.trim()) ++metrics_.trims;
        continue;
      }
      calls.swap(calls_);
      if (stop_ && waiting_.empty() && running_.empty() && calls.empty()) return;
    }
    for (std::packaged_task<void()>& call : calls) call();
    drop_closed();
    admit();
    if (const Batch batch = choose(); !batch.sequences.empty()) run(batch);
  }
}

void Engine::drop_closed() {
  std::deque<SequencePtr> gone;
  bool all;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    all = cancel_;
    for (auto it = waiting_.begin(); it != waiting_.end();)
      if (all || (*it)->channel->closed()) {
        gone.push_back(std::move(*it));
        it = waiting_.erase(it);
      } else {
        ++it;
      }
    metrics_.waiting = static_cast<int64_t>(waiting_.size());
  }
  for (const SequencePtr& s : gone) end(*s, Finish::cancelled);
  for (auto it = running_.begin(); it != running_.end();) {
    Sequence& s = **it++;  // end() takes it out
    if (all || s.channel->closed()) end(s, Finish::cancelled);
  }
}

void Engine::admit() {
  for (;;) {
    if (running_.size() == slots_.size()) return;
    SequencePtr next;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (waiting_.empty()) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
      metrics_.waiting = static_cast<int64_t>(waiting_.size());
    }
    // The free slot that holds most of the prompt; of equals the one that was not used for longest. One token is fed in any case, for its
    // logits, and the mean of an embedding needs all.
    const size_t most = next->task.embed ? 0 : next->tokens.size() - 1;
    Slot* best = nullptr;
    size_t best_alike = 0;
    for (Slot& slot : slots_) {
      if (slot.sequence) continue;
      const size_t n = slot.serial == next->serial() ? std::min(most, alike(slot.tokens, next->tokens)) : 0;
      if (!best || n > best_alike || (n == best_alike && slot.used < best->used)) best = &slot, best_alike = n;
    }
    Sequence& s = *next;
    s.slot = best - slots_.data();
    s.fed = best_alike;
    s.cached = static_cast<int64_t>(best_alike);
    best->tokens.resize(best_alike);
    best->serial = s.serial();
    best->sequence = &s;
    best->used = ++clock_;
    metrics_.queued.add(seconds(Clock::now() - s.arrived));
    metrics_.prompt_tokens += s.tokens.size();
    metrics_.cached_tokens += best_alike;
    running_.push_back(std::move(next));
    metrics_.running = static_cast<int64_t>(running_.size());
  }
}

void Engine::catch_up(Sequence& s) {
  if (s.left() <= kWorthCopy || s.task.embed) return;
  const Slot* best = nullptr;
  size_t most = s.fed + kWorthCopy - 1;
  for (const Slot& slot : slots_) {
    if (slot.serial != s.serial()) continue;
    if (const size_t n = std::min(alike(slot.tokens, s.tokens), s.tokens.size() - 1); n > most) best = &slot, most = n;
  }
  if (!best || !decoder_.copy(s.slot, best - slots_.data(), static_cast<int64_t>(s.fed), static_cast<int64_t>(most))) return;
  const size_t copied = most - s.fed;
  slots_[static_cast<size_t>(s.slot)].tokens.assign(s.tokens.begin(), s.tokens.begin() + static_cast<std::ptrdiff_t>(most));
  s.fed = most;
  s.cached += static_cast<int64_t>(copied);
  metrics_.cached_tokens += copied;
}

bool Engine::follows(const Sequence& s) const {
  if (s.left() <= kWorthCopy || s.task.embed || !decoder_.can_copy()) return false;
  for (const SequencePtr& other : running_) {
    if (other.get() == &s) return false;
    if (other->serial() != s.serial()) continue;
    const size_t n = std::min(alike(other->tokens, s.tokens), s.tokens.size() - 1);
    if (other->left() > 1 && !other->task.embed && n >= s.fed + kWorthCopy && n > other->fed) return true;
  }
  return false;
}

Engine::Batch Engine::choose() {
  std::vector<Sequence*> decoding, prompts;
  for (const SequencePtr& s : running_) {
    if (follows(*s)) continue;
    catch_up(*s);
    (s->left() == 1 && !s->task.embed ? decoding : prompts).push_back(s.get());
  }
  if (prompts.empty() || (!decoding.empty() && !decoded_)) {
    decoded_ = true;
    return {decoding, 1};
  }
  decoded_ = false;
  // The oldest prompt, and others beside it while a chunk has room for them and few of the run's tokens are padding.
  const bool limited = schedule_.prompt_tokens != 0 && !decoding.empty();
  const int64_t most = limited ? std::min(d_.chunk, schedule_.prompt_tokens) : d_.chunk;
  const auto piece = [&](const Sequence* s) { return std::min(s->left(), static_cast<size_t>(most)); };
  std::vector<Sequence*> batch{prompts.front()};
  size_t width = piece(batch[0]), useful = width;
  for (size_t i = 1; i < prompts.size(); ++i) {
    const size_t n = piece(prompts[i]), wide = std::max(width, n), area = wide * (batch.size() + 1);
    if (area > static_cast<size_t>(most) || 4 * (useful + n) < 3 * area) continue;
    batch.push_back(prompts[i]);
    width = wide, useful += n;
  }
  return {batch, most};
}

void Engine::run(const Batch& chosen) {
  const std::vector<Sequence*>& batch = chosen.sequences;
  std::vector<Row> rows;
  std::vector<std::pair<int64_t, int64_t>> wanted;
  for (Sequence* s : batch) {
    int64_t n = std::min(static_cast<int64_t>(s->left()), chosen.most);
    if (s->task.embed) n = std::min(n, decoder_.most_wanted() / static_cast<int64_t>(batch.size()));
    const auto row = static_cast<int64_t>(rows.size());
    rows.push_back({s->slot, static_cast<int64_t>(s->fed), s->tokens.data() + s->fed, n, s->task.adapter ? s->task.adapter->row : 0});
    if (s->task.embed)
      for (int64_t i = 0; i < n; ++i) wanted.emplace_back(row, i);
    else if (n == static_cast<int64_t>(s->left()))
      wanted.emplace_back(row, n - 1);
  }
  const bool none = wanted.empty();
  if (none) wanted.emplace_back(0, 0);  // the program gives one at least
  const aotc::host::Status status = decoder_.run(rows, wanted, batch[0]->task.traceparent);
  ++metrics_.runs;
  trimmed_ = false;
  if (!status) {
    // What a failed run left in the cache is not known: the other sequences are fed again from their first token.
    for (Sequence* s : batch) end(*s, Finish::failed, status.message);
    const bool reset = static_cast<bool>(decoder_.reset());
    for (Slot& slot : slots_) slot.tokens.clear();
    for (auto it = running_.begin(); it != running_.end();) {
      Sequence& s = **it++;
      s.fed = 0;
      s.sum.clear();
      if (!reset) end(s, Finish::failed, status.message);
    }
    return;
  }
  size_t at = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    Sequence& s = *batch[i];
    std::vector<int64_t>& holds = slots_[static_cast<size_t>(s.slot)].tokens;
    holds.insert(holds.end(), rows[i].tokens, rows[i].tokens + rows[i].count);
    s.fed += static_cast<size_t>(rows[i].count);
    if (s.task.embed) {
      s.sum.resize(static_cast<size_t>(d_.hidden));
      for (int64_t t = 0; t < rows[i].count; ++t, ++at)
        for (size_t k = 0; k < s.sum.size(); ++k) s.sum[k] += decoder_.hidden(at)[k];
      if (s.left() == 0) end(s, Finish::stop);
    } else if (s.left() == 0) {
      answer(s, decoder_.logits(at++));
    }
  }
  int64_t used = 0;
  for (const SequencePtr& s : running_) used += static_cast<int64_t>(s->fed);
  metrics_.cache_used = used;
}

void Engine::answer(Sequence& s, float* logits) {
  if (s.task.ignore_ends)
    for (const int64_t e : d_.ends) logits[e] = -HUGE_VALF;
  Constraint* const form = s.task.form.get();
  Choice choice = s.sampler.pick(logits, d_.vocabulary, form ? [&](float* l) { forbid(s, l); } : std::function<void(float*)>());
  if (choice.token < 0)
    return end(s, Finish::failed,
               form
                   ? "no token may come next: the logits are not finite, or the vocabulary has no token for what the answer's form asks for"
                   : "no token may come next: the logits are not finite");
  const Clock::time_point now = Clock::now();
  (s.made == 0 ? metrics_.first_token : metrics_.between_tokens).add(seconds(now - (s.made == 0 ? s.arrived : s.latest)));
  s.latest = now;
  ++s.made;
  ++metrics_.generated_tokens;
  if (std::find(d_.ends.begin(), d_.ends.end(), choice.token) != d_.ends.end()) return end(s, Finish::stop);
  s.tokens.push_back(choice.token);
  std::string text = s.out.put(tokenizer_.bytes(choice.token, s.task.begin));
  if (form) form->feed(s.place, tokenizer_.bytes(choice.token));
  Event event{s.number, std::move(choice), std::move(text)};
  s.channel->put(std::move(event));
  if (s.out.stopped() || (form && !form->goes_on(s.place))) return end(s, Finish::stop);
  if (s.made >= s.task.max_tokens || static_cast<int64_t>(s.tokens.size()) >= d_.cache) end(s, Finish::length);
}

void Engine::forbid(Sequence& s, float* logits) const {
  Constraint& form = *s.task.form;
  std::vector<std::pair<int64_t, float>> ends;
  if (form.accepts(s.place))
    for (const int64_t e : d_.ends) ends.emplace_back(e, logits[e]);
  const std::vector<uint64_t>& allowed = form.allowed(s.place);
  for (int64_t t = 0; t < d_.vocabulary; ++t)
    if (!(allowed[static_cast<size_t>(t) / 64] >> t % 64 & 1)) logits[t] = -HUGE_VALF;
  for (const auto& [e, logit] : ends) logits[e] = logit;
}

void Engine::end(Sequence& s, Finish finish, const std::string& error) {
  Event event{s.number, {-1}, s.out.stopped() ? std::string() : s.out.rest(), finish, error, s.cached, s.made};
  if (s.task.embed && finish == Finish::stop)
    for (const double x : s.sum) event.embedding.push_back(static_cast<float>(x / static_cast<double>(s.tokens.size())));
  if (finish == Finish::cancelled) ++metrics_.cancelled;
  if (finish == Finish::failed) ++metrics_.failed;
  s.channel->put(std::move(event));
  if (s.slot >= 0) {
    slots_[static_cast<size_t>(s.slot)].sequence = nullptr;
    slots_[static_cast<size_t>(s.slot)].used = ++clock_;
    running_.remove_if([&](const SequencePtr& p) { return p.get() == &s; });  // s is gone from here on
    metrics_.running = static_cast<int64_t>(running_.size());
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    --active_;
  }
  idle_.notify_all();
}

}  // namespace llm
