#pragma once
// The steps of one shape as a CUDA graph: a chain of nodes, launched as one, whose pointers are patched where they lie elsewhere than in
// the run before. Every function needs a CudaScope.
#include <stdint.h>

#include "cuda.h"

namespace aotc::rt {

struct CudaGraph;

/// Whether the driver has what graphs need: dependencies of overlapping kernels came with CUDA 12.3.
bool cuda_has_graphs(const Cuda& cuda);

/// An empty chain for `n_steps` steps.
aotc_status cuda_graph_make(Cuda* cuda, uint32_t n_steps, CudaGraph** out);
/// The next step, in order, once for each. A work of no kind has no node.
aotc_status cuda_graph_add(CudaGraph* graph, const CudaWork& work);
/// An event that is recorded once all that was added before it is over; what is added next begins after it.
aotc_status cuda_graph_mark(CudaGraph* graph, void* event);
/// After the last step: ready to be launched.
aotc_status cuda_graph_finish(CudaGraph* graph);
/// Of works, not marks.
uint32_t cuda_graph_nodes(const CudaGraph& graph);

/// Whether the graph can be patched to this work of step `step`: the same kind, or none.
bool cuda_graph_takes(const CudaGraph& graph, uint32_t step, const CudaWork& work);
/// The work that launches from now on do at the step.
aotc_status cuda_graph_set(CudaGraph* graph, uint32_t step, const CudaWork& work);
aotc_status cuda_graph_launch(CudaGraph* graph, void* stream);
/// Null is fine. What was launched still runs to its end.
void cuda_graph_free(CudaGraph* graph);

}  // namespace aotc::rt
