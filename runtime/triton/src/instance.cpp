#include "instance.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace aotc::triton {
namespace {

constexpr uint64_t kWorthwhile = 200000;  // ns of a run that is divided: waking a thread and waiting for it costs tens of thousands

/// GPUs that are lost to this process, a bit each by their number.
std::atomic<uint64_t> lost_gpus{0};
uint64_t bit_of(const Cuda& gpu) { return uint64_t{1} << gpu.device() % 64; }

int32_t cpus() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// A tensor of the shape `actual` whose elements lie where they would in one of the shape `whole`, to dense rows.
Status pack(Cuda* cuda, const Place& to, const Place& from, const std::vector<int64_t>& whole, const std::vector<int64_t>& actual,
            uint64_t element) {
  size_t k = 0;  // dims behind k are whole
  for (size_t d = 0; d < whole.size(); ++d)
    if (whole[d] != actual[d]) k = d;
  uint64_t chunk = element, stride = element, chunks = 1;
  for (size_t d = k; d < whole.size(); ++d) {
    chunk *= static_cast<uint64_t>(actual[d]);
    stride *= static_cast<uint64_t>(whole[d]);
  }
  for (size_t d = 0; d < k; ++d) chunks *= static_cast<uint64_t>(actual[d]);
  for (uint64_t i = 0; i < chunks; ++i) {
    uint64_t rest = i, at = 0, step = 1;
    for (size_t d = k; d-- > 0;) {
      at += rest % static_cast<uint64_t>(actual[d]) * step;
      rest /= static_cast<uint64_t>(actual[d]);
      step *= static_cast<uint64_t>(whole[d]);
    }
    if (Status s = copy(cuda, to, i * chunk, from, at * stride, chunk); !s) return s;
  }
  return {};
}

}  // namespace

void Instance::Tensors::add(const Tensor& t, const Place& place, uint64_t bytes, std::vector<int64_t> shape) {
  aotc_tensor view = aotc_host_tensor(place.data, nullptr, static_cast<int32_t>(shape.size()), t.dtype, bytes);
  if (place.on_gpu()) view.device = static_cast<int32_t>(place.id);
  views.push_back(view);
  shapes.push_back(std::move(shape));
}
void Instance::Tensors::bind() {
  for (size_t i = 0; i < views.size(); ++i) views[i].shape = shapes[i].data();
}

Status Instance::make(TRITONBACKEND_ModelInstance* handle, const ServedModel& model, std::unique_ptr<Instance>* out) {
  std::unique_ptr<Instance> made(new Instance(model));
  if (Status s = made->open(handle); !s) return s;
  *out = std::move(made);
  return {};
}

Status Instance::open(TRITONBACKEND_ModelInstance* handle) {
  handle_ = handle;
  const Settings& settings = model_.settings;
  TRITONSERVER_InstanceGroupKind kind = TRITONSERVER_INSTANCEGROUPKIND_CPU;
  int32_t id = 0;
  if (Status s = of_triton(TRITONBACKEND_ModelInstanceKind(handle, &kind)); !s) return s;
  if (Status s = of_triton(TRITONBACKEND_ModelInstanceDeviceId(handle, &id)); !s) return s;
  int32_t device = kind == TRITONSERVER_INSTANCEGROUPKIND_GPU   ? id
                   : kind == TRITONSERVER_INSTANCEGROUPKIND_CPU ? AOTC_DEVICE_HOST
                                                                : AOTC_DEVICE_DEFAULT;
  if (settings.device_given) {
    device = settings.device;
  } else if (device >= 0) {  // the server gives every model instances on GPUs where there are some
    const aotc_api& api = *model_.artifact->model.api();
    if (api.probe(device) != AOTC_STATUS_OK) {
      const std::string why = api.last_error();
      if (api.probe(AOTC_DEVICE_HOST) == AOTC_STATUS_OK) {
        log(TRITONSERVER_LOG_WARN, model_.name + ": an instance is on the CPU instead of GPU " + std::to_string(device) + ": " + why);
        device = AOTC_DEVICE_HOST;
      }
    }
  }
  if (Status s = model_.artifacts->open(model_.path, device, settings, &artifact_); !s) return s;
  if (Status s = artifact_->program(service_.program.name, &program_); !s) return s;
  if (Status s = artifact_->program(service_.next.name, &next_); !s) return s;
  slots_ = service_.slots;
  asked_ = service_.states == States::slots ? request_of(program_, slots_) : program_;
  if (artifact_->device >= 0)
    if (Status s = Cuda::open(artifact_->device, &cuda_); !s) return s;
  const int32_t share = std::max(1, cpus() / service_.instances);
  threads_ = settings.threads ? settings.threads : service_.instances == 1 ? -1 : share;
  for (size_t i = 0; i < std::max(program_.inputs.size(), next_.inputs.size()); ++i) in_.emplace_back(model_.manager);
  for (size_t i = 0; i < std::max(program_.outputs.size(), next_.outputs.size()); ++i) out_.emplace_back(model_.manager);
  for (size_t i = 0; i < settings.feedback.size(); ++i) fed_.emplace_back(model_.manager);
  if (service_.states == States::sequence) return {};
  if (Status s = new_context(&context_); !s) return s;
  helps_ = !cuda_ && service_.max_batch > 1 && service_.instances > 1 && settings.spread != Spread::off;
  if (helps_) model_.crew.join(this);
  return {};
}

