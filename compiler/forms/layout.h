#pragma once
#include <functional>

#include "base/machine.h"
#include "graph/conv_as.h"
#include "graph/graph.h"

namespace aotc::forms {
/// What the machine's best form for a convolution of a graph should take, by estimate, in nanoseconds; infinity where no form takes it.
/// What passes::PassContext::conv_ns asks for.
std::function<double(const Graph& g, const Node& conv, ConvAs as)> conv_costs(const Goal& goal);
/// The same for any contraction with operands of the type (of recurrences: with the state's weight of the type), in the layout that suits
/// it best. What passes::PassContext::contraction_ns asks for.
std::function<double(const Graph& g, const Node& contraction, DType in)> contraction_costs(const Goal& goal);
}  // namespace aotc::forms
