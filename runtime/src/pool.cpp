#include "pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "aotc/detail/cpu_quota.h"
#include "aotc/detail/kernel_abi.h"
#include "atomic.h"
#include "memory.h"
#include "placement.h"
#include "status.h"

namespace aotc::rt {
namespace {

/// How long to spin before parking, in time stamp ticks.
struct Spin {
  uint64_t in_run;  ///< workers, through the serial parts of a run
  uint64_t idle;    ///< workers, after a run, in case the next one follows at once
  uint64_t join;    ///< the leader
  int64_t nap_ns;   ///< the first sleep within a run (Sleep); 0: until woken
};
constexpr Spin kSpin = {600000, 60000, 200000, 100000};
constexpr Spin kSpinCrowded = {2000, 0, 2000, 0};  // more threads than CPUs: who spins keeps another from working
constexpr int64_t kLongestNap = 6400000;           // ns
constexpr uint64_t kSpreadAgain = 2000000;         // ticks from one move of workers (spread) to the next
constexpr uint32_t kRaised = 0x3f;                 // flags of MXCSR that operations raise
constexpr int64_t kMostLots = int64_t{1} << 31;    // of a job
constexpr int64_t kPieces = 8;                     // the smallest pieces that a share is taken in
constexpr int32_t kNeighbours = 7;                 // whose shares a worker takes from

uint64_t ticks() { return __builtin_ia32_rdtsc(); }

/// Sleeps on a word while it has the value `seen`.
void futex_wait(const uint32_t* word, uint32_t seen, const timespec* limit) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, limit, nullptr, 0);
}
void futex_wake(const uint32_t* word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

/// The sleeps of one wait for another thread of a run: naps, each twice as long as the one before, then until woken. When a thread lies
/// down, the scheduler may give its CPU to one that other processes keep from theirs: to the one that it waits for.
class Sleep {
 public:
  explicit Sleep(int64_t nap_ns) : nap_ns_(nap_ns) {}
  /// True: it was a nap.
  bool wait(const uint32_t* word, uint32_t seen) {
    const int64_t nap = nap_ns_;
    const timespec limit = {0, static_cast<long>(nap)};
    futex_wait(word, seen, nap ? &limit : nullptr);
    nap_ns_ = nap < kLongestNap ? nap * 2 : 0;
    return nap != 0;
  }

 private:
  int64_t nap_ns_;
};

}  // namespace

/// One thread's mailbox, a pair of cache lines of its own. The leader writes `go`.
struct alignas(128) Worker {
  uint64_t share;   ///< what nobody has taken yet of its part of the job: lots [low half, high half)
  uint32_t go;      ///< number of the latest job given; a futex
  uint32_t parked;  ///< sleeps on `go`, or is about to
  uint32_t came;    ///< number of the latest job that it came to,
  int32_t cpu;      ///< that it was on then, or when it lay down
  pid_t tid;        ///< 0: it has not begun
  int32_t index;
  int64_t held[AOTC_HELD];  ///< of job `held_of`
  uint64_t held_of;
  Pool* pool;
  pthread_t thread;
};

struct Pool {
  // Written by the leader before the shares, read by who has taken a piece of one: the job ends after that piece.
  TaskFn task;
  void* arg;
  int64_t work;     ///< units
  int64_t lot;      ///< units of a lot: 1 where lots number all units
  uint64_t number;  ///< of the job, from 1
  uint32_t mxcsr;
  // Read at any time: a piece taken by an earlier job's numbers is a piece, too.
  int32_t tasks;
  uint32_t piece;  ///< lots that are taken at once, at least
  uint32_t stop;   ///< workers end; one that is late with its job, too
  alignas(128) uint32_t in_run;
  uint32_t leader_waits;       ///< a futex: 1 while the leader sleeps in join
  alignas(128) uint32_t left;  ///< lots of the job that are not done
  alignas(128) uint32_t job;
  int32_t n_workers;
  Spin spin;
  bool roomy;            ///< there is a CPU for each thread
  uint64_t next_spread;  ///< in ticks
  const uint8_t* alive;  ///< a page that the kernel clears in a forked child; null where it cannot
  pid_t pid;
  Worker* threads;  ///< the leader's mailbox, then those of n_workers
};

