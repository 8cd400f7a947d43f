#pragma once
// Operators that draw random numbers, replaced in the program by what their numbers are made of: bits that `kRandomBits` makes of a state,
// and ordinary operators. The rest of the compiler and the reference runner meet no random operator that this file knows, and so agree on
// every number.
#include "import/program.h"

namespace aotc::import {

/// aotc.random_bits.default(Tensor state, int slot, SymInt[] size) -> Tensor: int64 of these sizes; element i, row-major, is philox(i, key)
/// with the key philox_key(state[0], state[1], slot) (base/philox.h).
inline constexpr std::string_view kRandomBits = "aotc.random_bits.default";

/// What the state is called that a program which draws numbers gets: a buffer, int64 [2], the seed and how many runs there were, 0 and 0 as
/// saved. A run adds 1 to the second. A name that the program has already gets a line behind it.
inline constexpr std::string_view kRandomState = "random_state";

/// Replaces them, but for those whose numbers nothing depends on (see silenced), in branches and bodies of loops (`subgraphs`), and what no
/// row says how to draw: these stay, and their rules say what is the matter. Numbers follow PyTorch's distributions, not its sequences.
void draw_numbers(Program& program);

/// Whether all that depends on a tensor of finite numbers has first multiplied it by the number 0.
bool silenced(const Program& program, const std::string& name);

}  // namespace aotc::import
