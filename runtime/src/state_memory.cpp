// Where a context's states lie, and how contexts share them: a file in memory whose pages each maps for itself and gets a copy of where it
// writes (MAP_PRIVATE).
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "atomic.h"
#include "states.h"
#include "status.h"

namespace aotc::rt {

/// A file without a name. Its pages are written through the mapping of one context at most, and by nobody while it is some context's image.
struct StateFile {
  int fd;
  uint32_t references;  ///< state_file and state_image of contexts
  bool written;         ///< through a mapping: made with its context
};

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMapped = 64u << 10;      // a piece of a prefix that is worth a mapping of its own
constexpr uint64_t kGivenBack = 256u << 10;  // zeros that are worth giving memory back for
constexpr unsigned kCloseOnExec = 1;         // MFD_CLOEXEC; older C libraries do not name it, nor memfd_create
constexpr int kRemove = 9;                   // MADV_REMOVE

StateFile* make_file(uint64_t bytes) {
  const long fd = syscall(SYS_memfd_create, "aotc states", kCloseOnExec);
  if (fd < 0) return nullptr;
  StateFile* file = take<StateFile>(1);
  if (!file || ftruncate(static_cast<int>(fd), static_cast<off_t>(bytes)) != 0) {
    free(file);
    close(static_cast<int>(fd));
    return nullptr;
  }
  file->fd = static_cast<int>(fd);
  file->references = 1;
  return file;
}

StateFile* hold(StateFile* file) {
  __atomic_add_fetch(&file->references, 1u, __ATOMIC_RELAXED);
  return file;
}

void let_go(StateFile** file) {
  if (*file && subtract(&(*file)->references, 1u) == 0) {
    close((*file)->fd);
    free(*file);
  }
  *file = nullptr;
}

void* map_file(const StateFile& file, uint64_t bytes, int kind) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind | MAP_NORESERVE, file.fd, 0);
  return at == MAP_FAILED ? nullptr : at;
}

/// The states are in a block elsewhere, at the same places.
void move_pointers(aotc_context* c, const aotc_context& like, const Block& block) {
  uint8_t* const base = static_cast<uint8_t*>(block.base);
  const uint8_t* const before = static_cast<const uint8_t*>(like.state_block.base);
  for (uint32_t s = 0; s < c->model->module->n_states; ++s) {
    const State& old = like.states[s];
    uint8_t* const now = base + (old.now - before);
    uint8_t* const next = old.next ? base + (old.next - before) : nullptr;
    c->states[s].now = now;
    c->states[s].next = next;
  }
}

void free_block(aotc_context* c) {
  if (c->state_map == StateMap::own)
    model_free_block(*c->model, &c->state_block);
  else if (c->state_block.base)
    munmap(c->state_block.base, c->state_block.bytes);
  c->state_block = Block{};
}

/// The states' memory is another mapping from now on, with the same content.
void replace_block(aotc_context* c, void* base, StateMap map) {
  const Block block = {base, c->state_block.bytes};
  move_pointers(c, *c, block);
  free_block(c);
  c->state_block = block;
  c->state_map = map;
}

bool can_share(const aotc_model& model) { return !model.cuda && !model.allocator.alloc; }

bool write_at(int fd, const uint8_t* from, uint64_t bytes, uint64_t offset) {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t n = pwrite(fd, from + done, bytes - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<uint64_t>(n);
  }
  return true;
}

}  // namespace

aotc_status states_alloc(aotc_context* c, uint64_t bytes, bool* zeros) {
  *zeros = false;
  const bool forks = (c->flags & AOTC_CONTEXT_FORKS) && can_share(*c->model) && c->busy != &c->busy_word;
  const uint64_t rounded = align_up(bytes, kPage);
  if (StateFile* file = forks && bytes ? make_file(rounded) : nullptr) {
    if (void* base = map_file(*file, rounded, MAP_SHARED)) {
      c->state_block = Block{base, rounded};
      c->state_map = StateMap::shared;
      c->state_file = file;
      file->written = true;
      *zeros = true;
      return AOTC_STATUS_OK;
    }
    let_go(&file);
  }
  return model_alloc(*c->model, bytes, "the states", &c->state_block);
}

void states_free(aotc_context* c) {
  free_block(c);
  let_go(&c->state_file);
  let_go(&c->state_image);
}

