// Which weights are streamed, and the order of their copies.
#include <stdlib.h>

#include "cuda.h"
#include "model.h"
#include "status.h"
#include "streamed.h"

namespace aotc::rt {
namespace {

constexpr uint64_t kLeastBytes = 64 << 10;  ///< what is smaller stays on the device
constexpr uint64_t kCopyBytes = 256 << 10;  ///< what a copy costs beside its bytes, as bytes
constexpr uint64_t kAlignWeight = 256;

template <class T>
struct Taken {
  T* p;
  explicit Taken(size_t n) : p(take<T>(n)) {}
  ~Taken() { free(p); }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  T& operator[](size_t i) const { return p[i]; }
};

unsigned long long number(uint64_t n) { return n; }

/// The weights that each step of all variants (VariantInfo::first_step) reads, each once.
class Reads {
 public:
  explicit Reads(const aotc_model& m) : steps_(m.total_steps), begin_(size_t{m.total_steps} + 1), weights_(count(m)) {
    if (ok()) fill(m);
  }
  bool ok() const { return begin_.p && weights_.p; }
  uint32_t steps() const { return steps_; }
  const uint32_t* begin(uint32_t step) const { return weights_.p + begin_[step]; }
  const uint32_t* end(uint32_t step) const { return weights_.p + begin_[step + 1]; }

 private:
  template <class F>
  static void each_variant(const aotc_model& m, const F& f) {
    for (uint32_t i = 0; i < m.module->n_methods; ++i)
      for (uint32_t v = 0; v < m.methods[i].desc->n_variants; ++v) f(m.methods[i].desc->variants[v]);
  }
  static size_t count(const aotc_model& m) {
    size_t n = 0;
    each_variant(m, [&n](const aotc_variant& v) {
      for (uint32_t s = 0; s < v.n_steps; ++s) n += v.steps[s].n_args;
    });
    return n;
  }
  void fill(const aotc_model& m) {
    uint32_t step = 0, n = 0;
    each_variant(m, [&](const aotc_variant& v) {
      for (uint32_t s = 0; s < v.n_steps; ++s) {
        begin_[step++] = n;
        for (uint32_t a = 0; a < v.steps[s].n_args; ++a) {
          const aotc_buffer_desc& b = v.buffers[v.args[v.steps[s].first_arg + a]];
          if (b.kind != AOTC_BUF_WEIGHT || m.module->weights[b.index].bytes == 0) continue;
          bool known = false;
          for (uint32_t k = begin_[step - 1]; k < n; ++k) known |= weights_[k] == static_cast<uint32_t>(b.index);
          if (!known) weights_[n++] = static_cast<uint32_t>(b.index);
        }
      }
    });
    begin_[step] = n;
  }

  uint32_t steps_;
  Taken<uint32_t> begin_, weights_;
};

/// Where each weight lies.
class Placement {
 public:
  Placement(const aotc_model& m, const Reads& reads, WeightPlace* place)
      : m_(m), reads_(reads), place_(place), n_(m.module->n_weights), seen_(n_) {}
  bool ok() const { return seen_.p != nullptr; }

  uint64_t bytes(uint32_t weight) const { return align_up(m_.module->weights[weight].bytes, kAlignWeight); }
  uint64_t total(WeightPlace place) const {
    uint64_t sum = 0;
    for (uint32_t w = 0; w < n_; ++w) sum += place_[w] == place ? bytes(w) : 0;
    return sum;
  }
  /// Of the weights in the ring, those of a step.
  uint64_t step_bytes(uint32_t step) const {
    uint64_t sum = 0;
    for (const uint32_t* w = reads_.begin(step); w != reads_.end(step); ++w) sum += place_[*w] == WeightPlace::ring ? bytes(*w) : 0;
    return sum;
  }
  uint64_t largest_step() const {
    uint64_t most = 0;
    for (uint32_t s = 0; s < reads_.steps(); ++s) most = step_bytes(s) > most ? step_bytes(s) : most;
    return most;
  }

  /// All on the device that a step reads and that are small; the others in the ring, as long as no step has more than `most` bytes there.
  void split(uint64_t most) {
    for (uint32_t w = 0; w < n_; ++w) place_[w] = WeightPlace::nowhere;
    for (uint32_t s = 0; s < reads_.steps(); ++s)
      for (const uint32_t* w = reads_.begin(s); w != reads_.end(s); ++w)
        place_[*w] = bytes(*w) < kLeastBytes ? WeightPlace::device : WeightPlace::ring;
    for (uint32_t s = 0; s < reads_.steps(); ++s)
      while (step_bytes(s) > most) place_[largest_of(s)] = WeightPlace::device;
  }