namespace {

struct Lots {
  uint32_t begin, end;
  uint32_t count() const { return end - begin; }
};
uint64_t packed(Lots x) { return x.begin | uint64_t{x.end} << 32; }
Lots unpacked(uint64_t x) { return {static_cast<uint32_t>(x), static_cast<uint32_t>(x >> 32)}; }

/// Takes half of what is left of a share: its owner from the front, another from the end. Nothing where nothing is left.
Lots take_piece(const Pool& pool, Worker& of, bool owner) {
  uint64_t seen = load_acquire(&of.share);
  for (;;) {
    const Lots all = unpacked(seen);
    if (all.count() == 0) return {0, 0};
    const uint32_t least = load_relaxed(&pool.piece), half = (all.count() + 1) / 2, wanted = half < least ? least : half;
    const uint32_t n = wanted < all.count() ? wanted : all.count();
    const Lots piece = owner ? Lots{all.begin, all.begin + n} : Lots{all.end - n, all.end};
    if (compare_exchange(&of.share, &seen, packed(owner ? Lots{piece.end, all.end} : Lots{all.begin, piece.begin}))) return piece;
  }
}

/// Does pieces of `of` until nothing is left there; how many lots they had.
uint32_t do_pieces_of(Pool& pool, Worker& self, Worker& of) {
  uint32_t done = 0;
  for (Lots piece; (piece = take_piece(pool, of, &self == &of)).count(); done += piece.count()) {
    if ((__builtin_ia32_stmxcsr() ^ pool.mxcsr) & ~kRaised) __builtin_ia32_ldmxcsr(pool.mxcsr);
    if (self.held_of != pool.number)
      for (int64_t& word : self.held) word = -1;
    self.held_of = pool.number;
    const int64_t end = piece.end * pool.lot;
    pool.task(pool.arg, self.index, piece.begin * pool.lot, end < pool.work ? end : pool.work, self.held);
  }
  return done;
}

/// Works on the thread's own share, then on what is left of the others': of a few neighbours', or of all where nobody else would. What a
/// thread has done is counted when it is through: the job, and all that is read of it here, stands until then.
void do_pieces(Pool& pool, int32_t index) {
  Worker& self = pool.threads[index];
  uint32_t done = do_pieces_of(pool, self, self);
  const int32_t tasks = load_relaxed(&pool.tasks), met = index == 0 || tasks <= kNeighbours ? tasks : kNeighbours + 1;
  for (int32_t i = 1; i < met; ++i) done += do_pieces_of(pool, self, pool.threads[(index + i) % tasks]);
  if (done == 0 || subtract(&pool.left, done) != 0 || !load_acquire(&pool.leader_waits)) return;
  store_release(&pool.leader_waits, 0u);
  futex_wake(&pool.leader_waits);
}

bool forked(const Pool& pool) { return pool.alive ? *pool.alive == 0 : pool.pid != getpid(); }

/// Waits until a job newer than `seen` is there.
uint32_t await_job(Worker& self, uint32_t seen) {
  uint64_t start = ticks();
  Sleep sleep(self.pool->spin.nap_ns);
  for (;;) {
    for (int i = 0; i < 32; ++i) {
      const uint32_t go = load_acquire(&self.go);
      if (go != seen) return go;
      spin_pause();
    }
    if (ticks() - start < (load_relaxed(&self.pool->in_run) ? self.pool->spin.in_run : self.pool->spin.idle)) continue;
    store_relaxed(&self.cpu, cpu_now());
    exchange(&self.parked, 1u);
    bool nap = false;
    if (load_acquire(&self.go) == seen) {
      if (load_relaxed(&self.pool->in_run))
        nap = sleep.wait(&self.go, seen);
      else
        futex_wait(&self.go, seen, nullptr);
    }
    store_relaxed(&self.parked, 0u);
    if (!nap) start = ticks();
  }
}

void* work(void* arg) {
  Worker& self = *static_cast<Worker*>(arg);
  Pool& pool = *self.pool;
  store_relaxed(&self.tid, static_cast<pid_t>(syscall(SYS_gettid)));
  for (uint32_t seen = 0;;) {
    seen = await_job(self, seen);
    if (load_relaxed(&pool.stop)) return nullptr;
    store_relaxed(&self.cpu, cpu_now());
    store_relaxed(&self.came, seen);
    do_pieces(pool, self.index);
  }
}

/// Wakes those of the first `tasks` - 1 workers that sleep, each on a CPU that none before it was on.
void wake(Pool& pool, int32_t tasks) {
  int32_t first = 1;
  while (first < tasks && !load_relaxed(&pool.threads[first].parked)) ++first;
  if (first >= tasks) return;
  const int32_t here = cpu_now();
  Cpus taken;
  taken.add(here);
  for (int32_t i = 1; i < tasks; ++i) {
    Worker& worker = pool.threads[i];
    const int32_t cpu = load_relaxed(&worker.cpu);
    if (load_relaxed(&worker.parked)) {
      const Elsewhere elsewhere(pool.roomy && taken.has(cpu) ? load_relaxed(&worker.tid) : 0, taken, here);
      futex_wake(&worker.go);
    }
    taken.add(cpu);
  }
}

/// Tells workers 1 to n that there is a job.
void give(Pool& pool, int32_t n) {
  const uint32_t job = ++pool.job;
  for (int32_t i = 1; i <= n; ++i) store_release(&pool.threads[i].go, job);
  full_fence();
  wake(pool, n + 1);
}

/// Of a job that takes long: moves workers off the CPUs of the leader and of one another, and those that have not come: they wait for a
/// CPU, and if that is the leader's, for long. True: some were moved.
bool spread(Pool& pool, int32_t tasks) {
  if (!pool.roomy || ticks() < pool.next_spread) return false;
  const int32_t here = cpu_now();
  Cpus taken;
  taken.add(here);
  bool moved = false;
  for (int32_t i = 1; i < tasks; ++i) {
    Worker& worker = pool.threads[i];
    const int32_t cpu = load_relaxed(&worker.cpu);
    if (taken.has(cpu) || load_relaxed(&worker.came) != pool.job) {
      const Elsewhere elsewhere(load_relaxed(&worker.tid), taken, here);
      moved = true;
    } else {
      taken.add(cpu);
    }
  }
  if (moved) pool.next_spread = ticks() + kSpreadAgain;
  return moved;
}

/// Waits until the pieces that others have taken are done.
void await_pieces(Pool& pool, int32_t tasks) {
  uint64_t start = ticks();
  Sleep sleep(pool.spin.nap_ns);
  while (load_acquire(&pool.left)) {
    for (int i = 0; i < 64 && load_acquire(&pool.left); ++i) spin_pause();
    if (ticks() - start < pool.spin.join) continue;
    if (spread(pool, tasks)) {
      start = ticks();
      continue;
    }
    exchange(&pool.leader_waits, 1u);
    if (load_acquire(&pool.left)) sleep.wait(&pool.leader_waits, 1);
    store_relaxed(&pool.leader_waits, 0u);
  }
}

void stop_workers(Pool& pool, int32_t n) {
  store_relaxed(&pool.stop, 1u);
  give(pool, n);
  for (int32_t i = 1; i <= n; ++i) pthread_join(pool.threads[i].thread, nullptr);
  pool.stop = 0;
}

/// Starts the workers from a clean state.
aotc_status start_workers(Pool& pool) {
  pool.job = pool.stop = pool.in_run = pool.leader_waits = pool.left = 0;
  for (int32_t i = 0; i <= pool.n_workers; ++i) pool.threads[i].share = 0;
  if (uint8_t* page = static_cast<uint8_t*>(take_page_of_process())) {
    *page = 1;
    pool.alive = page;
  }
  pool.pid = getpid();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = 0;
  int32_t started = 0;
  for (; started < pool.n_workers && !error; started += !error) {
    Worker& worker = pool.threads[started + 1];
    worker.go = worker.parked = worker.came = 0;
    worker.cpu = -1;
    worker.tid = 0;
    worker.index = started + 1;
    worker.pool = &pool;
    error = pthread_create(&worker.thread, nullptr, work, &worker);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!error) return AOTC_STATUS_OK;
  stop_workers(pool, started);
  return fail(AOTC_STATUS_OUT_OF_MEMORY, "thread %d of %d could not be started (error %d)", started + 1, pool.n_workers, error);
}

void drop_page(Pool& pool) {
  free_page_of_process(const_cast<uint8_t*>(pool.alive));
  pool.alive = nullptr;
}

void free_pool(Pool* pool) {
  drop_page(*pool);
  free(pool->threads);
  free(pool);
}

template <class T>
T* take_aligned(size_t count) {
  void* p = nullptr;
  if (posix_memalign(&p, alignof(T), count * sizeof(T)) != 0) return nullptr;
  __builtin_memset(p, 0, count * sizeof(T));
  return static_cast<T*>(p);
}

/// CPUs of the calling thread: those of its affinity, and no more than its control groups give the time of.
int32_t allowed_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int32_t affinity = CPU_COUNT(&set), quota = aotc_cpu_quota("");
  const int32_t n = quota > 0 && quota < affinity ? quota : affinity;
  return n < 1 ? 1 : n > AOTC_MAX_THREADS ? AOTC_MAX_THREADS : n;
}

}  // namespace

