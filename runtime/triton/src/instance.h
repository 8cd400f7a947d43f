#pragma once
// One instance of a model: a context, on a GPU a stream of its own, and the memory in which requests are put together.
#include <atomic>
#include <list>

#include "config.h"
#include "crew.h"
#include "job.h"
#include "watch.h"

namespace aotc::triton {

/// A model of the server's: one version of it.
struct ServedModel {
  std::string name;
  std::string path;  ///< of the artifact
  Settings settings;
  Service service;
  std::shared_ptr<Artifact> artifact;  ///< that the config was read of
  Artifacts* artifacts = nullptr;
  Watch* watch = nullptr;
  TRITONBACKEND_MemoryManager* manager = nullptr;
  mutable Crew crew;                             ///< of its instances on CPUs, where there are batches
  mutable std::atomic<uint64_t> last_run_ns{0};  ///< how long a run of theirs took
};

class Instance {
 public:
  static Status make(TRITONBACKEND_ModelInstance* handle, const ServedModel& model, std::unique_ptr<Instance>* out);
  ~Instance();
  /// Serves the requests, all of which it takes.
  void execute(TRITONBACKEND_Request** requests, uint32_t n);
  /// UNAVAILABLE once the device is lost to this process, whichever instance met that. Any thread.
  Status ready() const;

 private:
  struct Tensors {  ///< of a run
    std::vector<std::vector<int64_t>> shapes;
    std::vector<aotc_tensor> views;
    void add(const Tensor& t, const Place& place, uint64_t bytes, std::vector<int64_t> shape);
    void bind();  ///< views borrow shapes
  };
  struct Sequence {
    std::string id;
    aotc::host::Context context;  ///< its own; none where it has a slot
    int64_t slot = 0, fed = 0;    ///< and how many positions of it are filled
    bool lost = false;            ///< what the slot holds is undefined
  };
  struct Fed {  ///< a request to a slot
    Job* job;   ///< nullptr once it is answered
    Sequence* sequence;
    std::vector<int64_t> tokens;
    int64_t done;  ///< so many of them are fed
    bool again;    ///< a run of it did not begin, and states were reset for it
  };
  explicit Instance(const ServedModel& model) : model_(model), service_(model.service), batched_(model.service.max_batch > 0) {}
  Status open(TRITONBACKEND_ModelInstance* handle);
  Status new_context(aotc::host::Context* out) const;
  Status context_for(const Job& job, aotc::host::Context** out);
  /// The sequence of the request; one that begins gets the context or the slot of one that has ended.
  Status sequence_of(const Job& job, Sequence** out);
  void end_sequence(const Job& job);
  void serve(std::vector<Job>& jobs, uint64_t start);
  /// A group, in parts by as many of the model's instances as have nothing to do.
  void spread(const std::vector<Job*>& group, uint64_t start);
  void serve_group(const std::vector<Job*>& group, uint64_t start);
  void serve_steps(Job& job, uint64_t start);
  /// Requests of sequences that have slots, in runs of many.
  void serve_slots(const std::vector<Job*>& jobs, uint64_t start);
  void serve_rows(const std::vector<Fed*>& group, uint64_t start);
  Status lost_slot(const Job& job) const;
  Status empty_slots();
  Status tokens_of(const Job& job, std::vector<int64_t>* out);

  /// The group's inputs from `from` on, each in one piece: in place where there is one request with one piece, else put together.
  Status gather(const std::vector<Job*>& group, size_t from, Tensors* in);
  /// Memory for the outputs: the response's own where `direct` is not null and wants it (scattered[o] is then false), else this instance's.
  Status make_room(aotc::host::Context& context, const Program& program, const Tensors& in, Job* direct, Tensors* out,
                   std::vector<bool>* scattered);
  /// Ends early when the latest deadline of the jobs has passed, or all of them are cancelled. begun: when their execution began.
  Status run(aotc::host::Context& context, const Program& program, const std::vector<Job*>& group, uint64_t begun, const Tensors& in,
             const Tensors& out);
  /// Rows of the outputs that lie in this instance's memory, to their responses.
  Status scatter(aotc::host::Context& context, const Program& program, const std::vector<Job*>& group, const Tensors& out,
                 const std::vector<bool>& scattered);
  bool usable(const Place& place, const Tensor& t) const;
  Status wait();

  const ServedModel& model_;
  const Service& service_;
  const bool batched_;
  TRITONBACKEND_ModelInstance* handle_ = nullptr;
  std::shared_ptr<Artifact> artifact_;
  std::unique_ptr<Cuda> cuda_;  ///< before the contexts that use its stream
  int32_t threads_ = 1;
  Program program_, next_, asked_;
  Slots slots_;
  aotc::host::Context context_;
  std::list<Sequence> sequences_;  ///< those that have ended first, without an id, then the least recently used
  std::vector<Buffer> in_, out_, fed_;
  std::vector<Place> made_;  ///< outputs that the response has and the run cannot write in place
  Helper helper_;            ///< works for the model's other instances
  bool helps_ = false;
  bool undefined_ = false;  ///< the last run did not begin, since states are undefined after an earlier one
};

}  // namespace aotc::triton
