#pragma once
// The threads of a context: its own (spin, then park), or the caller's pool.
#include <stdint.h>

#include "aotc/aotc.h"

namespace aotc::rt {

/// task(arg, i, begin, end, held): units [begin, end) of a job, on thread i; held: the thread's words of the job (aotc_kargs).
using TaskFn = void (*)(void* arg, int32_t i, int64_t begin, int64_t end, int64_t* held);

struct Units {
  int64_t begin, end;
};

struct Pool;  ///< own workers

struct Threads {
  int32_t width = 1;          ///< granted, the calling thread included
  Pool* pool = nullptr;       ///< null: the calling thread, or `caller`
  aotc_thread_pool caller{};  ///< parallel_for null: unused
};

/// How many threads these options grant: at least 1.
aotc_status threads_width(int32_t num_threads, const aotc_thread_pool* caller, int32_t* width);
/// num_threads and caller as in aotc_context_options. The threads inherit the affinity of the calling thread and take no signals.
aotc_status threads_create(int32_t num_threads, const aotc_thread_pool* caller, Threads* out);
void threads_destroy(Threads* threads);  ///< joins; in a forked child, where the workers do not exist, only frees

/// Bracket one run: workers spin instead of parking between its jobs. `tasks`: the most parts of any job of the run. After a fork the
/// child gets new workers here.
aotc_status threads_begin(Threads* threads, int32_t tasks);
void threads_end(Threads* threads);
/// The i-th of `tasks` equal shares of `work` units, the first ones a unit larger.
Units threads_share(int64_t work, int32_t tasks, int32_t i);
/// Runs `work` units on `tasks` <= width threads of our own pool, the calling thread among them. A thread takes its share (threads_share)
/// in pieces, and what others have not come to when it is through: a thread that is late or interrupted loses the rest of its share to
/// them. Workers compute with the calling thread's MXCSR. Returns when all is done.
void threads_run(Threads* threads, int32_t tasks, int64_t work, TaskFn task, void* arg);

}  // namespace aotc::rt