aotc_status threads_width(int32_t num_threads, const aotc_thread_pool* caller, int32_t* width) {
  if (caller) {
    if (!caller->width || !caller->parallel_for) return fail(AOTC_STATUS_INVALID_ARGUMENT, "thread pool: width or parallel_for is null");
    const int32_t n = caller->width(caller->user);
    *width = n < 1 ? 1 : n > AOTC_MAX_THREADS ? AOTC_MAX_THREADS : n;
    return AOTC_STATUS_OK;
  }
  if (num_threads < -1 || num_threads > AOTC_MAX_THREADS)
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "num_threads is %d; allowed are -1 to %d", num_threads, AOTC_MAX_THREADS);
  *width = num_threads == -1 ? allowed_cpus() : num_threads < 1 ? 1 : num_threads;
  return AOTC_STATUS_OK;
}

aotc_status threads_create(int32_t num_threads, const aotc_thread_pool* caller, Threads* out) {
  *out = Threads{};
  RT_TRY(threads_width(num_threads, caller, &out->width));
  if (caller) {
    out->caller = *caller;
    return AOTC_STATUS_OK;
  }
  if (out->width == 1) return AOTC_STATUS_OK;
  Pool* pool = take_aligned<Pool>(1);
  if (pool) pool->threads = take_aligned<Worker>(static_cast<size_t>(out->width));
  if (!pool || !pool->threads) {
    free(pool);
    return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for %d threads", out->width);
  }
  pool->n_workers = out->width - 1;
  pool->roomy = out->width <= allowed_cpus();
  pool->spin = pool->roomy ? kSpin : kSpinCrowded;
  if (const aotc_status status = start_workers(*pool); status != AOTC_STATUS_OK) {
    free_pool(pool);
    return status;
  }
  out->pool = pool;
  return AOTC_STATUS_OK;
}

