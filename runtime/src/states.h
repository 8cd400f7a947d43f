#pragma once
// States: content of the model that outlives a run, one set a context (aotc_api.state_*, states_*).
#include <stdint.h>

#include "context.h"
#include "cuda.h"
#include "state_part.h"

namespace aotc::rt {

aotc_status states_create(aotc_context* context);
void states_destroy(aotc_context* context);
/// States that the variant may have written a part of; false: there are none.
bool lose_states(aotc_context* context, const Method& method, uint32_t variant);
/// All of them, after a fork in the middle of a call.
void lose_all_states(aotc_context* context);
/// WRONG_STATE while some state is undefined.
aotc_status states_defined(const aotc_context& context);

aotc_status state_reset(aotc_context* context, const char* name);
aotc_status state_read(aotc_context* context, const char* name, const Ranges& ranges, const aotc_tensor* to);
aotc_status state_write(aotc_context* context, const char* name, const Ranges& ranges, const aotc_tensor* from);
aotc_status states_truncate(aotc_context* context, const char* name, int32_t dim, int64_t length);
aotc_status states_copy(aotc_context* to, const Ranges& ranges_to, aotc_context* from, const Ranges& ranges_from);
aotc_status states_fork(aotc_context* to, aotc_context* from, const Ranges& ranges);
uint64_t states_layout(const aotc_model& model);
aotc_status states_save(aotc_context* context, int fd, const Ranges& ranges);
aotc_status states_load(aotc_context* context, int fd, const Ranges& ranges);

// state_memory.cpp: where they lie.
/// A block of zeros for the states, `bytes` of it: a file where the context is to be forked, else the model's memory. *zeros: it holds
/// zeros already.
aotc_status states_alloc(aotc_context* context, uint64_t bytes, bool* zeros);
void states_free(aotc_context* context);
/// Before every write to the states: what other contexts map is theirs alone from here on. The states may move.
aotc_status states_detach(aotc_context* context);
inline aotc_status states_touch(aotc_context* context) {
  return __builtin_expect(!context->state_image, 1) ? AOTC_STATUS_OK : states_detach(context);
}
/// The context has a state_file, and this is a child of fork whose parent may go on to write it: states_leave first.
bool states_left_behind(const aotc_context& context);
/// Memory of its own, all states undefined.
aotc_status states_leave(aotc_context* context);
/// An image of the states as they are. False: they cannot have one, or it could not be made (no message).
bool states_freeze(aotc_context* context);
/// Memory for the states of `context` that maps the image of `from`: all of it, or, `empty`, none of it yet but zeros, to be filled by
/// states_map_part. Then takes the place of what the context had. False: it could not be had (no message), and nothing changed.
bool states_map(const aotc_context& from, bool empty, Block* out);
/// Maps what of [offset, offset + bytes) of the image of `from` are whole pages over those of a block of states_map, and copies the rest.
/// False: it could not be had, and the block must be dropped.
bool states_map_part(const aotc_context& from, const Block& block, uint64_t offset, uint64_t bytes);
void states_drop(Block* block);
/// `block`, of states_map, takes the place of the memory of `to`, which has the pointers of `from` in it. whole: the content is that of
/// `from`, too.
void states_adopt(aotc_context* to, const aotc_context& from, const Block& block, bool whole);
/// Fills `bytes` of a state of a CPU with zeros, giving back what memory can be.
void states_clear(const aotc_context& context, uint8_t* at, uint64_t bytes);

/// Bytes [offset, offset + bytes) of a state have their initial content again.
aotc_status state_reset_piece(aotc_context* context, uint32_t state, uint64_t offset, uint64_t bytes);
/// It has an initial content other than zeros.
bool state_has_initial(const aotc_context& context, uint32_t state);
/// Between a state and host memory, or on the device; on a GPU in the order of the context's stream.
aotc_status state_move(aotc_context* context, CopyKind kind, void* to, const void* from, uint64_t bytes);
/// Waits for a GPU's stream, where states were moved.
aotc_status states_wait(aotc_context* context);

}  // namespace aotc::rt
