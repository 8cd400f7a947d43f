/* CUDA graphs for a stand-in driver whose work is done when it is queued. Included by its one source after TRY_READY, which returns the
 * status that a call of the driver gives now unless that is 0; work goes to its cuLaunchKernel, cuMemcpyDtoDAsync_v2,
 * cuMemsetD8Async and cuEventRecord.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
  GRAPH_MOST_NODES = 4096,
  GRAPH_PARAMETER_BYTES = 4096,
  GRAPH_INVALID = 1,
  NODE_KERNEL = 1,
  NODE_COPY = 2,
  NODE_FILL = 3,
  NODE_MARK = 4
};

typedef struct kernel_params {
  void* function;
  unsigned grid[3], block[3], shared;
  void **parameters, **extra;
  void *kernel, *context;
} kernel_params;
typedef struct copy_end {
  size_t x, y, z, lod;
  int type;
  const void* host;
  uint64_t device;
  void *array, *reserved;
  size_t pitch, height;
} copy_end;
typedef struct copy_params {
  copy_end from, to;
  size_t width, height, depth;
} copy_params;
typedef struct fill_params {
  uint64_t to;
  size_t pitch;
  unsigned value, element;
  size_t width, height;
} fill_params;
typedef struct edge_data {
  unsigned char from_port, to_port, type, reserved[5];
} edge_data;

typedef struct graph_node {
  int kind, overlapping, number;
  const struct graph_node* after;
  kernel_params launch;
  copy_params copy;
  fill_params fill;
  void* event;
  char arguments[GRAPH_PARAMETER_BYTES] __attribute__((aligned(64)));
} graph_node;
typedef struct graph {
  int n;
  graph_node* nodes[GRAPH_MOST_NODES];
} graph;

static int graphs_alive, graph_patches, graph_launches, graph_overlapping;
int fake_graphs(void) { return graphs_alive; } /* graphs and executable graphs that are there */
int fake_graph_patches(void) { return graph_patches; }
int fake_graph_launches(void) { return graph_launches; }
int fake_graph_overlapping(void) { return graph_overlapping; } /* edges between overlapping kernels, of all graphs that were made */

int cuGraphCreate(void** out, unsigned flags) {
  TRY_READY;
  if (flags) return GRAPH_INVALID;
  ++graphs_alive;
  return *out = calloc(1, sizeof(graph)), 0;
}
static void graph_release(graph* g) {
  int i;
  for (i = 0; i < g->n; ++i) free(g->nodes[i]);
  free(g);
  --graphs_alive;
}
int cuGraphDestroy(void* g) { return graph_release((graph*)g), 0; }
int cuGraphExecDestroy(void* g) { return graph_release((graph*)g), 0; }

