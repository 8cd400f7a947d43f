// A server's inner loop: client threads put single rows into a queue, workers take as many as are waiting and run them as one batch. One
// Model for all, one Context a worker; a Context is never used by two threads at once, so a run takes no lock. The batch is a dimension of
// the model's that takes any size in its range: nothing is padded.
//
//   c++ -std=c++17 -O2 -pthread -I include samples/cpp/serve.cpp -o serve -ldl
//   ./serve model.so [workers] [clients] [requests of each client]
//
// The model takes one float32 input [batch, n], batch symbolic, and gives float32 results [batch, ...]; the first is looked at. Every
// answer is compared with that of its row alone.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "aotc/aotc.hpp"

namespace {

using Row = std::vector<float>;

struct Request {
  Row input;
  std::promise<Row> answer;
};

/// Requests in order of arrival. take() waits for one, then has all that are there, up to `most`; nothing when the queue is closed.
class Queue {
 public:
  std::future<Row> put(Row input) {
    Request r{std::move(input), {}};
    std::future<Row> answer = r.answer.get_future();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      waiting_.push_back(std::move(r));
    }
    some_.notify_one();
    return answer;
  }
  std::vector<Request> take(size_t most) {
    std::unique_lock<std::mutex> lock(mutex_);
    some_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
    std::vector<Request> batch;
    for (; batch.size() < most && !waiting_.empty(); waiting_.pop_front()) batch.push_back(std::move(waiting_.front()));
    return batch;
  }
  void close() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closed_ = true;
    }
    some_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable some_;
  std::deque<Request> waiting_;
  bool closed_ = false;
};

/// A context and room for its largest batch: once a size has been seen, a run allocates nothing.
class Runner {
 public:
  Runner(const aotc::host::Model& model, int64_t width, int64_t most) : width_(width), x_(static_cast<size_t>(width * most)) {
    model.context(&context_).check();
    outputs_.resize(model.outputs().size());
  }

  /// The first output of x: rows of `width` floats each.
  std::vector<Row> run(const std::vector<const Row*>& rows) {
    const auto batch = static_cast<int64_t>(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) std::copy(rows[i]->begin(), rows[i]->end(), x_.begin() + static_cast<long>(i) * width_);
    const std::vector<int64_t> shape = {batch, width_};
    const std::vector<aotc_tensor> in = {aotc::host::tensor(x_.data(), shape)};
    context_.output_bounds(in, &shapes_).check();
    std::vector<aotc_tensor> out;
    for (size_t o = 0; o < outputs_.size(); ++o) {
      int64_t elems = 1;
      for (int64_t d : shapes_[o]) elems *= d;
      outputs_[o].resize(std::max(outputs_[o].size(), static_cast<size_t>(elems)));
      out.push_back(aotc::host::tensor(outputs_[o].data(), shapes_[o]));
    }
    context_.run(in, out).check();
    const long each = static_cast<long>(out[0].byte_size / sizeof(float)) / static_cast<long>(batch);
    std::vector<Row> answers;
    for (long i = 0; i < batch; ++i) answers.emplace_back(outputs_[0].begin() + i * each, outputs_[0].begin() + (i + 1) * each);
    return answers;
  }

 private:
  int64_t width_;
  aotc::host::Context context_;
  Row x_;
  std::vector<Row> outputs_;
  std::vector<std::vector<int64_t>> shapes_;
};

/// Answers until the queue is closed and empty; counts how often each batch size was run.
void work(Runner& runner, size_t most, Queue& queue, std::map<size_t, int>& sizes) {
  for (std::vector<Request> batch = queue.take(most); !batch.empty(); batch = queue.take(most)) {
    ++sizes[batch.size()];
    try {
      std::vector<const Row*> rows;
      for (const Request& r : batch) rows.push_back(&r.input);
      std::vector<Row> answers = runner.run(rows);
      for (size_t i = 0; i < batch.size(); ++i) batch[i].answer.set_value(std::move(answers[i]));
    } catch (...) {  // the run's failure is the answer of all of its requests
      for (Request& r : batch) r.answer.set_exception(std::current_exception());
    }
  }
}

