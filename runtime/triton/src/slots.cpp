#include "slots.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "instance.h"

namespace aotc::triton {
namespace {

constexpr const char* kRoles[] = {"tokens", "slot", "position", "length", "span", "last"};
constexpr const char* kNames[] = {"input_ids", "slots", "positions", "lengths", "span", "wanted"};  // where the config names none

}  // namespace

bool find_slots(const Program& p, const Settings& settings, Slots* out, std::string* why_not) {
  size_t* const places[] = {&out->tokens, &out->slot, &out->position, &out->length, &out->span, &out->last};
  why_not->clear();
  for (const auto& [role, input] : settings.slots)
    if (std::none_of(std::begin(kRoles), std::end(kRoles), [&, r = role](const char* known) { return r == known; }))
      return *why_not = "parameter 'slots' has '" + role + "': expected tokens, slot, position, length, span, last", false;
  std::vector<bool> taken(p.inputs.size());
  for (size_t r = 0; r < std::size(kRoles); ++r) {
    std::string name = kNames[r];
    for (const auto& [role, input] : settings.slots)
      if (role == kRoles[r]) name = input;
    const Tensor* t = p.input(name);
    if (!t) return *why_not = "there is no input '" + name + "' (" + kRoles[r] + ")", false;
    const size_t rank = r == 0 ? 2 : 1;
    const auto from_one = [](const Dim& d) { return d.value < 0 && d.min <= 1; };
    if (t->dtype != AOTC_DTYPE_I64 || t->dims.size() != rank || !std::all_of(t->dims.begin(), t->dims.end(), from_one))
      return *why_not = "input '" + name + "' (" + kRoles[r] + ") is " + t->describe() + ": expected INT64 of " + std::to_string(rank) +
                        " dims with sizes from 1",
             false;
    *places[r] = static_cast<size_t>(t - p.inputs.data());
    taken[*places[r]] = true;
  }
  const Tensor& tokens = p.inputs[out->tokens];
  const std::string &rows = tokens.dims[0].symbol, &answers = p.inputs[out->last].dims[0].symbol;
  for (const size_t* i : {&out->slot, &out->position, &out->length})
    if (p.inputs[*i].dims[0].symbol != rows)
      return *why_not = "input '" + p.inputs[*i].name + "' has not the rows of '" + tokens.name + "'", false;
  out->per_row.clear();
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    if (taken[i]) continue;
    const Tensor& t = p.inputs[i];
    if (t.dims.empty() || t.dims[0].symbol != rows)
      return *why_not = "input '" + t.name + "' has not the rows of '" + tokens.name + "'", false;
    out->per_row.push_back(i);
  }
  for (const Tensor& t : p.outputs)
    if (t.found || t.dims.empty() || t.dims[0].symbol != answers)
      return *why_not = "output '" + t.name + "' has not the first dim of input '" + p.inputs[out->last].name + "'", false;
  out->rows = std::min(tokens.dims[0].max, p.inputs[out->last].dims[0].max);
  out->length_max = tokens.dims[1].max;
  out->context_max = p.inputs[out->span].dims[0].max;
  // samples/llm gives logits first.
  const Tensor* logits = settings.slots.empty() && !p.outputs.empty() && p.outputs[0].dims.size() == 2 ? &p.outputs[0] : nullptr;
  out->vocabulary = settings.vocabulary ? settings.vocabulary : logits ? std::max<int64_t>(logits->dims[1].value, 0) : 0;
  if (out->context_max == INT64_MAX || out->rows == INT64_MAX) return *why_not = "rows or positions have no bound", false;
  return true;
}

Program request_of(const Program& program, const Slots& slots) {
  Program out = program;
  out.inputs = {program.inputs[slots.tokens]};
  out.inputs[0].dims[1].max = slots.context_max;
  for (size_t i : slots.per_row) out.inputs.push_back(program.inputs[i]);
  for (Tensor& t : out.outputs) t.dims[0] = out.inputs[0].dims[0];  // an answer a row
  return out;
}

// Runs of many sequences. What a run of some rows feeds it writes at their positions, so one that failed may be made again.

