/* Streams for a stand-in driver, in one of two ways. At once: work is done when it is queued. Late: work is done when the caller waits for
 * it, or when what he waits for comes after it, but a copy from the host's memory destroys its target as soon as it may begin, and memory
 * of the host that is not pinned is read when it is queued. So a read that nothing orders behind its copy finds no data, and one that
 * nothing orders before a copy to the same place finds none either.
 *
 * Included by the one source of the driver before its functions, which hold the lock (LOCKED) and define
 *   static void work_do(const work* w);        a kernel, a copy or a fill, now
 *   static int is_pinned(const void* p);       whether the device copies from there by itself */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { WORK_KERNEL, WORK_UPLOAD, WORK_COPY, WORK_FILL, WORK_MARK, WORK_WAIT, WORK_PARAMETER_BYTES = 4096, CAPTURE_ISOLATION = 905 };

struct queue;
typedef struct event {
  uint64_t recorded, done; /* how often */
  struct queue* queue;     /* of the latest record */
  int captured;            /* it was recorded in a capture */
  uint64_t covers;         /* work of the queue before it */
  double ms;
} event;
typedef struct work {
  struct work* next;
  int kind, device, begun;
  void* function;
  unsigned grid[3], block[3], shared;
  uint64_t to, from;
  size_t bytes;
  unsigned char value;
  char* snapshot;
  event* event;
  uint64_t record;
  struct queue* other;
  char arguments[WORK_PARAMETER_BYTES] __attribute__((aligned(64)));
} work;
typedef struct queue {
  const void* handle;
  work *first, *last;
  uint64_t length, joined;   /* work that was queued, and that the captured stream waits for */
  int captured, used, waits; /* waits: the latest work is to wait for an event */
} queue;

enum { MOST_QUEUES = 64 };
static queue queues[MOST_QUEUES];
static int late;
static queue* origin; /* of a capture that is under way */
static pthread_mutex_t driver_mutex;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static double work_clock_ms;
static void work_do(const work* w);
static int is_pinned(const void* p);

static void make_lock(void) {
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&driver_mutex, &a);
}
static int lock_driver(void) { return pthread_once(&driver_once, make_lock), pthread_mutex_lock(&driver_mutex); }
static void unlock_driver(int* locked) { (void)locked, pthread_mutex_unlock(&driver_mutex); }
#define LOCKED int locked_ __attribute__((cleanup(unlock_driver), unused)) = lock_driver()

static queue* queue_of(const void* handle) {
  int i, unused = -1;
  for (i = 0; i < MOST_QUEUES; ++i) {
    if (queues[i].used && queues[i].handle == handle) return &queues[i];
    if (!queues[i].used && (unused < 0 || queues[unused].used)) unused = i;
    if (!queues[i].first && !queues[i].captured && unused < 0) unused = i; /* of a stream that may be no more */
  }
  if (unused < 0) abort();
  memset(&queues[unused], 0, sizeof queues[unused]);
  queues[unused].used = 1, queues[unused].handle = handle;
  return &queues[unused];
}

static void work_drop(queue* q) {
  work* w = q->first;
  q->first = w->next;
  if (!q->first) q->last = NULL;
  free(w->snapshot);
  free(w);
}
/* All that takes no time, and the beginnings of copies. */
static void settle(void) {
  int i, again = 1;
  while (again) {
    again = 0;
    for (i = 0; i < MOST_QUEUES; ++i) {
      work* w = queues[i].first;
      if (!w) continue;
      if (w->kind == WORK_MARK)
        w->event->done = w->record, w->event->ms = work_clock_ms += 0.001; /* a microsecond between two */
      else if (w->kind == WORK_UPLOAD && !w->begun)
        memset((void*)w->to, 0xff, w->bytes), w->begun = 1;
      if (w->kind == WORK_MARK || (w->kind == WORK_WAIT && w->event->done >= w->record)) work_drop(&queues[i]), again = 1;
    }
  }
}
/* Until the queue is empty, or the event has been recorded so often. */
static void force(queue* q, const event* until, uint64_t record) {
  settle();
  while (q->first && !(until && until->done >= record)) {
    work* w = q->first;
    if (w->kind == WORK_WAIT) {
      const event* e = w->event; /* which drops the wait */
      const uint64_t so_often = w->record;
      force(w->other, e, so_often);
      if (e->done < so_often) abort();
    } else {
      work_do(w);
      work_drop(q);
    }
    settle();
  }
}
static void force_all(void) {
  int i;
  for (i = 0; i < MOST_QUEUES; ++i) force(&queues[i], NULL, 0);
}

/* Queues a copy of *like. */
static void work_queue(const void* stream, const work* like) {
  queue* q = queue_of(stream);
  work* w = (work*)aligned_alloc(64, sizeof(work));
  *w = *like;
  w->next = NULL, w->begun = 0, w->snapshot = NULL;
  if (w->kind == WORK_UPLOAD && late && !is_pinned((const void*)w->from)) {
    w->snapshot = (char*)malloc(w->bytes);
    memcpy(w->snapshot, (const void*)w->from, w->bytes);
    w->from = (uint64_t)w->snapshot;
  }
  if (q->last)
    q->last->next = w;
  else
    q->first = w;
  q->last = w;
  ++q->length, q->waits = w->kind == WORK_WAIT;
  late ? settle() : force(q, NULL, 0);
}

/* Before pinned memory is freed: what is queued is done; 1 where a copy has to do with that memory, which nobody waited for. (The driver
 * itself waits before it frees memory of the device.) */
static int force_before_free(uint64_t begin, size_t bytes) {
  int i, used = 0;
  const work* w;
  for (i = 0; i < MOST_QUEUES; ++i)
    for (w = queues[i].first; w; w = w->next)
      used |= (w->kind == WORK_UPLOAD || w->kind == WORK_COPY) &&
              ((w->to < begin + bytes && begin < w->to + w->bytes) || (w->from < begin + bytes && begin < w->from + w->bytes));
  force_all();
  return used;
}

static int event_record(event* e, const void* stream) {
  queue* q = queue_of(stream);
  work w = {.kind = WORK_MARK, .event = e, .record = ++e->recorded};
  e->queue = q, e->captured = origin && q->captured, e->covers = q->length;
  return work_queue(stream, &w), 0;
}
static int event_follow(const void* stream, event* e) {
  queue* q = queue_of(stream);
  work w = {.kind = WORK_WAIT, .event = e, .record = e->recorded, .other = e->queue};
  if (!e->recorded) return 0;
  if (origin && q->captured && !e->captured) return CAPTURE_ISOLATION;
  if (!origin && e->captured) return CAPTURE_ISOLATION;
  if (e->captured) q->captured = 1;
  if (q == origin && e->queue->joined < e->covers) e->queue->joined = e->covers;
  return work_queue(stream, &w), 0;
}
/* Begins and, with stream NULL, ends a capture, whose work is done nevertheless; how many streams the captured one did not wait for. */
static int __attribute__((unused)) capture_of(const void* stream) {
  int i, apart = 0;
  for (i = 0; i < MOST_QUEUES; ++i) {
    apart += origin && queues[i].captured && &queues[i] != origin && queues[i].joined < queues[i].length - 1;
    queues[i].captured = 0, queues[i].joined = 0;
  }
  origin = stream ? queue_of(stream) : NULL;
  if (origin) origin->captured = 1;
  return apart;
}
static void queue_end(const void* stream) {
  queue* q = queue_of(stream);
  force(q, NULL, 0);
  q->used = 0;
}
