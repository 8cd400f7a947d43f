#pragma once
// Continuous batching: sequences enter and leave the artifact's slots between runs. One thread runs the artifact; decode steps of all
// sequences alternate with chunks of new prompts. A slot remembers what it was fed, so a prompt that begins alike starts behind that, in
// this slot where it is free, else in another after a copy. Of prompts that begin alike and come at once the first alone is fed that far.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "../tokenizer/tokenizer.h"
#include "decoder.h"
#include "grammar.h"
#include "metrics.h"
#include "sampler.h"
#include "text.h"

namespace llm {

using Clock = std::chrono::steady_clock;

enum class Finish { none, stop, length, cancelled, failed };

/// One token of a sequence, or (finish) its end.
struct Event {
  size_t sequence;  ///< its number in the request
  Choice choice;    ///< token -1: none
  std::string text;
  Finish finish = Finish::none;
  std::string error;             ///< of Finish::failed
  int64_t cached = 0, made = 0;  ///< at the end: tokens of the prompt from the cache, tokens generated
  std::vector<float> embedding;  ///< at the end of an embedding: the mean over the tokens
};

/// Where a request's events arrive; the client may close it at any time.
class Channel {
 public:
  void put(Event event);
  /// Waits for events; empty after the time.
  std::deque<Event> take(std::chrono::milliseconds most);
  void close() { closed_ = true; }
  bool closed() const { return closed_; }

 private:
  std::mutex mutex_;
  std::condition_variable some_;
  std::deque<Event> events_;
  std::atomic<bool> closed_{false};
};

struct Task {
  std::vector<int64_t> prompt;
  int64_t max_tokens = 0;
  Sampling sampling;
  std::vector<std::string> stops;
  bool ignore_ends = false;
  bool embed = false;
  tok::Decoder::Begin begin;         ///< whether the answer is a text of its own, or goes on with the prompt's
  AdapterPtr adapter;                ///< or null: the model by itself
  std::shared_ptr<Constraint> form;  ///< of the answer, or null. The engine's thread alone uses it
  std::string traceparent;           ///< the request's header: a run has that of its first sequence
};

struct Schedule {
  size_t queue = 0;                    ///< sequences that may wait for a slot
  int64_t prompt_tokens = 0;           ///< of a run while answers are under way, which wait for it; 0: as many as the program takes
  std::chrono::seconds trim_after{0};  ///< so long after the latest run the memory of the weights is given back; 0: never
};

class Engine {
 public:
  /// The engine borrows its decoder, description, metrics and tokenizer.
  Engine(Decoder& decoder, const Description& description, Metrics& metrics, const tok::Tokenizer& tokenizer, const Schedule& schedule);
  ~Engine();

  /// All of a request's sequences, or none where the queue has no room for them; then false.
  bool submit(std::vector<Task> tasks, const std::shared_ptr<Channel>& channel);
  /// Waits until no sequence is left; what is left after this time is cancelled.
  void drain(std::chrono::milliseconds most);
  /// Calls f between two runs, on the thread that runs the artifact, and waits for it. What f throws is thrown here.
  void between_runs(const std::function<void()>& f);

 private:
  struct Sequence {
    Sequence(Task t, size_t n, std::shared_ptr<Channel> to)
        : task(std::move(t)),
          number(n),
          channel(std::move(to)),
          sampler(task.sampling, task.prompt),
          out(task.stops),
          tokens(task.prompt) {}

    Task task;
    size_t number;
    std::shared_ptr<Channel> channel;
    Sampler sampler;
    TextOut out;
    std::vector<int64_t> tokens;  ///< of the prompt and the answer
    size_t fed = 0;               ///< how many of them the slot holds
    int64_t slot = -1, cached = 0, made = 0;
    std::vector<double> sum;  ///< of embeddings
    Constraint::Place place;  ///< in the text of task.form
    Clock::time_point arrived = Clock::now(), latest = arrived;

    uint64_t serial() const { return task.adapter ? task.adapter->serial : 0; }
    size_t left() const { return tokens.size() - fed; }
  };
  using SequencePtr = std::unique_ptr<Sequence>;
  struct Slot {
    std::vector<int64_t> tokens;  ///< what its cache holds
    uint64_t serial = 0;          ///< of the adapter that it was computed with
    Sequence* sequence = nullptr;
    uint64_t used = 0;
  };

  void loop();
  void drop_closed();
  void admit();
  /// Takes what other slots hold of the sequence's tokens into its own.
  void catch_up(Sequence& s);
  /// Another prompt that is being fed, and was before this one, will have more of it.
  bool follows(const Sequence& s) const;
  struct Batch {
    std::vector<Sequence*> sequences;
    int64_t most;  ///< tokens of one sequence
  };
  /// The sequences of the next run: all that decode, or a chunk of prompts. Empty: nothing to do.
  Batch choose();
  void run(const Batch& batch);
  void answer(Sequence& s, float* logits);
  /// Tokens that the answer's form does not let come are impossible.
  void forbid(Sequence& s, float* logits) const;
  void end(Sequence& s, Finish finish, const std::string& error = {});

  Decoder& decoder_;
  const Description& d_;
  Metrics& metrics_;
  const tok::Tokenizer& tokenizer_;
  const Schedule schedule_;
  std::vector<Slot> slots_;
  std::list<SequencePtr> running_;
  uint64_t clock_ = 0;
  bool decoded_ = false;  ///< the latest run was a decode step
  bool trimmed_ = false;  ///< no run came after the latest trim

  std::mutex mutex_;
  std::condition_variable work_, idle_;
  std::deque<SequencePtr> waiting_;  ///< under mutex_, as all below
  std::deque<std::packaged_task<void()>> calls_;
  size_t active_ = 0;  ///< sequences that are not ended
  bool stop_ = false, cancel_ = false;
  std::thread thread_;
};

}  // namespace llm
