// States in a file, or through a pipe.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aotc/detail/blob_hash.h"
#include "seal.h"
#include "states.h"
#include "status.h"

extern "C" int __xpg_strerror_r(int error, char* text, size_t bytes);  // strerror_r of POSIX, which _GNU_SOURCE hides

namespace aotc::rt {
namespace {

constexpr char kMagic[8] = {'A', 'O', 'T', 'C', 'S', 'T', 'S', '1'};
constexpr uint64_t kStaged = 1u << 20;   // bytes that go through memory between at once
constexpr uint64_t kDirect = 64u << 10;  // a piece of that size needs no memory between

/// What precedes the content: this, then n_ranges of aotc_state_range.
struct Header {
  char magic[8];
  uint64_t layout;
  uint64_t bytes;  ///< of the content
  uint32_t n_ranges;
  uint32_t reserved;
  uint64_t hash;  ///< of the header with 0 here, and the ranges
};
static_assert(sizeof(Header) == 40, "as in files");

uint64_t hash_of(Header header, const aotc_state_range* ranges) {
  header.hash = 0;
  aotc_hasher h;
  aotc_hash_begin(&h);
  aotc_hash_add(&h, &header, sizeof header);
  aotc_hash_add(&h, ranges, header.n_ranges * sizeof *ranges);
  return aotc_hash_end(&h);
}

aotc_status refused(const char* what, const char* does) {
  char text[128];
  const char* reason = __xpg_strerror_r(errno, text, sizeof text) == 0 ? text : "an unknown error";
  return fail(AOTC_STATUS_IO, "%s: %s the descriptor failed: %s", what, does, reason);
}

aotc_status write_all(int fd, const void* from, uint64_t bytes) {
  const char* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t n = write(fd, at, bytes < (1u << 30) ? bytes : 1u << 30);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ENOSPC;
    if (n <= 0) return refused("states_save", "writing");
    at += n;
    bytes -= static_cast<uint64_t>(n);
  }
  return AOTC_STATUS_OK;
}

aotc_status read_all(int fd, void* to, uint64_t bytes) {
  char* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t n = read(fd, at, bytes < (1u << 30) ? bytes : 1u << 30);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return refused("states_load", "reading");
    if (n == 0)
      return fail(AOTC_STATUS_DAMAGED, "states_load: the states are cut off: %llu bytes are missing",
                  static_cast<unsigned long long>(bytes));
    at += n;
    bytes -= static_cast<uint64_t>(n);
  }
  return AOTC_STATUS_OK;
}