Row row_of(int client, int number, int64_t width) {
  Row row(static_cast<size_t>(width));
  for (size_t i = 0; i < row.size(); ++i)
    row[i] = static_cast<float>((i * 37 + static_cast<size_t>(client * 101 + number * 13)) % 97) / 48 - 1;
  return row;
}

bool close_to(const Row& a, const Row& b) {
  double difference = 0, size = 0;
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) difference += std::pow(a[i] - b[i], 2), size += std::pow(b[i], 2);
  return difference <= 1e-10 * size;
}

int serve(const std::string& path, int workers, int clients, int requests) {
  aotc::host::Model model;
  aotc::host::Model::load(path, &model).check();
  const std::vector<aotc::host::TensorInfo> inputs = model.inputs(), outputs = model.outputs();
  if (inputs.size() != 1 || inputs[0].dtype != AOTC_DTYPE_F32 || inputs[0].dims.size() != 2 || !inputs[0].dims[0].symbol ||
      inputs[0].dims[1].symbol)
    throw std::runtime_error(path + ": expected one float32 input [batch, n] with a symbolic batch");
  for (const aotc::host::TensorInfo& o : outputs)
    if (o.dtype != AOTC_DTYPE_F32) throw std::runtime_error(path + ": expected float32 results");
  const int64_t width = inputs[0].dims[1].value;
  const auto most = static_cast<size_t>(std::min<int64_t>(inputs[0].dims[0].max, 32));

  Queue queue;
  std::vector<Runner> runners;
  for (int w = 0; w < workers; ++w) runners.emplace_back(model, width, static_cast<int64_t>(most));
  std::vector<std::map<size_t, int>> sizes(static_cast<size_t>(workers));
  std::vector<std::thread> pool, senders;
  std::vector<std::vector<Row>> answers(static_cast<size_t>(clients));
  const auto start = std::chrono::steady_clock::now();
  for (size_t w = 0; w < runners.size(); ++w) pool.emplace_back(work, std::ref(runners[w]), most, std::ref(queue), std::ref(sizes[w]));
  for (int c = 0; c < clients; ++c)
    senders.emplace_back([&, c] {
      std::vector<std::future<Row>> futures;
      for (int r = 0; r < requests; ++r) futures.push_back(queue.put(row_of(c, r, width)));
      for (auto& f : futures) try {
          answers[static_cast<size_t>(c)].push_back(f.get());
        } catch (const std::exception& e) {
          std::fprintf(stderr, "client %d: %s\n", c, e.what());
          answers[static_cast<size_t>(c)].emplace_back();
        }
    });
  for (std::thread& t : senders) t.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  queue.close();
  for (std::thread& t : pool) t.join();

  std::map<size_t, int> all;
  for (const auto& of_one : sizes)
    for (const auto& [size, times] : of_one) all[size] += times;
  int runs = 0, wrong = 0;
  for (const auto& [size, times] : all) runs += times;
  Runner alone(model, width, 1);
  for (int c = 0; c < clients; ++c)
    for (int r = 0; r < requests; ++r) {
      const Row row = row_of(c, r, width);
      wrong += !close_to(answers[static_cast<size_t>(c)][static_cast<size_t>(r)], alone.run({&row})[0]);
    }
  std::printf(
      "%d requests in %d runs (batches of %zu to %zu), %d workers: %.0f requests/s, %d answers differ from those of their row alone\n",
      clients * requests, runs, all.begin()->first, all.rbegin()->first, workers, clients * requests / seconds, wrong);
  return wrong ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int at, int otherwise) { return argc > at ? std::max(1, std::atoi(argv[at])) : otherwise; };
  if (argc < 2) {
    std::fprintf(stderr, "usage: serve model.so [workers] [clients] [requests of each client]\n");
    return 2;
  }
  try {
    return serve(argv[1], number(2, 2), number(3, 4), number(4, 250));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "serve: %s\n", e.what());
    return 1;
  }
}