Instance::~Instance() {
  if (helps_) model_.crew.leave(this);
}

Status Instance::new_context(aotc::host::Context* out) const {
  aotc::host::ContextOptions options;
  options.threads = threads_;
  options.flags = model_.settings.context_flags;
  if (cuda_) options.stream = cuda_->stream();
  return of_aotc(artifact_->model.context(out, options), "a context cannot be made");
}

Status Instance::ready() const {
  if (!cuda_ || !(lost_gpus & bit_of(*cuda_))) return {};
  return unavailable("the GPU is lost to this process: only a new process of the server can use it again");
}

Status Instance::context_for(const Job& job, aotc::host::Context** out) {
  *out = &context_;
  if (service_.states == States::request) return of_aotc(context_.reset_states(), "");
  if (service_.states != States::sequence) return {};
  Sequence* sequence = nullptr;
  if (Status s = sequence_of(job, &sequence); !s) return s;
  *out = &sequence->context;
  return job.begins_sequence() ? of_aotc(sequence->context.reset_states(), "") : Status{};
}

Status Instance::sequence_of(const Job& job, Sequence** out) {
  const bool in_slots = service_.states == States::slots;
  const std::string id = job.sequence();
  auto found = std::find_if(sequences_.begin(), sequences_.end(), [&](const Sequence& s) { return s.id == id; });
  if (found == sequences_.end()) {
    if (!job.begins_sequence()) return invalid("sequence " + id + " has no state here: its first request must have the flag of a start");
    if (sequences_.size() >= static_cast<size_t>(in_slots ? slots_.rows : model_.settings.sequences)) {
      found = sequences_.begin();  // the server has given it up
    } else if (!sequences_.empty() && sequences_.front().id.empty()) {
      found = sequences_.begin();  // it has ended
    } else {
      Sequence made;
      made.slot = static_cast<int64_t>(sequences_.size());
      if (!in_slots)
        if (Status s = new_context(&made.context); !s) return s;
      found = sequences_.insert(sequences_.end(), std::move(made));
    }
  }
  sequences_.splice(sequences_.end(), sequences_, found);
  *out = &*found;
  found->id = id;
  if (job.begins_sequence()) found->fed = 0, found->lost = false;
  if (found->lost) return lost_slot(job);
  return {};
}

void Instance::end_sequence(const Job& job) {
  if ((service_.states != States::sequence && service_.states != States::slots) || !job.ends_sequence()) return;
  const std::string id = job.sequence();
  const auto found = std::find_if(sequences_.begin(), sequences_.end(), [&](const Sequence& s) { return s.id == id; });
  if (found == sequences_.end()) return;
  found->id.clear();
  sequences_.splice(sequences_.begin(), sequences_, found);
}

