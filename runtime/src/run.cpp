// The walk over the steps.
#include <string.h>

#include "aotc/detail/check_abi.h"
#include "aotc/detail/team_abi.h"
#include "atomic.h"
#include "context.h"
#include "nvtx.h"
#include "probes.h"
#include "states.h"
#include "status.h"

namespace aotc::rt {
namespace {

constexpr int64_t kCopyUnit = 1 << 16;  // bytes of a copy or zero step that one work unit moves
constexpr int64_t kCopyGrain = 4;
constexpr uint64_t kLookAfter = 100000;  // ticks of the time stamp counter, 30 to 50 us: how long a run that may be ended goes on unasked
constexpr uint32_t kFlushDenormals = 0x8040;  // MXCSR: flush to zero, denormals are zero

int64_t unit_end(int64_t end, int64_t bytes) { return end * kCopyUnit < bytes ? end * kCopyUnit : bytes; }

void copy_kernel(const aotc_kargs* args, int64_t begin, int64_t end) {
  const int64_t from = begin * kCopyUnit, to = unit_end(end, args->size[0]);
  const char* src = static_cast<const char*>(args->ptr[0]);
  char* dst = static_cast<char*>(args->ptr[1]);
  if (src != dst) memcpy(dst + from, src + from, static_cast<size_t>(to - from));
}

void zero_kernel(const aotc_kargs* args, int64_t begin, int64_t end) {
  const int64_t from = begin * kCopyUnit, to = unit_end(end, args->size[0]);
  memset(static_cast<char*>(args->ptr[0]) + from, 0, static_cast<size_t>(to - from));
}

/// Threads for `work` units of which one thread should get at least `grain`.
int32_t tasks_for(int64_t work, int64_t grain, int32_t width) {
  if (work <= 0) return 0;
  const int64_t parts = grain > 1 ? work / grain : work;
  return parts < 1 ? 1 : parts > width ? width : static_cast<int32_t>(parts);
}

struct Job {
  const ReadyStep* step;
  uint8_t* scratch;
  uint64_t scratch_stride;
  volatile int32_t* fault;
  uint32_t mxcsr;
  aotc_team_range* team;
  bool free_denormals;
  Stop* stop;     ///< what may end the run, or null
  int64_t chunk;  ///< units that took a thread no longer than kLookAfter
};

/// The units in chunks, until the run has to end.
[[gnu::noinline]] void run_chunks(Job* job, const aotc_kargs* args, int64_t begin, int64_t end) {
  for (int64_t at = begin; at < end && !should_stop(job->stop);) {
    const int64_t chunk = load_relaxed(&job->chunk), n = chunk < end - at ? chunk : end - at;
    const uint64_t start = __builtin_ia32_rdtsc();
    job->step->fn(args, at, at + n);
    const uint64_t took = __builtin_ia32_rdtsc() - start;
    at += n;
    if (took > kLookAfter && n > 1) store_relaxed(&job->chunk, n / 2);
    if (took < kLookAfter / 3 && n == chunk) store_relaxed(&job->chunk, n * 2);
  }
}

int32_t run_ends(void* stop) { return should_stop(static_cast<Stop*>(stop)) ? 1 : 0; }

void run_units(void* arg, int32_t thread, int64_t begin, int64_t end, int64_t* held) {
  Job& job = *static_cast<Job*>(arg);
  const ReadyStep& step = *job.step;
  uint8_t* scratch = job.scratch + static_cast<uint64_t>(thread) * job.scratch_stride;
  const aotc_team_kargs team = {{step.ptr, step.size, step.config, scratch, thread, step.tasks, job.fault, held, job.free_denormals,
                                 job.stop ? run_ends : nullptr, job.stop},
                                job.scratch,
                                step.tasks > 1 || job.stop ? job.team : nullptr};
  if (__builtin_expect(!job.stop, 1))
    step.fn(&team.args, begin, end);
  else
    run_chunks(&job, &team.args, begin, end);
}

void run_units_once(void* arg, int32_t thread, Units units) {
  int64_t held[AOTC_HELD];
  for (int64_t& word : held) word = -1;
  run_units(arg, thread, units.begin, units.end, held);
}

/// Share i of a step on a thread of the caller's pool, whose MXCSR is its own affair.
void run_share(void* arg, int32_t i) {
  const Job& job = *static_cast<const Job*>(arg);
  const uint32_t own = __builtin_ia32_stmxcsr();
  if (own != job.mxcsr) __builtin_ia32_ldmxcsr(job.mxcsr);
  run_units_once(arg, i, threads_share(job.step->work, job.step->tasks, i));
  if (own != job.mxcsr) __builtin_ia32_ldmxcsr(own);
}

void run_step(Threads* threads, Job* job) {
  const ReadyStep& step = *job->step;
  job->chunk = 1;
  if (step.tasks > 1 || job->stop)
    memset(job->team, 0, sizeof job->team[0] * static_cast<size_t>(step.tasks < AOTC_TEAM_RANGES ? step.tasks : AOTC_TEAM_RANGES));
  if (step.tasks == 1)
    run_units_once(job, 0, {0, step.work});
  else if (threads->pool && step.tasks > 1)
    threads_run(threads, step.tasks, step.work, run_units, job);
  else if (step.tasks > 1)
    threads->caller.parallel_for(threads->caller.user, step.tasks, run_share, job);
}

/// Sets flush-to-zero for a scope.
class FlushDenormals {
 public:
  explicit FlushDenormals(bool on) : before_(on ? __builtin_ia32_stmxcsr() : 0), on_(on) {
    if (on_) __builtin_ia32_ldmxcsr(before_ | kFlushDenormals);
  }
  ~FlushDenormals() {
    if (on_) __builtin_ia32_ldmxcsr(before_);
  }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  uint32_t before_;
  bool on_;
};

}  // namespace

namespace {

template <class T>
void add_range(const void* data, uint64_t bytes, Text* text) {
  const T* p = static_cast<const T*>(data);
  const uint64_t n = bytes / sizeof(T);
  if (n == 0) return;
  T least = p[0], most = p[0];
  for (uint64_t i = 1; i < n; ++i) {
    least = p[i] < least ? p[i] : least;
    most = p[i] > most ? p[i] : most;
  }
  if (least == most)
    text->add(" is %lld", static_cast<long long>(least));
  else
    text->add(" has values from %lld to %lld", static_cast<long long>(least), static_cast<long long>(most));
}

/// The integer inputs that the step reads, on CPUs with the range of their values: one of them has the index, where it is not computed.
void tell_integers(const aotc_context& c, const aotc_method_desc& method, const aotc_variant& variant, const aotc_step& step, Text* text) {
  for (uint32_t a = step.first_arg; a < step.first_arg + step.n_args; ++a) {
    const aotc_buffer_desc& b = variant.buffers[variant.args[a]];
    if (b.kind != AOTC_BUF_INPUT) continue;
    const aotc_io_desc& input = method.inputs[b.index];
    if (input.dtype != AOTC_DTYPE_I64 && input.dtype != AOTC_DTYPE_I32) continue;
    text->add(", where input %s", input.name);
    if (step.kind != AOTC_STEP_CPU)
      text->add(" is read");
    else if (input.dtype == AOTC_DTYPE_I64)
      add_range<int64_t>(c.io[b.index], c.latest->io_bytes[b.index], text);
    else
      add_range<int32_t>(c.io[b.index], c.latest->io_bytes[b.index], text);
  }
}

}  // namespace

[[gnu::cold]] const aotc_hidden_desc* condition_of(const aotc_method_desc& method, const aotc_variant& variant, uint32_t number) {
  const aotc_step& step = variant.steps[number];
  for (uint32_t a = step.first_arg; a < step.first_arg + step.n_args; ++a) {
    const aotc_buffer_desc& b = variant.buffers[variant.args[a]];
    const uint32_t hidden = static_cast<uint32_t>(b.index) - method.n_outputs;
    if (b.kind == AOTC_BUF_OUTPUT && hidden < method.n_hidden && method.hidden[hidden].kind != AOTC_HIDDEN_SIZE)
      return &method.hidden[hidden];
  }
  return nullptr;
}

[[gnu::cold]] aotc_status step_fault(const aotc_context& c, const aotc_method_desc& method, const aotc_variant& variant, uint32_t number,
                                     int32_t fault) {
  const aotc_step& step = variant.steps[number];
  const char* label = step.label ? step.label : "?";
  if (fault == AOTC_FAULT_INDEX) {
    char inputs[256] = "";
    Text text = {inputs, inputs + sizeof inputs};
    tell_integers(c, method, variant, step, &text);
    return fail(AOTC_STATUS_INDEX_OUT_OF_RANGE, "an index in the input data is out of range (at %s%s); the outputs are undefined", label,
                inputs);
  }
  if (fault != AOTC_FAULT_CHECK) return fail(AOTC_STATUS_INTERNAL, "a kernel reported fault %d (at %s)", fault, label);
  if (const aotc_hidden_desc* hidden = condition_of(method, variant, number)) {
    if (hidden->kind != AOTC_HIDDEN_INDEX) return fail(AOTC_STATUS_ASSERTION_FAILED, "%s; the outputs are undefined", hidden->text);
    int64_t index;
    memcpy(&index, c.hidden + (hidden - method.hidden) * AOTC_HIDDEN_BYTES + AOTC_CHECK_INDEX, sizeof index);
    return fail(AOTC_STATUS_INDEX_OUT_OF_RANGE, "%s, but is %lld; no state was changed; the outputs are undefined", hidden->text,
                static_cast<long long>(index));
  }
  return fail(AOTC_STATUS_ASSERTION_FAILED, "a condition of the model does not hold (at %s); the outputs are undefined", label);
}

void take_io(aotc_context* c, const Method& method, const aotc_tensor* in, const aotc_tensor* out) {
  const aotc_method_desc& desc = *method.desc;
  void** io = c->io;
  for (uint32_t i = 0; i < desc.n_inputs; ++i) *io++ = in[i].data;
  for (uint32_t o = 0; o < desc.n_outputs; ++o) *io++ = out[o].data;
  for (uint32_t h = 0; h < desc.n_hidden; ++h) *io++ = c->hidden + h * AOTC_HIDDEN_BYTES;
}

void bind_interface(const aotc_context& c, ShapeEntry* e) {
  const aotc_variant& variant = variant_of(*e);
  const VariantInfo& info = info_of(*e);
  void* const* outputs = c.io + e->method->desc->n_inputs;
  for (uint32_t i = 0; i < info.n_bound; ++i) {
    const uint32_t arg = info.bound[i];
    const aotc_buffer_desc& b = variant.buffers[variant.args[arg]];
    e->ptrs[arg] = b.kind == AOTC_BUF_INPUT    ? c.io[b.index]
                   : b.kind == AOTC_BUF_OUTPUT ? outputs[b.index]
                   : b.kind == AOTC_BUF_STATE  ? c.states[b.index].now
                                               : c.states[b.index].next;
  }
}

void swap_states(aotc_context* c, const ShapeEntry& e) {
  const uint8_t* next_used = info_of(e).next_used;
  for (uint32_t s = 0; s < c->model->module->n_states; ++s) {
    if (!next_used[s]) continue;
    uint8_t* now = c->states[s].now;
    c->states[s].now = c->states[s].next;
    c->states[s].next = now;
  }
}

void ready_steps(const aotc_context& c, ShapeEntry* e) {
  const aotc_variant& variant = variant_of(*e);
  const aotc_isa_table& isa = *c.model->isa;
  e->max_tasks = 1;
  for (uint32_t s = 0; s < variant.n_steps; ++s) {
    const aotc_step& step = variant.steps[s];
    ReadyStep& r = e->steps[s];
    r = ReadyStep{};
    r.ptr = e->ptrs + step.first_arg;
    int64_t grain = 1;
    if (step.kind == AOTC_STEP_CPU) {
      r.fn = isa.kernels[step.kernel];
      r.config = step.config >= 0 ? isa.configs[step.config] : nullptr;
      r.size = e->sizes + step.first_size;
      r.work = step.work_slot >= 0 ? e->slots[step.work_slot] : 1;
      if (step.grain_slot >= 0) grain = e->slots[step.grain_slot];
    } else {
      const bool copy = step.kind == AOTC_STEP_COPY;
      r.bytes = e->slots[variant.buffers[variant.args[step.first_arg + (copy ? 1 : 0)]].bytes_slot];
      r.fn = copy ? copy_kernel : zero_kernel;
      r.size = &r.bytes;
      r.work = (r.bytes + kCopyUnit - 1) / kCopyUnit;
      grain = kCopyGrain;
    }
    r.tasks = tasks_for(r.work, grain, c.threads.width);
    if (r.tasks > e->max_tasks) e->max_tasks = r.tasks;
  }
}

aotc_status run_steps(aotc_context* c, ShapeEntry* e, const aotc_tensor* in, const aotc_tensor* out, Stop* stop) {
  const aotc_variant& variant = variant_of(*e);
  RT_TRY(threads_begin(&c->threads, e->max_tasks));
  take_io(c, *e->method, in, out);
  bind_interface(*c, e);
  c->latest = e;
  if ((c->flags & AOTC_CONTEXT_POISON) && c->base_bytes) memset(c->base, 0xff, c->base_bytes);
  const FlushDenormals flush(c->flags & AOTC_CONTEXT_FLUSH_DENORMALS);
  volatile int32_t fault = AOTC_FAULT_NONE;
  bool wrote_states = false;
  alignas(64) aotc_team_range team[AOTC_TEAM_RANGES];
  Job job = {nullptr,
             c->base + align_up(e->arena_bytes, 256),
             e->scratch_stride,
             &fault,
             __builtin_ia32_stmxcsr(),
             team,
             c->model->free_denormals,
             stop,
             1};
  uint64_t before = c->step_ns ? now_ns() : 0;
  aotc_status status = AOTC_STATUS_OK;
  for (uint32_t s = 0; s < variant.n_steps; ++s) {
    if (__builtin_expect(stop != nullptr, 0) && should_stop(stop)) {
      wrote_states = s > variant.states_from;
      status = stop_failure(*stop, variant.steps[s].label, wrote_states);
      break;
    }
    job.step = &e->steps[s];
    if (is_traced(aotc_probe_step_start)) probe_step_start(*c, *e, s);
    {
      const NvtxRange range(c->model->nvtx, variant.steps[s].label);
      run_step(&c->threads, &job);
    }
    if (is_traced(aotc_probe_step_end)) probe_step_end(*c, *e, s);
    if (__builtin_expect(fault != AOTC_FAULT_NONE, 0)) {
      status = step_fault(*c, *e->method->desc, variant, s, fault);
      wrote_states = s >= variant.states_from;
      break;
    }
    if (__builtin_expect(stop != nullptr, 0) && has_stopped(*stop)) {
      wrote_states = s >= variant.states_from;
      status = stop_failure(*stop, variant.steps[s].label, wrote_states);
      break;
    }
    if (c->step_ns) {
      const uint64_t after = now_ns();
      c->step_ns[s] = after - before;
      before = after;
    }
  }
  threads_end(&c->threads);
  if (status == AOTC_STATUS_OK)
    swap_states(c, *e);
  else if (wrote_states)
    lose_states(c, *e->method, e->variant);
  return status;
}

}  // namespace aotc::rt