static int graph_set(graph_node* node, int kind, const void* params) {
  node->kind = kind;
  if (kind == NODE_KERNEL) {
    node->launch = *(const kernel_params*)params;
    if (!node->launch.function || node->launch.extra || node->launch.kernel) return GRAPH_INVALID;
    memcpy(node->arguments, node->launch.parameters[0], sizeof node->arguments);
    return 0;
  }
  if (kind == NODE_COPY) {
    node->copy = *(const copy_params*)params;
    return node->copy.from.type == 2 && node->copy.to.type == 2 && node->copy.height == 1 && node->copy.depth == 1 ? 0 : GRAPH_INVALID;
  }
  if (kind == NODE_MARK) return node->event = (void*)params, params ? 0 : GRAPH_INVALID;
  node->fill = *(const fill_params*)params;
  return node->fill.element == 1 && node->fill.height == 1 ? 0 : GRAPH_INVALID;
}
/* A chain: every node but the first comes after the one before. */
static int graph_add(void** out, graph* g, void* const* after, size_t n_after, int kind, const void* params) {
  graph_node* node;
  TRY_READY;
  if (n_after > 1 || g->n == GRAPH_MOST_NODES) return GRAPH_INVALID;
  node = (graph_node*)aligned_alloc(64, sizeof(graph_node));
  memset(node, 0, sizeof *node);
  node->number = g->n;
  if (n_after) node->after = (const graph_node*)after[0];
  g->nodes[g->n++] = node;
  *out = node;
  return graph_set(node, kind, params);
}
int cuGraphAddKernelNode_v2(void** out, void* g, void* const* after, size_t n, const void* params) {
  return graph_add(out, (graph*)g, after, n, NODE_KERNEL, params);
}
int cuGraphAddMemcpyNode(void** out, void* g, void* const* after, size_t n, const void* params, void* context) {
  return context ? graph_add(out, (graph*)g, after, n, NODE_COPY, params) : GRAPH_INVALID;
}
int cuGraphAddMemsetNode(void** out, void* g, void* const* after, size_t n, const void* params, void* context) {
  return context ? graph_add(out, (graph*)g, after, n, NODE_FILL, params) : GRAPH_INVALID;
}
int cuGraphAddEventRecordNode(void** out, void* g, void* const* after, size_t n, void* event) {
  return graph_add(out, (graph*)g, after, n, NODE_MARK, event);
}
int cuGraphAddDependencies_v2(void* g, void* const* from, void* const* to, const edge_data* edges, size_t n) {
  const graph_node* before = (const graph_node*)from[0];
  graph_node* node = (graph_node*)to[0];
  (void)g;
  TRY_READY;
  if (n != 1 || edges->from_port != 1 || edges->to_port || edges->type != 1) return GRAPH_INVALID;
  if (before->kind != NODE_KERNEL || node->kind != NODE_KERNEL) return GRAPH_INVALID;
  node->after = before;
  node->overlapping = 1;
  ++graph_overlapping;
  return 0;
}
int cuGraphInstantiateWithFlags(void** out, void* from, unsigned long long flags) {
  const graph* g = (const graph*)from;
  graph* exec;
  int i;
  TRY_READY;
  if (flags) return GRAPH_INVALID;
  for (i = 0; i < g->n; ++i)
    if (g->nodes[i]->after != (i ? g->nodes[i - 1] : NULL)) return GRAPH_INVALID;
  exec = (graph*)calloc(1, sizeof(graph));
  for (; exec->n < g->n; ++exec->n) {
    exec->nodes[exec->n] = (graph_node*)aligned_alloc(64, sizeof(graph_node));
    memcpy(exec->nodes[exec->n], g->nodes[exec->n], sizeof(graph_node));
  }
  ++graphs_alive;
  return *out = exec, 0;
}
static int graph_patch(void* exec, const void* node, int kind, const void* params) {
  graph_node* own = ((graph*)exec)->nodes[((const graph_node*)node)->number];
  TRY_READY;
  if (own->kind != kind) return GRAPH_INVALID;
  ++graph_patches;
  return graph_set(own, kind, params);
}
int cuGraphExecKernelNodeSetParams_v2(void* exec, void* node, const void* params) { return graph_patch(exec, node, NODE_KERNEL, params); }
int cuGraphExecMemcpyNodeSetParams(void* exec, void* node, const void* params, void* context) {
  return context ? graph_patch(exec, node, NODE_COPY, params) : GRAPH_INVALID;
}
int cuGraphExecMemsetNodeSetParams(void* exec, void* node, const void* params, void* context) {
  return context ? graph_patch(exec, node, NODE_FILL, params) : GRAPH_INVALID;
}
int cuGraphLaunch(void* exec, void* stream) {
  const graph* g = (const graph*)exec;
  int i, status = 0;
  TRY_READY;
  ++graph_launches;
  for (i = 0; i < g->n && !status; ++i) {
    graph_node* n = g->nodes[i];
    const kernel_params* l = &n->launch;
    void* parameters[] = {n->arguments};
    if (n->kind == NODE_KERNEL)
      status = cuLaunchKernel(l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->shared, stream,
                              parameters, NULL);
    else if (n->kind == NODE_COPY)
      status = cuMemcpyDtoDAsync_v2(n->copy.to.device, n->copy.from.device, n->copy.width, stream);
    else if (n->kind == NODE_MARK)
      status = cuEventRecord(n->event, stream);
    else
      status = cuMemsetD8Async(n->fill.to, (unsigned char)n->fill.value, n->fill.width, stream);
  }
  return status;
}