void Instance::execute(TRITONBACKEND_Request** requests, uint32_t n) {
  const uint64_t start = now_ns();
  std::vector<Job> jobs(n);  // the last that may throw before a request is taken
  for (uint32_t i = 0; i < n; ++i) jobs[i].take(requests[i], handle_);
  try {
    for (Job& job : jobs)
      job.open(asked_, batched_, !model_.settings.feedback.empty(), cuda_ ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU,
               cuda_ ? cuda_->device() : 0);
    serve(jobs, start);
  } catch (const std::exception& e) {
    for (Job& job : jobs)
      if (job.status) job.status = internal(e.what());
  }
  for (Job& job : jobs) job.finish(start, start, start);
}

void Instance::serve(std::vector<Job>& jobs, uint64_t start) {
  if (const Status s = ready(); !s) {
    for (Job& job : jobs)
      if (job.status) job.status = s;
    return;
  }
  std::vector<Job*> left;
  for (Job& job : jobs) {
    if (!job.status) continue;
    if (!model_.settings.feedback.empty()) {
      serve_steps(job, start);
    } else if (service_.states == States::slots) {
      left.push_back(&job);
    } else if (!batched_) {
      serve_group({&job}, start);
    } else {
      left.push_back(&job);
    }
  }
  if (service_.states == States::slots) return serve_slots(left, start);
  // Requests of one shape beside their rows are a batch.
  const auto alike = [](const Job& a, const Job& b) {
    for (size_t i = 0; i < a.inputs.size(); ++i)
      if (!std::equal(a.inputs[i].shape.begin() + 1, a.inputs[i].shape.end(), b.inputs[i].shape.begin() + 1, b.inputs[i].shape.end()))
        return false;
    return true;
  };
  while (!left.empty()) {
    std::vector<Job*> group, others;
    int64_t rows = 0;
    for (Job* job : left) {
      const bool joins = group.empty() || (alike(*group[0], *job) && rows + job->rows() <= service_.max_batch);
      (joins ? group : others).push_back(job);
      if (joins) rows += job->rows();
    }
    helps_ ? spread(group, start) : serve_group(group, start);
    left.swap(others);
  }
}

void Instance::spread(const std::vector<Job*>& group, uint64_t start) {
  struct Part {
    Instance* by;
    std::vector<Job*> jobs;
  };
  Crew& crew = model_.crew;
  const bool worthwhile = model_.settings.spread == Spread::always || model_.last_run_ns.load(std::memory_order_relaxed) >= kWorthwhile;
  std::vector<Part> parts;
  parts.reserve(group.size());
  parts.push_back({crew.take(this), {}});
  try {
    if (group.size() > 1 && worthwhile)
      for (Instance* other : crew.take_idle(group.size() - 1)) parts.push_back({other, {}});
    for (size_t p = 0; p < parts.size(); ++p)
      parts[p].jobs.assign(group.begin() + static_cast<long>(group.size() * p / parts.size()),
                           group.begin() + static_cast<long>(group.size() * (p + 1) / parts.size()));
  } catch (...) {
    for (const Part& part : parts) crew.give_back(part.by);
    throw;
  }
  Latch latch(parts.size());
  const auto serve = [&](Part& part) {
    try {
      part.by->serve_group(part.jobs, start);
    } catch (const std::exception& e) {
      for (Job* job : part.jobs)
        if (job->status) job->status = internal(e.what());
    }
    crew.give_back(part.by);
    latch.done();
  };
  for (size_t p = 1; p < parts.size(); ++p)
    if (!parts[p].by->helper_.begin([&serve, &part = parts[p]] { serve(part); })) serve(parts[p]);
  serve(parts[0]);
  latch.wait();
}

