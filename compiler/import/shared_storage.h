#pragma once
// Parameters, buffers and constants that lie in one storage: where it is written they are one state.
#include "import/program.h"

namespace aotc::import {

/// Of the inputs that share memory which the program or the caller (ProgramInput::is_state) changes, one becomes the state, the others
/// views of it (SharedStorage::states): the one that is all of that memory, or, where there is none, an input of its own, flat, called
/// NAME.storage. What writes one of them writes the state: Program::outputs has it in their stead. Inputs whose elements lie apart stay by
/// themselves. Tensors of several types in memory that is changed are a Diagnostic. May be called again, after more became states.
void share_states(Program& program);

/// The name of the input that is the state which this one is a view of; null where it is none.
const std::string* state_of(const Program& program, const ProgramInput& in);

/// Turns the inputs that are views of others into nodes: slices, reshapes and permutes of the state.
void views_as_nodes(Program& program);

}  // namespace aotc::import