/// Memory between a descriptor and small pieces, or a GPU's.
class Staging {
 public:
  Staging(aotc_context* c, int fd) : context_(c), fd_(fd), memory_(static_cast<uint8_t*>(malloc(kStaged))) {}
  ~Staging() { free(memory_); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  aotc_status status() const { return memory_ ? AOTC_STATUS_OK : fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory to move states through"); }

  aotc_status save(const uint8_t* from, uint64_t bytes) {
    if (direct(bytes)) {
      RT_TRY(flush());
      return write_all(fd_, from, bytes);
    }
    while (bytes > 0) {
      if (held_ == kStaged) RT_TRY(flush());
      const uint64_t n = bytes < kStaged - held_ ? bytes : kStaged - held_;
      RT_TRY(state_move(context_, CopyKind::to_host, memory_ + held_, from, n));
      held_ += n, from += n, bytes -= n;
    }
    return AOTC_STATUS_OK;
  }
  aotc_status flush() {
    RT_TRY(states_wait(context_));
    RT_TRY(write_all(fd_, memory_, held_));
    held_ = 0;
    return AOTC_STATUS_OK;
  }
  /// left: bytes of the content that are still to be read, these included.
  aotc_status load(uint8_t* to, uint64_t bytes, uint64_t left) {
    if (at_ == held_ && direct(bytes)) return read_all(fd_, to, bytes);
    for (uint64_t done = 0; done < bytes;) {
      if (at_ == held_) {
        RT_TRY(states_wait(context_));
        held_ = at_ = 0;
        const uint64_t n = left - done < kStaged ? left - done : kStaged;
        RT_TRY(read_all(fd_, memory_, n));
        held_ = n;
      }
      const uint64_t n = bytes - done < held_ - at_ ? bytes - done : held_ - at_;
      RT_TRY(state_move(context_, CopyKind::to_device, to + done, memory_ + at_, n));
      at_ += n, done += n;
    }
    return AOTC_STATUS_OK;
  }

 private:
  bool direct(uint64_t bytes) const { return !context_->model->cuda && bytes >= kDirect; }
  aotc_context* context_;
  int fd_;
  uint8_t* memory_;
  uint64_t held_ = 0, at_ = 0;
};

/// Bytes of what the ranges name.
uint64_t bytes_of(const aotc_module_desc& module, const Ranges& ranges) {
  uint64_t total = 0;
  for (uint32_t s = 0; s < module.n_states; ++s) {
    Part part;
    bool named;
    part_of_all(module.states[s], ranges, &part, &named);
    total += part.bytes();
  }
  return total;
}

/// The header and its ranges, checked against the model. ranges: room for kMaxStateRank.
aotc_status read_header(const aotc_context& c, int fd, Header* header, aotc_state_range* ranges) {
  RT_TRY(read_all(fd, header, sizeof *header));
  if (memcmp(header->magic, kMagic, sizeof kMagic) != 0)
    return fail(AOTC_STATUS_DAMAGED, "states_load: these are not states that states_save wrote");
  if (header->n_ranges > kMaxStateRank || header->reserved) return fail(AOTC_STATUS_DAMAGED, "states_load: the header is damaged");
  RT_TRY(read_all(fd, ranges, header->n_ranges * sizeof *ranges));
  if (header->hash != hash_of(*header, ranges)) return fail(AOTC_STATUS_DAMAGED, "states_load: the header is damaged");
  const uint64_t own = states_layout(*c.model);
  if (header->layout != own)
    return fail(AOTC_STATUS_INCOMPATIBLE, "states_load: the states are of another artifact (layout %016llx; this one has %016llx)",
                static_cast<unsigned long long>(header->layout), static_cast<unsigned long long>(own));
  return AOTC_STATUS_OK;
}

/// Where the ranges of a file go.
aotc_status check_target(const Ranges& saved, const Ranges& given) {
  bool alike = saved.n == given.n;
  for (int32_t i = 0; i < given.n && alike; ++i) alike = saved.at[i].dim == given.at[i].dim && saved.at[i].length == given.at[i].length;
  if (alike) return AOTC_STATUS_OK;
  if (saved.n == 0) return fail(AOTC_STATUS_SHAPE_MISMATCH, "states_load: whole states were saved, and ranges are given");
  return fail(AOTC_STATUS_SHAPE_MISMATCH,
              "states_load: the ranges are not along the same dimensions, or not of the same lengths, as what was saved: %d, the first of "
              "%lld elements along dimension %d",
              saved.n, static_cast<long long>(saved.at[0].length), saved.at[0].dim);
}

aotc_status load_content(aotc_context* c, int fd, const Ranges& to, uint64_t bytes) {
  const aotc_module_desc& module = *c->model->module;
  Staging staging(c, fd);
  RT_TRY(staging.status());
  uint64_t left = bytes;
  for (uint32_t s = 0; s < module.n_states; ++s) {
    Part part;
    bool named;
    part_of_all(module.states[s], to, &part, &named);
    RT_TRY(for_each_piece(part, [&](uint64_t offset, uint64_t n) {
      RT_TRY(staging.load(c->states[s].now + offset, n, left));
      left -= n;
      return aotc_status{AOTC_STATUS_OK};
    }));
    if (part.whole()) c->states[s].undefined = false;
  }
  return states_wait(c);
}

}  // namespace

uint64_t states_layout(const aotc_model& model) {
  const aotc_module_desc& module = *model.module;
  aotc_hasher h;
  aotc_hash_begin(&h);
  const uint64_t weights = seal_weights_hash();
  aotc_hash_add(&h, &weights, sizeof weights);
  for (uint32_t s = 0; s < module.n_states; ++s) {
    const aotc_state_desc& d = module.states[s];
    const int64_t kind[] = {static_cast<int64_t>(d.dtype), d.rank};
    aotc_hash_add(&h, d.name, strlen(d.name) + 1);
    aotc_hash_add(&h, kind, sizeof kind);
    aotc_hash_add(&h, d.dims, static_cast<uint64_t>(d.rank) * sizeof *d.dims);
  }
  return aotc_hash_end(&h);
}

aotc_status states_save(aotc_context* c, int fd, const Ranges& ranges) {
  const aotc_module_desc& module = *c->model->module;
  RT_TRY(check_for_all("states_save", module, ranges));
  const ContextLock lock(c);
  RT_TRY(lock.status());
  RT_TRY(states_defined(*c));
  const CudaScope scope(c->model->cuda);
  RT_TRY(scope.status());
  if (c->model->cuda) RT_TRY(cuda_alive(*c->model->cuda));
  Staging staging(c, fd);
  RT_TRY(staging.status());
  Header header = {{}, states_layout(*c->model), bytes_of(module, ranges), static_cast<uint32_t>(ranges.n), 0, 0};
  memcpy(header.magic, kMagic, sizeof kMagic);
  header.hash = hash_of(header, ranges.at);
  RT_TRY(write_all(fd, &header, sizeof header));
  RT_TRY(write_all(fd, ranges.at, header.n_ranges * sizeof *ranges.at));
  for (uint32_t s = 0; s < module.n_states; ++s) {
    Part part;
    bool named;
    part_of_all(module.states[s], ranges, &part, &named);
    RT_TRY(for_each_piece(part, [&](uint64_t offset, uint64_t bytes) { return staging.save(c->states[s].now + offset, bytes); }));
  }
  return staging.flush();
}

aotc_status states_load(aotc_context* c, int fd, const Ranges& ranges) {
  const aotc_module_desc& module = *c->model->module;
  RT_TRY(check_for_all("states_load", module, ranges));
  const ContextLock lock(c);
  RT_TRY(lock.status());
  const CudaScope scope(c->model->cuda);
  RT_TRY(scope.status());
  if (c->model->cuda) RT_TRY(cuda_alive(*c->model->cuda));
  Header header;
  aotc_state_range in_file[kMaxStateRank];
  RT_TRY(read_header(*c, fd, &header, in_file));
  const Ranges saved = {in_file, static_cast<int32_t>(header.n_ranges)};
  if (check_for_all("states_load", module, saved) != AOTC_STATUS_OK || header.bytes != bytes_of(module, saved))
    return fail(AOTC_STATUS_DAMAGED, "states_load: the header is damaged");
  if (ranges.n > 0) RT_TRY(check_target(saved, ranges));
  const Ranges to = ranges.n > 0 ? ranges : saved;
  if (header.bytes != bytes_of(module, to))
    return fail(AOTC_STATUS_SHAPE_MISMATCH, "states_load: some state has less at these ranges than at those that were saved");
  RT_TRY(states_touch(c));
  const aotc_status status = load_content(c, fd, to, header.bytes);
  if (status != AOTC_STATUS_OK) lose_all_states(c);
  return status;
}

}  // namespace aotc::rt