void Instance::serve_group(const std::vector<Job*>& group, uint64_t start) {
  aotc::host::Context* context = nullptr;
  Tensors in, out;
  std::vector<bool> scattered;
  int64_t rows = 0;
  for (const Job* job : group) rows += batched_ ? job->rows() : 1;
  uint64_t compute_start = now_ns(), compute_end = compute_start;
  const auto all = [&]() -> Status {
    if (Status s = context_for(*group[0], &context); !s) return s;
    if (Status s = gather(group, 0, &in); !s) return s;
    if (Status s = make_room(*context, program_, in, group.size() == 1 ? group[0] : nullptr, &out, &scattered); !s) return s;
    compute_start = now_ns();
    if (Status s = run(*context, program_, group, start, in, out); !s) return s;
    compute_end = now_ns();
    model_.last_run_ns.store(compute_end - compute_start, std::memory_order_relaxed);
    return scatter(*context, program_, group, out, scattered);
  };
  const Status status = all();
  if (!status && status.code == TRITONSERVER_ERROR_INVALID_ARG && group.size() > 1) {  // the fault of one of them: the others are answered
    for (Job* job : group) serve_group({job}, start);
    return;
  }
  for (Job* job : group) {
    if (job->status) job->status = status;
    end_sequence(*job);
    if (job->status) job->status = job->send(true);
    job->finish(start, compute_start, std::max(compute_start, compute_end));
  }
  if (status)
    log_failure(
        TRITONBACKEND_ModelInstanceReportBatchStatistics(handle_, static_cast<uint64_t>(rows), start, compute_start, compute_end, now_ns()),
        "statistics cannot be reported");
}

void Instance::serve_steps(Job& job, uint64_t start) {
  const Settings& settings = model_.settings;
  const uint64_t timeout = job.timeout_us();
  const int64_t steps = std::min(job.parameter("max_steps", settings.max_steps), settings.max_steps);
  aotc::host::Context* context = nullptr;
  Tensors first, fed, out;
  std::vector<bool> scattered;
  uint64_t compute_start = now_ns();
  const auto all = [&]() -> Status {
    if (steps < 1) return invalid("the request's parameter 'max_steps' is " + std::to_string(steps) + ": expected a number from 1");
    if (Status s = context_for(job, &context); !s) return s;
    if (Status s = gather({&job}, 0, &first); !s) return s;
    for (int64_t step = 0; step < steps; ++step) {
      const Program& program = step == 0 ? program_ : next_;
      if (step > 0 && job.cancelled())
        return {false, TRITONSERVER_ERROR_CANCELLED, "cancelled after " + std::to_string(step) + " responses"};
      if (timeout && now_ns() - start > timeout * 1000)
        return unavailable("the request's timeout of " + std::to_string(timeout) + " us has passed after " + std::to_string(step) +
                           " responses");
      Tensors in;
      if (step == 0) {
        in = first;
      } else {
        for (const Tensor& t : program.inputs) {
          const auto f =
              std::find_if(settings.feedback.begin(), settings.feedback.end(), [&](const auto& pair) { return pair.first == t.name; });
          const Tensors& of = f == settings.feedback.end() ? first : fed;
          const size_t i = f == settings.feedback.end() ? static_cast<size_t>(program_.input(t.name) - program_.inputs.data())
                                                        : static_cast<size_t>(f - settings.feedback.begin());
          in.views.push_back(of.views[i]);
          in.shapes.push_back(of.shapes[i]);
        }
      }
      in.bind();
      if (Status s = make_room(*context, program, in, nullptr, &out, &scattered); !s) return s;
      if (Status s = run(*context, program, {&job}, start, in, out); !s) return s;
      if (Status s = job.respond(); !s) return s;
      // Responses have the outputs of the next method, by name.
      if (Status s = scatter(*context, program, {&job}, out, scattered); !s) return s;
      bool last = step + 1 == steps;
      if (!settings.stop_output.empty() && out_.size()) {
        const size_t o = static_cast<size_t>(program.output(settings.stop_output) - program.outputs.data());
        const auto at = [&](auto zero) {
          decltype(zero) v = zero;
          if (out.views[o].byte_size >= sizeof v) std::memcpy(&v, out.views[o].data, sizeof v);
          return static_cast<int64_t>(v);
        };
        const uint64_t bytes = program.outputs[o].element_bytes;
        const bool is_unsigned = program.outputs[o].dtype <= AOTC_DTYPE_U8;
        last |= settings.stop_value == (bytes == 8    ? at(int64_t{})
                                        : bytes == 4  ? at(int32_t{})
                                        : bytes == 2  ? at(int16_t{})
                                        : is_unsigned ? at(uint8_t{})
                                                      : at(int8_t{}));
      }
      if (Status s = job.send(last); !s) return s;
      if (last) return {};
      fed = {};
      for (size_t i = 0; i < settings.feedback.size(); ++i) {
        const std::string& name = settings.feedback[i].second;
        const size_t o = static_cast<size_t>(program.output(name) - program.outputs.data());
        const bool again = std::any_of(settings.feedback.begin() + static_cast<long>(i) + 1, settings.feedback.end(),
                                       [&](const auto& pair) { return pair.second == name; });
        const uint64_t bytes = out.views[o].byte_size;
        if (again) {
          if (Status s = fed_[i].need(bytes, TRITONSERVER_MEMORY_CPU, 0); !s) return s;
          if (Status s = copy(cuda_.get(), fed_[i].place(), 0, out_[o].place(), 0, bytes); !s) return s;
        } else {
          fed_[i].swap(out_[o]);
        }
        fed.add(program.outputs[o], fed_[i].place(), bytes, out.shapes[o]);
      }
    }
    return {};
  };
  job.status = all();
  end_sequence(job);
  const uint64_t end = now_ns();
  if (job.status)
    log_failure(TRITONBACKEND_ModelInstanceReportBatchStatistics(handle_, 1, start, compute_start, end, end),
                "statistics cannot be reported");
  job.finish(start, compute_start, end);
}