void Instance::serve_slots(const std::vector<Job*>& jobs, uint64_t start) {
  std::vector<Fed> waiting;
  for (Job* job : jobs) {
    const int64_t count = job->inputs[0].shape[1];
    Sequence* sequence = nullptr;
    if (job->rows() != 1) {
      job->status = invalid("a request is one sequence's, and this one has " + std::to_string(job->rows()) + " rows");
    } else {
      job->status = sequence_of(*job, &sequence);
    }
    if (job->status && sequence->fed + count > slots_.context_max)
      job->status = invalid("sequence " + job->sequence() + " has " + std::to_string(sequence->fed) + " positions, and " +
                            std::to_string(count) + " more are beyond its " + std::to_string(slots_.context_max));
    Fed fed{job, sequence, {}, 0, false};
    if (job->status) job->status = tokens_of(*job, &fed.tokens);
    for (size_t i = 0; job->status && slots_.vocabulary && i < fed.tokens.size(); ++i)
      if (fed.tokens[i] < 0 || fed.tokens[i] >= slots_.vocabulary)
        job->status = invalid("input '" + asked_.inputs[0].name + "' has index " + std::to_string(fed.tokens[i]) + " at place " +
                              std::to_string(i) + ": expected 0 to " + std::to_string(slots_.vocabulary - 1));
    if (job->status) {
      waiting.push_back(std::move(fed));
    } else {
      end_sequence(*job);
      job->finish(start, start, start);
    }
  }
  const auto piece = [&](const Fed& f) { return std::min<int64_t>(static_cast<int64_t>(f.tokens.size()) - f.done, slots_.length_max); };
  while (!waiting.empty()) {
    // A run is not ended for one of its rows; those whose time has passed have no part in the next one.
    for (Fed& f : waiting) {
      const uint64_t timeout = f.job->timeout_us();
      if (f.sequence->lost) {
        f.job->status = lost_slot(*f.job);
      } else if (f.job->cancelled()) {
        f.job->status = {false, TRITONSERVER_ERROR_CANCELLED, "cancelled after " + std::to_string(f.done) + " tokens"};
      } else if (timeout && now_ns() - start > timeout * 1000) {
        f.job->status = unavailable("the request's timeout of " + std::to_string(timeout) + " us has passed after " +
                                    std::to_string(f.done) + " tokens");
      }
      if (f.job->status) continue;
      f.sequence->fed -= f.done;
      end_sequence(*f.job);
      f.job->finish(start, start, start);
      f.job = nullptr;
    }
    waiting.erase(std::remove_if(waiting.begin(), waiting.end(), [](const Fed& f) { return !f.job; }), waiting.end());
    if (waiting.empty()) return;
    // The shortest first, and with them what is longer as long as at least half of what the run computes is somebody's.
    std::stable_sort(waiting.begin(), waiting.end(), [&](const Fed& a, const Fed& b) { return piece(a) < piece(b); });
    std::vector<Fed*> group;
    int64_t sum = 0;
    for (Fed& f : waiting) {
      const auto rows = static_cast<int64_t>(group.size()) + 1;
      if (rows > slots_.rows || (rows > 1 && rows * piece(f) > 2 * (sum + piece(f)))) break;
      if (std::any_of(group.begin(), group.end(), [&](const Fed* g) { return g->sequence == f.sequence; })) continue;
      group.push_back(&f);
      sum += piece(f);
    }
    serve_rows(group, start);
    waiting.erase(std::remove_if(waiting.begin(), waiting.end(), [](const Fed& f) { return !f.job; }), waiting.end());
  }
}

Status Instance::lost_slot(const Job& job) const {
  return unavailable("sequence " + job.sequence() + " has lost its state, since a run failed on the way: start it again");
}

/// All that slots hold is undefined after some failures.
Status Instance::empty_slots() {
  for (Sequence& s : sequences_) s.lost |= s.fed > 0;
  return of_aotc(context_.reset_states(), "");
}

Status Instance::tokens_of(const Job& job, std::vector<int64_t>* out) {
  const Job::Input& input = job.inputs[0];
  out->resize(input.bytes / sizeof(int64_t));
  const Place to{out->data(), input.bytes, TRITONSERVER_MEMORY_CPU, 0};
  uint64_t at = 0;
  for (const Place& p : input.pieces) {
    if (Status s = copy(cuda_.get(), to, at, p, 0, p.bytes); !s) return s;
    at += p.bytes;
  }
  return cuda_ ? wait() : Status{};
}