  /// Keeps weights of up to *left bytes on the device that a variant would copy again and again, then others, from the first step to the
  /// last so that what is streamed is spread evenly.
  void keep(uint64_t* left) {
    for (bool more = true; more;) more = keep_pass(left, true);
    for (bool more = true; more;) more = keep_pass(left, false);
  }

 private:
  uint32_t largest_of(uint32_t step) const {
    uint32_t largest = UINT32_MAX;
    for (const uint32_t* w = reads_.begin(step); w != reads_.end(step); ++w)
      if (place_[*w] == WeightPlace::ring && (largest == UINT32_MAX || bytes(*w) > bytes(largest))) largest = *w;
    return largest;
  }

  /// Marks weights that steps read again after others have streamed theirs.
  void mark_repeated() {
    for (uint32_t w = 0; w < n_; ++w) seen_[w] = {0, false};
    uint32_t turn = 0;  // of the steps that stream
    for (uint32_t i = 0; i < m_.module->n_methods; ++i)
      for (uint32_t v = 0; v < m_.methods[i].desc->n_variants; ++v) {
        const uint32_t first = m_.methods[i].variants[v].first_step, begin = ++turn;
        for (uint32_t s = first; s < first + m_.methods[i].desc->variants[v].n_steps; ++s) {
          if (step_bytes(s) == 0) continue;
          ++turn;
          for (const uint32_t* w = reads_.begin(s); w != reads_.end(s); ++w) {
            Seen& seen = seen_[*w];
            seen.repeated |= seen.turn > begin && seen.turn + 1 < turn;
            seen.turn = turn;
          }
        }
      }
  }

  /// Whether any was kept.
  bool keep_pass(uint64_t* left, bool repeated) {
    mark_repeated();
    const auto counts = [&](uint32_t w) { return place_[w] == WeightPlace::ring && (!repeated || seen_[w].repeated); };
    uint64_t all = 0;
    for (uint32_t w = 0; w < n_; ++w) all += counts(w) ? bytes(w) : 0;
    if (all == 0) return false;
    const double share = static_cast<double>(*left) / static_cast<double>(all);
    for (uint32_t w = 0; w < n_; ++w) seen_[w].turn = 0;
    double due = 0;  // bytes
    bool any = false;
    for (uint32_t s = 0; s < reads_.steps(); ++s)
      for (const uint32_t* w = reads_.begin(s); w != reads_.end(s); ++w) {
        if (!counts(*w) || seen_[*w].turn) continue;
        seen_[*w].turn = 1;
        due += share * static_cast<double>(bytes(*w));
        if (2 * due < static_cast<double>(bytes(*w)) || bytes(*w) > *left) continue;
        due -= static_cast<double>(bytes(*w));
        *left -= bytes(*w);
        place_[*w] = WeightPlace::device;
        any = true;
      }
    return any;
  }

  struct Seen {
    uint32_t turn;
    bool repeated;
  };
  const aotc_model& m_;
  const Reads& reads_;
  WeightPlace* place_;
  uint32_t n_;
  Taken<Seen> seen_;
};

/// The most bytes of one step in the ring for which runs are fastest within the budget; *needed: the least budget that is enough.
bool choose_step_bytes(Placement* placement, const Reads& reads, uint64_t budget, uint64_t* best, uint64_t* needed) {
  placement->split(UINT64_MAX);
  *needed = placement->total(WeightPlace::device) + placement->largest_step();
  if (*needed > budget) return true;
  Taken<uint64_t> sizes(reads.steps());
  if (!sizes.p) return false;
  uint32_t n = 0;
  for (uint32_t s = 0; s < reads.steps(); ++s) {
    const uint64_t size = placement->step_bytes(s);
    bool known = size == 0;
    for (uint32_t i = 0; i < n; ++i) known |= sizes[i] == size;
    if (!known) sizes[n++] = size;
  }
  double least = -1;
  for (uint32_t i = 0; i < n; ++i) {
    placement->split(sizes[i]);
    const uint64_t most = placement->largest_step(), device = placement->total(WeightPlace::device);
    const uint64_t all = placement->total(WeightPlace::ring);
    if (device + most > budget) continue;
    const bool halves = device + 2 * most <= budget;  // a step's copies while another's are read
    const uint64_t room = budget - device - (halves ? 2 * most : budget - device), streamed = room < all ? all - room : 0;
    uint32_t copies = 0;
    for (uint32_t s = 0; s < reads.steps(); ++s) copies += placement->step_bytes(s) > 0;
    const double part = all ? static_cast<double>(streamed) / static_cast<double>(all) : 0;
    const double time = (static_cast<double>(streamed) + part * copies * static_cast<double>(kCopyBytes)) * (halves ? 1 : 2);
    if (least < 0 || time < least) least = time, *best = sizes[i];
  }
  return true;
}

/// What lies in the ring at a step.
struct Held {
  uint64_t begin, end;
  uint32_t weight;  ///< UINT32_MAX: none that is of use
  uint32_t last;    ///< step that reads it
};

/// The copies of a variant: the ring is filled from its beginning to its end, again and again. What still lies there is not copied again.
class Schedule {
 public:
  Schedule(const aotc_model& m, const Placement& placement, const Reads& reads, const aotc_variant& variant, VariantInfo* info)
      : m_(m), placement_(placement), reads_(reads), variant_(variant), info_(info), held_(count()) {}