bool Instance::usable(const Place& place, const Tensor& t) const {
  const uint64_t align = std::min<uint64_t>(t.element_bytes, 8);
  if (reinterpret_cast<uintptr_t>(place.data) % std::max<uint64_t>(align, t.tail.empty() ? 1 : t.element_bytes) != 0) return false;
  return !place.on_gpu() || (cuda_ && place.id == cuda_->device());
}

Status Instance::wait() { return cuda_ ? cuda_->wait() : Status{}; }

Status Instance::gather(const std::vector<Job*>& group, size_t from, Tensors* in) {
  bool copied = false;
  for (size_t i = from; i < asked_.inputs.size(); ++i) {
    const Tensor& t = asked_.inputs[i];
    std::vector<int64_t> shape = group[0]->inputs[i].shape;
    const std::vector<Place>& pieces = group[0]->inputs[i].pieces;
    if (group.size() == 1 && pieces.size() == 1 && usable(pieces[0], t)) {
      in->add(t, pieces[0], group[0]->inputs[i].bytes, std::move(shape));
      continue;
    }
    uint64_t bytes = 0;
    bool on_gpu = false;
    for (const Job* job : group) {
      bytes += job->inputs[i].bytes;
      for (const Place& p : job->inputs[i].pieces) on_gpu |= p.on_gpu();
    }
    if (group.size() > 1) {
      shape[0] = 0;
      for (const Job* job : group) shape[0] += job->inputs[i].shape[0];
    }
    const TRITONSERVER_MemoryType type = !cuda_   ? TRITONSERVER_MEMORY_CPU
                                         : on_gpu ? TRITONSERVER_MEMORY_GPU
                                                  : TRITONSERVER_MEMORY_CPU_PINNED;
    if (Status s = in_[i].need(bytes, type, cuda_ ? cuda_->device() : 0); !s) return s;
    uint64_t at = 0;
    for (const Job* job : group)
      for (const Place& p : job->inputs[i].pieces) {
        if (Status s = copy(cuda_.get(), in_[i].place(), at, p, 0, p.bytes); !s) return s;
        at += p.bytes;
        copied |= p.on_gpu();
      }
    in->add(t, in_[i].place(), bytes, std::move(shape));
  }
  in->bind();
  return copied ? wait() : Status{};
}

