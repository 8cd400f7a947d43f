#pragma once
// C++ that calls a kernel of the user's own: gives it what aotc/own_kernel.h promises.
#include <string>
#include <vector>

#include "base/target.h"
#include "loop/loop.h"

namespace aotc::emit {

/// Where the text of such a call finds things, and its words for them.
struct CustomCallWords {
  std::string pointers, sizes;  ///< lists: "args->ptr", "args->size"
  std::string table;            ///< how a list of constants is declared: "static const"
  std::string int64 = "int64_t";
};
/// Statements that define `args_of_op`, an aotc_op_args of the kernel's tensors and numbers.
std::string custom_arguments(const loop::LibraryKernel& k, const CustomCallWords& words);

namespace cpu {

/// An aotc_kernel_fn. A function of the user's whose name ends in '_' has one for each instruction set of loops.
std::string emit_custom_call(const loop::LibraryKernel& k, Isa isa, const std::string& symbol);
/// A translation unit of such functions.
std::string custom_unit_source(const std::vector<std::string>& functions);

}  // namespace cpu
}  // namespace aotc::emit