void Instance::serve_rows(const std::vector<Fed*>& group, uint64_t start) {
  const auto rows = static_cast<int64_t>(group.size());
  std::vector<std::vector<int64_t>> values(program_.inputs.size());
  std::vector<Job*> jobs;
  int64_t longest = 0, context = 0;
  for (const Fed* f : group) {
    const int64_t count = std::min<int64_t>(static_cast<int64_t>(f->tokens.size()) - f->done, slots_.length_max);
    values[slots_.slot].push_back(f->sequence->slot);
    values[slots_.position].push_back(f->sequence->fed);
    values[slots_.length].push_back(count);
    longest = std::max(longest, count);
    context = std::max(context, f->sequence->fed + count);
    jobs.push_back(f->job);
  }
  values[slots_.span].resize(static_cast<size_t>(context));
  std::iota(values[slots_.span].begin(), values[slots_.span].end(), 0);
  std::vector<int64_t>& tokens = values[slots_.tokens];
  tokens.assign(static_cast<size_t>(rows * longest), 0);
  for (size_t r = 0; r < group.size(); ++r) {
    const int64_t count = values[slots_.length][r];
    std::copy_n(group[r]->tokens.begin() + group[r]->done, count, tokens.begin() + static_cast<int64_t>(r) * longest);
    values[slots_.last].push_back(static_cast<int64_t>(r) * longest + count - 1);
    jobs[r]->answered = group[r]->done + count == static_cast<int64_t>(group[r]->tokens.size());
  }
  Tensors in, out;
  std::vector<bool> scattered;
  uint64_t compute_start = now_ns(), compute_end = compute_start;
  const auto all = [&]() -> Status {
    Tensors given;
    if (Status s = gather(jobs, 1, &given); !s) return s;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (const auto own = std::find(slots_.per_row.begin(), slots_.per_row.end(), i); own != slots_.per_row.end()) {
        const auto at = static_cast<size_t>(own - slots_.per_row.begin());
        in.views.push_back(given.views[at]);
        in.shapes.push_back(given.shapes[at]);
        continue;
      }
      const auto n = static_cast<int64_t>(values[i].size());
      const Place place{values[i].data(), values[i].size() * sizeof(int64_t), TRITONSERVER_MEMORY_CPU, 0};
      in.add(program_.inputs[i], place, place.bytes, i == slots_.tokens ? std::vector<int64_t>{rows, longest} : std::vector<int64_t>{n});
    }
    in.bind();
    if (Status s = make_room(context_, program_, in, nullptr, &out, &scattered); !s) return s;
    compute_start = now_ns();
    if (Status s = run(context_, program_, jobs, start, in, out); !s) return s;
    compute_end = now_ns();
    return scatter(context_, program_, jobs, out, scattered);
  };
  const Status status = all();
  if (!status && undefined_) {
    undefined_ = false;
    const bool first = std::none_of(group.begin(), group.end(), [](const Fed* f) { return f->again; });
    for (Fed* f : group) f->again = true;
    if (first && empty_slots()) return;  // by an earlier run; who has fed nothing yet is run again
  }
  if (!status && status.code == TRITONSERVER_ERROR_INVALID_ARG && rows > 1) {  // the fault of one of them: the others are answered
    for (Fed* f : group)
      if (!f->sequence->lost) serve_rows({f}, start);
    return;
  }
  for (size_t r = 0; r < group.size(); ++r) {
    Fed& f = *group[r];
    const int64_t count = values[slots_.length][r];
    f.sequence->fed += status ? count : -f.done;  // a request that fails leaves its sequence where it was
    f.done += count;
    if (f.job->status) f.job->status = status;
    if (f.job->status && !f.job->answered) continue;
    end_sequence(*f.job);
    if (f.job->status) f.job->status = f.job->send(true);
    f.job->finish(start, compute_start, std::max(compute_start, compute_end));
    f.job = nullptr;
  }
  if (status)
    log_failure(
        TRITONBACKEND_ModelInstanceReportBatchStatistics(handle_, static_cast<uint64_t>(rows), start, compute_start, compute_end, now_ns()),
        "statistics cannot be reported");
}

}  // namespace aotc::triton