aotc_status states_detach(aotc_context* c) {
  // Two references that are this context's own: nobody else maps the file, nor can, but through this context.
  const bool others = c->state_map == StateMap::shared && load_acquire(&c->state_file->references) > 2;
  if (others) {
    void* base = map_file(*c->state_file, c->state_block.bytes, MAP_PRIVATE);
    if (!base) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for states of %zu bytes that were forked", c->state_block.bytes);
    replace_block(c, base, StateMap::private_);
  }
  let_go(&c->state_image);
  return AOTC_STATUS_OK;
}

bool states_left_behind(const aotc_context& c) { return c.state_file->written && !c.busy[1]; }

aotc_status states_leave(aotc_context* c) {
  if (c->state_map == StateMap::shared) {
    void* base = map_file(*c->state_file, c->state_block.bytes, MAP_PRIVATE);
    if (!base) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the states of a context in a forked process");
    replace_block(c, base, StateMap::private_);
  }
  let_go(&c->state_image);
  lose_all_states(c);
  c->busy[1] = 1;
  return AOTC_STATUS_OK;
}

bool states_freeze(aotc_context* c) {
  if (!can_share(*c->model) || !c->state_block.base) return false;
  if (c->state_image) return true;
  if (c->state_map == StateMap::shared) {
    c->state_image = hold(c->state_file);
    return true;
  }
  StateFile* file = make_file(align_up(c->state_block.bytes, kPage));
  if (!file) return false;
  const uint8_t* const base = static_cast<const uint8_t*>(c->state_block.base);
  for (uint32_t s = 0; s < c->model->module->n_states; ++s)
    if (!write_at(file->fd, c->states[s].now, c->model->module->states[s].bytes, static_cast<uint64_t>(c->states[s].now - base))) {
      let_go(&file);
      return false;
    }
  c->state_image = file;
  return true;
}

bool states_map(const aotc_context& from, bool empty, Block* out) {
  const uint64_t bytes = align_up(from.state_block.bytes, kPage);
  void* base = empty ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                     : map_file(*from.state_image, bytes, MAP_PRIVATE);
  if (!base || base == MAP_FAILED) return false;
  *out = Block{base, bytes};
  return true;
}

bool states_map_part(const aotc_context& from, const Block& block, uint64_t offset, uint64_t bytes) {
  uint8_t* const to = static_cast<uint8_t*>(block.base) + offset;
  const uint8_t* const content = static_cast<const uint8_t*>(from.state_block.base) + offset;
  const uint64_t first = align_up(offset, kPage), end = (offset + bytes) / kPage * kPage;
  if (end <= first || end - first < kMapped) {
    memcpy(to, content, bytes);
    return true;
  }
  if (mmap(static_cast<uint8_t*>(block.base) + first, end - first, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
           from.state_image->fd, static_cast<off_t>(first)) == MAP_FAILED)
    return false;
  memcpy(to, content, first - offset);
  memcpy(to + (end - offset), content + (end - offset), offset + bytes - end);
  return true;
}

void states_drop(Block* block) {
  munmap(block->base, block->bytes);
  *block = Block{};
}

void states_adopt(aotc_context* to, const aotc_context& from, const Block& block, bool whole) {
  free_block(to);
  let_go(&to->state_file);
  let_go(&to->state_image);
  to->state_block = block;
  to->state_map = StateMap::private_;
  to->state_file = hold(from.state_image);
  if (whole) to->state_image = hold(from.state_image);
  move_pointers(to, from, block);
}

void states_clear(const aotc_context& c, uint8_t* at, uint64_t bytes) {
  const uint64_t from = reinterpret_cast<uintptr_t>(at), first = align_up(from, kPage), end = (from + bytes) / kPage * kPage;
  const bool gives = !c.model->allocator.alloc && c.state_map != StateMap::private_ && end > first && end - first >= kGivenBack;
  if (gives && madvise(reinterpret_cast<void*>(first), end - first, c.state_map == StateMap::own ? MADV_DONTNEED : kRemove) == 0) {
    memset(at, 0, first - from);
    memset(at + (end - from), 0, from + bytes - end);
    return;
  }
  memset(at, 0, bytes);
}

}  // namespace aotc::rt