void threads_destroy(Threads* threads) {
  if (Pool* pool = threads->pool) {
    if (!forked(*pool)) stop_workers(*pool, pool->n_workers);
    free_pool(pool);
  }
  *threads = Threads{};
}

aotc_status threads_begin(Threads* threads, int32_t tasks) {
  Pool* pool = threads->pool;
  if (!pool || tasks <= 1) return AOTC_STATUS_OK;
  if (forked(*pool)) {
    drop_page(*pool);
    if (const aotc_status status = start_workers(*pool); status != AOTC_STATUS_OK) {
      // Without its page the pool would wait for workers that are not there: the next run tries again.
      pool->pid = 0;
      drop_page(*pool);
      return status;
    }
  }
  store_relaxed(&pool->in_run, 1u);
  full_fence();
  wake(*pool, tasks);  // they come while the run prepares itself
  return AOTC_STATUS_OK;
}

void threads_end(Threads* threads) {
  if (threads->pool) store_relaxed(&threads->pool->in_run, 0u);
}

Units threads_share(int64_t work, int32_t tasks, int32_t i) {
  const int64_t share = work / tasks, larger = work % tasks, begin = i * share + (i < larger ? i : larger);
  return {begin, begin + share + (i < larger ? 1 : 0)};
}

void threads_run(Threads* threads, int32_t tasks, int64_t work, TaskFn task, void* arg) {
  Pool* pool = threads->pool;
  pool->task = task;
  pool->arg = arg;
  pool->work = work;
  pool->lot = 1 + work / kMostLots;
  ++pool->number;
  pool->mxcsr = __builtin_ia32_stmxcsr();
  const int64_t lots = (work + pool->lot - 1) / pool->lot, piece = lots / tasks / kPieces;
  store_relaxed(&pool->tasks, tasks);
  store_relaxed(&pool->piece, static_cast<uint32_t>(piece < 1 ? 1 : piece));
  store_relaxed(&pool->left, static_cast<uint32_t>(lots));
  for (int32_t i = 0; i < tasks; ++i) {
    const Units x = threads_share(lots, tasks, i);
    store_release(&pool->threads[i].share, packed({static_cast<uint32_t>(x.begin), static_cast<uint32_t>(x.end)}));
  }
  give(*pool, tasks - 1);
  const uint64_t start = ticks();
  do_pieces(*pool, 0);
  if (!load_acquire(&pool->left) && ticks() - start > pool->spin.join) spread(*pool, tasks);
  await_pieces(*pool, tasks);
}

}  // namespace aotc::rt