  bool make() {
    info_->ring_at = take<uint64_t>(info_->n_args);
    info_->copies = take<StreamedCopy>(count());
    if (!held_.p || !info_->ring_at || !info_->copies) return false;
    for (uint32_t a = 0; a < info_->n_args; ++a) info_->ring_at[a] = kNotStreamed;
    for (uint32_t s = 0; s < variant_.n_steps; ++s) {
      copy(s);
      place_args(s);
    }
    return true;
  }

 private:
  const uint32_t* begin(uint32_t step) const { return reads_.begin(info_->first_step + step); }
  const uint32_t* end(uint32_t step) const { return reads_.end(info_->first_step + step); }
  bool streams(uint32_t weight) const { return m_.streaming.place[weight] == WeightPlace::ring; }
  size_t count() const { return variant_.n_steps ? static_cast<size_t>(end(variant_.n_steps - 1) - begin(0)) : 0; }
  Held* find(uint32_t weight) const {
    for (uint32_t i = 0; i < n_held_; ++i)
      if (held_[i].weight == weight) return &held_[i];
    return nullptr;
  }

  /// What of the step's weights does not lie there.
  uint64_t missing(uint32_t step) const {
    uint64_t sum = 0;
    for (const uint32_t* w = begin(step); w != end(step); ++w) sum += streams(*w) && !find(*w) ? placement_.bytes(*w) : 0;
    return sum;
  }
  bool overlaps_own(uint32_t step, uint64_t from, uint64_t to) const {
    for (const uint32_t* w = begin(step); w != end(step); ++w) {
      const Held* h = streams(*w) ? find(*w) : nullptr;
      if (h && h->begin < to && from < h->end) return true;
    }
    return false;
  }

  void copy(uint32_t step) {
    uint64_t bytes = missing(step);
    if (bytes == 0) return;
    const auto place = [&] { return at_ + bytes <= m_.streaming.ring_bytes ? at_ : 0; };
    if (overlaps_own(step, place(), place() + bytes)) {  // then all of the step's anew, side by side
      for (const uint32_t* w = begin(step); w != end(step); ++w)
        if (Held* h = streams(*w) ? find(*w) : nullptr) h->weight = UINT32_MAX;
      bytes = missing(step);
    }
    at_ = place();
    for (uint32_t i = 0; i < n_held_;) {
      const Held& h = held_[i];
      if (h.begin >= at_ + bytes || h.end <= at_) {
        ++i;
        continue;
      }
      after_ = static_cast<int32_t>(h.last) > after_ ? static_cast<int32_t>(h.last) : after_;
      held_[i] = held_[--n_held_];
    }
    for (const uint32_t* w = begin(step); w != end(step); ++w) {
      if (!streams(*w) || find(*w)) continue;
      info_->copies[info_->n_copies++] = {*w, step, after_, at_};
      held_[n_held_++] = {at_, at_ + placement_.bytes(*w), *w, step};
      at_ += placement_.bytes(*w);
    }
  }

  void place_args(uint32_t step) {
    const aotc_step& s = variant_.steps[step];
    for (uint32_t a = s.first_arg; a < s.first_arg + s.n_args; ++a) {
      const aotc_buffer_desc& b = variant_.buffers[variant_.args[a]];
      if (b.kind != AOTC_BUF_WEIGHT || !streams(static_cast<uint32_t>(b.index))) continue;
      Held* const h = find(static_cast<uint32_t>(b.index));
      h->last = step;
      info_->ring_at[a] = h->begin;
    }
  }

