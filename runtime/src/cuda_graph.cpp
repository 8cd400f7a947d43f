#include "cuda_graph.h"

#include <stdlib.h>

#include "cuda_driver.h"
#include "memory.h"
#include "status.h"

namespace aotc::rt {
namespace {

constexpr int kDeviceMemory = 2;  // CU_MEMORYTYPE_DEVICE
/// The successor starts when all blocks of the kernel have let it or have ended: CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC and
/// CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC. Between kernels only.
constexpr GraphEdge kOverlapping = {1, 0, 1, {}};

struct Node {
  CUgraphNode handle;
  CudaWork::Kind kind;
};

KernelNode kernel_node(const Cuda& cuda, const CudaLaunch& l, void** parameters) {
  return {cuda.functions[l.kernel],
          {l.grid[0], l.grid[1], l.grid[2]},
          {l.block[0], l.block[1], l.block[2]},
          l.smem_bytes,
          parameters,
          nullptr,
          nullptr,
          nullptr};
}

CopyNode copy_node(const CudaWork& w) {
  CopyNode n{};
  n.from.memory_type = n.to.memory_type = kDeviceMemory;
  n.from.device = address(w.from), n.to.device = address(w.to);
  n.width_bytes = n.from.pitch = n.to.pitch = w.bytes;
  n.height = n.depth = n.from.height = n.to.height = 1;
  return n;
}

FillNode fill_node(const CudaWork& w) { return {address(w.to), 0, 0, 1, w.bytes, 1}; }

}  // namespace

struct CudaGraph {
  Cuda* cuda;
  CUgraph graph;  ///< its nodes name those of `exec`
  CUgraphExec exec;
  uint32_t n_steps, n_nodes;
  Node last;    ///< of the chain; a mark is of no kind
  Node* nodes;  ///< by step
};

bool cuda_has_graphs(const Cuda& cuda) {
  const Driver& d = cuda.driver;
  return d.graph_create && d.graph_destroy && d.graph_add_kernel && d.graph_add_copy && d.graph_add_fill && d.graph_add_mark &&
         d.graph_add_edges && d.graph_instantiate && d.graph_set_kernel && d.graph_set_copy && d.graph_set_fill && d.graph_launch &&
         d.graph_exec_destroy;
}

aotc_status cuda_graph_make(Cuda* cuda, uint32_t n_steps, CudaGraph** out) {
  CudaGraph* g = take<CudaGraph>(1);
  Node* nodes = take<Node>(n_steps);
  if (!g || !nodes) {
    free(g);
    free(nodes);
    return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for a graph of %u steps", n_steps);
  }
  g->cuda = cuda;
  g->nodes = nodes;
  *out = g;
  return cuda_check(cuda, cuda->driver.graph_create(&g->graph, 0), "making a graph");
}

aotc_status cuda_graph_add(CudaGraph* g, const CudaWork& w) {
  Cuda* const cuda = g->cuda;
  const Driver& d = cuda->driver;
  Node& node = g->nodes[g->n_steps++];
  node.kind = w.kind;
  if (w.kind == CudaWork::nothing) return AOTC_STATUS_OK;
  const bool overlapping = w.kind == CudaWork::kernel && w.launch.overlaps && g->last.kind == CudaWork::kernel;
  const CUgraphNode* const after = &g->last.handle;
  const size_t n_after = g->last.handle && !overlapping ? 1 : 0;
  CUresult code = kSuccess;
  if (w.kind == CudaWork::kernel) {
    void* parameters[] = {w.launch.args};
    const KernelNode n = kernel_node(*cuda, w.launch, parameters);
    code = d.graph_add_kernel(&node.handle, g->graph, after, n_after, &n);
  } else if (w.kind == CudaWork::copy) {
    const CopyNode n = copy_node(w);
    code = d.graph_add_copy(&node.handle, g->graph, after, n_after, &n, cuda->context);
  } else {
    const FillNode n = fill_node(w);
    code = d.graph_add_fill(&node.handle, g->graph, after, n_after, &n, cuda->context);
  }
  if (code == kSuccess && overlapping) code = d.graph_add_edges(g->graph, after, &node.handle, &kOverlapping, 1);
  g->last = node;
  ++g->n_nodes;
  return cuda_check(cuda, code, "adding to a graph", w.label);
}

aotc_status cuda_graph_mark(CudaGraph* g, void* event) {
  Node mark{};
  const size_t n_after = g->last.handle ? 1 : 0;
  RT_TRY(cuda_check(g->cuda, g->cuda->driver.graph_add_mark(&mark.handle, g->graph, &g->last.handle, n_after, event),
                    "adding an event to a graph"));
  g->last = mark;
  return AOTC_STATUS_OK;
}

aotc_status cuda_graph_finish(CudaGraph* g) {
  return cuda_check(g->cuda, g->cuda->driver.graph_instantiate(&g->exec, g->graph, 0), "making a graph ready");
}

uint32_t cuda_graph_nodes(const CudaGraph& g) { return g.n_nodes; }

bool cuda_graph_takes(const CudaGraph& g, uint32_t step, const CudaWork& w) { return g.nodes[step].kind == w.kind; }

aotc_status cuda_graph_set(CudaGraph* g, uint32_t step, const CudaWork& w) {
  Cuda* const cuda = g->cuda;
  const Driver& d = cuda->driver;
  const CUgraphNode node = g->nodes[step].handle;
  CUresult code = kSuccess;
  if (w.kind == CudaWork::kernel) {
    void* parameters[] = {w.launch.args};
    const KernelNode n = kernel_node(*cuda, w.launch, parameters);
    code = d.graph_set_kernel(g->exec, node, &n);
  } else if (w.kind == CudaWork::copy) {
    const CopyNode n = copy_node(w);
    code = d.graph_set_copy(g->exec, node, &n, cuda->context);
  } else if (w.kind == CudaWork::zero) {
    const FillNode n = fill_node(w);
    code = d.graph_set_fill(g->exec, node, &n, cuda->context);
  }
  return cuda_check(cuda, code, "patching a graph", w.label);
}

aotc_status cuda_graph_launch(CudaGraph* g, void* stream) {
  return cuda_check(g->cuda, g->cuda->driver.graph_launch(g->exec, stream), "launching a graph");
}

void cuda_graph_free(CudaGraph* g) {
  if (!g) return;
  if (g->exec) g->cuda->driver.graph_exec_destroy(g->exec);
  if (g->graph) g->cuda->driver.graph_destroy(g->graph);
  free(g->nodes);
  free(g);
}

}  // namespace aotc::rt
