#pragma once
#include <string>

#include "import/json.h"

namespace aotc::import {

/// "file.py:12 in forward: self.fc(x)": the innermost frame of the stack trace that is not PyTorch's own; empty when there is none.
std::string source_line(const std::string& stack_trace);
/// "/home/me/net.py:12", where that frame is; empty when there is none.
std::string source_place(const std::string& stack_trace);
/// "encoder.layer.0" from nn_module_stack; empty when there is none.
std::string module_path(const std::string& nn_module_stack);
/// Paths of the leaves of a serialized pytree, "args[0]['mask']" for the inputs of a call (tuple of args and kwargs) or "[0].logits".
/// `call` names the two halves "args" and "kwargs". Empty when the text is not understood: paths are documentation only. Throws Diagnostic
/// where it nests without end.
std::vector<std::string> tree_paths(const std::string& spec, bool call, const Loc& where = {});

}  // namespace aotc::import