  const aotc_model& m_;
  const Placement& placement_;
  const Reads& reads_;
  const aotc_variant& variant_;
  VariantInfo* info_;
  Taken<Held> held_;
  uint32_t n_held_ = 0;
  uint64_t at_ = 0;     ///< in the ring, of the next copy
  int32_t after_ = -1;  ///< of the latest copy: they are made one after the other
};

aotc_status no_memory() { return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the model"); }

aotc_status plan(aotc_model* model, uint64_t budget, bool asked) {
  Streaming& streaming = model->streaming;
  const Reads reads(*model);
  streaming.place = take<WeightPlace>(model->module->n_weights);
  if (!reads.ok() || !streaming.place) return no_memory();
  Placement placement(*model, reads, streaming.place);
  uint64_t step_bytes = 0, needed = 0;
  if (!placement.ok() || !choose_step_bytes(&placement, reads, budget, &step_bytes, &needed)) return no_memory();
  if (needed > budget && asked)
    return fail(
        AOTC_STATUS_INVALID_ARGUMENT,
        "model options: weights_budget is %llu bytes, but at least %llu bytes on the device are needed to stream this model's weights",
        number(budget), number(needed));
  if (needed > budget)
    return fail(
        AOTC_STATUS_OUT_OF_MEMORY,
        "no memory on GPU %d for the weights of %llu bytes: to stream them takes at least %llu, and %llu are free beside the states",
        model->device, number(cuda_weights_bytes(*model->module)), number(needed), number(budget));
  placement.split(step_bytes);
  const auto ring_at_most = [&] {
    const uint64_t left = budget - placement.total(WeightPlace::device), two = 2 * placement.largest_step();
    return two < left ? two : left;
  };
  if (placement.total(WeightPlace::device) + placement.total(WeightPlace::ring) <= budget) {  // others are what no step reads
    for (uint32_t w = 0; w < model->module->n_weights; ++w)
      if (streaming.place[w] == WeightPlace::ring) streaming.place[w] = WeightPlace::device;
  } else {
    uint64_t left = budget - placement.total(WeightPlace::device) - ring_at_most();
    placement.keep(&left);
  }
  streaming.ring_bytes = ring_at_most();
  streaming.device_bytes = placement.total(WeightPlace::device);
  streaming.host_bytes = placement.total(WeightPlace::ring);
  for (uint32_t i = 0; i < model->module->n_methods; ++i)
    for (uint32_t v = 0; v < model->methods[i].desc->n_variants; ++v) {
      VariantInfo& info = model->methods[i].variants[v];
      if (!Schedule(*model, placement, reads, model->methods[i].desc->variants[v], &info).make()) return no_memory();
      if (info.n_copies > streaming.max_copies) streaming.max_copies = info.n_copies;
    }
  return AOTC_STATUS_OK;
}

/// What a context's states take.
uint64_t states_bytes(const aotc_model& m) {
  uint64_t sum = 0;
  for (uint32_t s = 0; s < m.module->n_states; ++s) {
    bool next = false;
    for (uint32_t i = 0; i < m.module->n_methods; ++i)
      for (uint32_t v = 0; v < m.methods[i].desc->n_variants; ++v) next |= m.methods[i].variants[v].next_used[s] != 0;
    sum += m.module->states[s].bytes * (next ? 2 : 1);
  }
  return sum;
}

}  // namespace

aotc_status streaming_create(aotc_model* model, const aotc_model_options& options) {
  constexpr uint64_t kKeptFree = 16;  // of what is free, the part for workspaces
  const uint64_t all = cuda_weights_bytes(*model->module);
  uint64_t budget = options.weights_budget;
  const bool asked = budget != 0;
  if (!asked) {
    const CudaScope scope(model->cuda);
    uint64_t free = 0;
    const uint64_t states = states_bytes(*model);
    RT_TRY(scope.status());
    RT_TRY(cuda_free_bytes(model->cuda, &free));
    budget = free < states ? 0 : free - states;
    if (all > budget) budget -= budget / kKeptFree;
  }
  if (all <= budget) return AOTC_STATUS_OK;
  RT_TRY(plan(model, budget, asked));
  char line[256] = "";
  Text{line, line + sizeof line - 1}.add("%llu bytes of weights are streamed, %llu stay on the GPU, beside a ring of %llu for each context",
                                         number(model->streaming.host_bytes), number(model->streaming.device_bytes),
                                         number(model->streaming.ring_bytes));
  if (options.log) options.log(options.log_user, 1, line);
  return AOTC_STATUS_OK;
}

}  // namespace aotc::rt