Status Instance::make_room(aotc::host::Context& context, const Program& program, const Tensors& in, Job* direct, Tensors* out,
                           std::vector<bool>* scattered) {
  std::vector<std::vector<int64_t>> shapes;
  if (Status s = of_aotc(context.output_bounds(program.method, in.views, &shapes), ""); !s) return s;
  *out = {};
  scattered->assign(program.outputs.size(), true);
  made_.assign(program.outputs.size(), {});
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    const Tensor& t = program.outputs[o];
    uint64_t bytes = t.element_bytes;
    for (int64_t d : shapes[o]) bytes *= static_cast<uint64_t>(d);
    Place place{nullptr, 0, cuda_ ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU, cuda_ ? cuda_->device() : 0};
    if (direct && direct->wants(o) && !t.found) {
      if (Status s = direct->output(t, shapes[o], batched_, &place); !s) return s;
      if (usable(place, t)) {
        (*scattered)[o] = false;
        out->add(t, place, bytes, std::move(shapes[o]));
        continue;
      }
      made_[o] = place;  // written by scatter
    }
    if (Status s = out_[o].need(bytes, cuda_ ? TRITONSERVER_MEMORY_CPU_PINNED : TRITONSERVER_MEMORY_CPU, 0); !s) return s;
    out->add(t, out_[o].place(), bytes, std::move(shapes[o]));
  }
  out->bind();
  return {};
}

Status Instance::run(aotc::host::Context& context, const Program& program, const std::vector<Job*>& group, uint64_t begun,
                     const Tensors& in, const Tensors& out) {
  aotc::host::RunOptions options;
  std::string traceparent;
  for (size_t i = 0; i < group.size() && traceparent.empty(); ++i) traceparent = group[i]->traceparent();
  options.traceparent = traceparent.c_str();
  std::optional<Watch::Run> watched;
  if (AOTC_HAS(context.api(), run_with) && service_.states != States::slots) {
    uint64_t most = 0;
    const bool all = std::all_of(group.begin(), group.end(), [&](const Job* job) {
      const uint64_t us = job->timeout_us();
      most = std::max(most, us);
      return us > 0;
    });
    constexpr uint64_t kLongest = uint64_t{1} << 50;  // in us: later than any end of the program
    if (all && most < kLongest)
      options.deadline = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(static_cast<int64_t>(begun + most * 1000)));
    watched.emplace(*model_.watch, group);
    options.cancel = &watched->cancelled();
  }
  aotc::host::Status status = context.run(program.method, in.views, out.views, options);
  watched.reset();
  if (status && cuda_) {
    const aotc_api& api = *context.api();
    if (const aotc_status code = api.synchronize(context.get()); code != AOTC_STATUS_OK)
      status = {code, std::string(api.status_name(code)) + ": " + api.last_error()};
  }
  Status s = of_aotc(status, status.code == AOTC_STATUS_DEADLINE_EXCEEDED ? "the request's timeout has passed" : "");
  if (s.lost && cuda_) lost_gpus |= bit_of(*cuda_);
  undefined_ = status.code == AOTC_STATUS_WRONG_STATE;
  return s;
}

Status Instance::scatter(aotc::host::Context& context, const Program& program, const std::vector<Job*>& group, const Tensors& out,
                         const std::vector<bool>& scattered) {
  bool on_gpu = false;
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    if (!scattered[o]) continue;
    // The first method's outputs may be more than those that are served.
    const Tensor& t = program.outputs[o];
    const Tensor* served = program_.output(t.name);
    const size_t wanted = static_cast<size_t>(served - program_.outputs.data());
    std::vector<int64_t> shape = out.shapes[o];
    if (t.found)
      if (Status s = of_aotc(context.output_sizes(static_cast<int32_t>(o), &shape), ""); !s) return s;
    uint64_t at = 0;
    const uint64_t row = batched_ && shape[0] > 0 ? out.views[o].byte_size / static_cast<uint64_t>(shape[0]) : 0;
    for (Job* job : group) {
      if (batched_) shape[0] = job->rows();
      if (job->status && job->answered && job->wants(wanted)) {
        Place place = made_[o];
        const Place from = out_[o].place();
        if (!place.data) job->status = job->output(t, shape, batched_, &place);
        if (job->status)
          job->status = t.found ? pack(cuda_.get(), place, from, out.shapes[o], shape, t.element_bytes)
                                : copy(cuda_.get(), place, 0, from, at, place.bytes);
        on_gpu |= place.on_gpu();
      }
      at += batched_ ? row * static_cast<uint64_t>(job->rows()) : 0;
    }
  }
  return on_gpu ? wait() : Status{};
}

}  // namespace aotc::triton
