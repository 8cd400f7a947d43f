#pragma once
#include "import/program.h"

namespace aotc::import {

/// Names for what the archive only numbers. Symbols of dimensions ("s77") are called after the first input that has them alone, else in an
/// expression ("input_ids_1": input and dimension). Tensors that the program writes and that are no attributes of a module
/// ("layers.3.lifted_tensor_89") are called by the module and the attribute in the line of the write ("layers.3.keys"), or by what
/// the line updates ("layers.3.k" of "k, v = cache.update(k, v)"), else by their number in the module ("layers.3.state_0"). What results
/// are called: import/result_name.h.
void name_parts(Program& program);

/// The symbols that have other names now than in the archive, by those; Program::sym_ints has them, too.
std::map<std::string, SymId> archive_symbols(const Program& program);

}  // namespace aotc::import
