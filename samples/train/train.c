/* Trains a model in plain C: the artifact of a training program gives the loss and the gradients, this program updates the parameters by
 * stochastic gradient descent.
 *
 *   aotc build net.pt2 --parameters-as-states -o net.so
 *   cc -std=c11 -O2 -I runtime/include samples/train/train.c -o train -ldl -lm
 *   ./train net.so net.batches 100 0.05 [net.eager]
 *
 * net.batches: the inputs of each step, one after the other, as the artifact takes them. net.eager: the losses of the same steps by
 * PyTorch, a number a line; they are printed beside, and a curve that leaves them is a failure (exit 1). samples/train/export.py writes all
 * three.
 *
 * The output "loss" is the loss, an output "grad_NAME" the gradient of the state NAME. Other states (running statistics of batch norm) are
 * updated by the runs themselves. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aotc/loader.h"

enum { MAX_RANK = 8 };

/* A tensor of fixed shape and its memory. */
typedef struct buffer {
  aotc_tensor tensor;
  int64_t shape[MAX_RANK], elems;
  char name[256];
} buffer;

typedef struct parameter {
  buffer value;
  const buffer* gradient;
} parameter;

typedef struct trainer {
  aotc_library lib;
  const aotc_api* api;
  aotc_model* model;
  aotc_context* context;
  buffer *in, *out;
  aotc_tensor *in_tensors, *out_tensors;
  parameter* parameters;
  int32_t n_in, n_out, n_parameters;
  const buffer* loss;
} trainer;

static int fail(const char* what, const char* why) { return fprintf(stderr, "%s: %s\n", what, why), 0; }

/* 0 after a failure was printed */
static int good(const trainer* t, aotc_status status, const char* what) { return status == AOTC_STATUS_OK || fail(what, t->api->last_error()); }

static uint64_t element_bytes(uint32_t dtype) {
  switch (dtype) {
    case AOTC_DTYPE_F64:
    case AOTC_DTYPE_I64: return 8;
    case AOTC_DTYPE_F32:
    case AOTC_DTYPE_I32: return 4;
    case AOTC_DTYPE_F16:
    case AOTC_DTYPE_BF16:
    case AOTC_DTYPE_I16: return 2;
    default: return 1;
  }
}

/* The i-th input, output or state, with memory of its own. */
static int make_buffer(const trainer* t, int32_t kind, int32_t i, buffer* b) {
  aotc_io_info info = AOTC_IO_INFO_INIT;
  uint64_t bytes;
  int32_t d;
  if (!good(t, t->api->io_get(t->model, kind, i, &info), "io_get")) return 0;
  if (info.rank > MAX_RANK) return fail(info.name, "has too many dimensions");
  snprintf(b->name, sizeof b->name, "%s", info.name);
  b->elems = 1;
  for (d = 0; d < info.rank; ++d) {
    if (info.dims[d].symbol) return fail(info.name, "has a dimension that varies; fix it in shapes.json");
    b->elems *= b->shape[d] = info.dims[d].value;
  }
  bytes = (uint64_t)b->elems * element_bytes(info.dtype);
  b->tensor = aotc_host_tensor(calloc(1, bytes + 1), b->shape, info.rank, info.dtype, bytes);
  return b->tensor.data || fail(info.name, "no memory");
}

static buffer* make_buffers(const trainer* t, int32_t kind, int32_t* n, aotc_tensor** tensors) {
  buffer* all;
  int32_t i;
  if (!good(t, t->api->io_count(t->model, kind, n), "io_count")) return NULL;
  all = calloc((size_t)*n + 1, sizeof *all);
  *tensors = calloc((size_t)*n + 1, sizeof **tensors);
  if (!all || !*tensors) return fail("buffers", "no memory"), free(all), NULL;
  for (i = 0; i < *n; ++i) {
    if (!make_buffer(t, kind, i, &all[i])) return free(all), NULL;
    (*tensors)[i] = all[i].tensor;
  }
  return all;
}

/* States that a gradient belongs to, with their initial values. */
static int find_parameters(trainer* t) {
  int32_t n, i, k;
  if (!good(t, t->api->io_count(t->model, AOTC_STATE, &n), "io_count")) return 0;
  t->parameters = calloc((size_t)n + 1, sizeof *t->parameters);
  if (!t->parameters) return fail("parameters", "no memory");
  for (i = 0; i < n; ++i) {
    parameter* p = &t->parameters[t->n_parameters];
    if (!make_buffer(t, AOTC_STATE, i, &p->value)) return 0;
    for (k = 0; k < t->n_out; ++k)
      if (strncmp(t->out[k].name, "grad_", 5) == 0 && strcmp(t->out[k].name + 5, p->value.name) == 0) p->gradient = &t->out[k];
    if (!p->gradient) {
      free(p->value.tensor.data);
      memset(p, 0, sizeof *p);
      continue;
    }
    if (p->value.tensor.dtype != AOTC_DTYPE_F32) return fail(p->value.name, "only float32 parameters are trained here");
    if (!good(t, t->api->state_read(t->context, p->value.name, &p->value.tensor), p->value.name)) return 0;
    ++t->n_parameters;
  }
  return t->n_parameters || fail("parameters", "no state has a gradient; build with --parameters-as-states");
}

static int open_trainer(trainer* t, const char* artifact) {
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  int32_t k;
  memset(t, 0, sizeof *t);
  if (aotc_library_open(artifact, AOTC_DEVICE_DEFAULT, &t->lib) != AOTC_STATUS_OK) return fail(artifact, t->lib.error);
  t->api = t->lib.api;
  options.num_threads = -1;
  if (!good(t, t->api->model_create(NULL, &t->model), artifact)) return 0;
  if (!good(t, t->api->context_create(t->model, &options, &t->context), artifact)) return 0;
  t->in = make_buffers(t, AOTC_INPUT, &t->n_in, &t->in_tensors);
  t->out = make_buffers(t, AOTC_OUTPUT, &t->n_out, &t->out_tensors);
  if (!t->in || !t->out) return 0;
  for (k = 0; k < t->n_out; ++k)
    if (strcmp(t->out[k].name, "loss") == 0 && t->out[k].tensor.dtype == AOTC_DTYPE_F32) t->loss = &t->out[k];
  if (!t->loss) return fail(artifact, "has no output named loss; is it a training program?");
  return find_parameters(t);
}

static void close_trainer(trainer* t) {
  int32_t i;
  for (i = 0; t->in && i < t->n_in; ++i) free(t->in[i].tensor.data);
  for (i = 0; t->out && i < t->n_out; ++i) free(t->out[i].tensor.data);
  for (i = 0; i < t->n_parameters; ++i) free(t->parameters[i].value.tensor.data);
  free(t->in), free(t->out), free(t->in_tensors), free(t->out_tensors), free(t->parameters);
  if (t->api) t->api->context_destroy(t->context);
  if (t->api) t->api->model_destroy(t->model);
  aotc_library_close(&t->lib);
}

/* One step on the next batch of the file: loss and gradients at the present parameters, then parameter -= rate * gradient. */
static int step(trainer* t, FILE* batches, float rate, double* loss) {
  int32_t i;
  int64_t k;
  for (i = 0; i < t->n_in; ++i)
    if (fread(t->in[i].tensor.data, 1, t->in[i].tensor.byte_size, batches) != t->in[i].tensor.byte_size)
      return fail(t->in[i].name, "the file of batches ends");
  if (!good(t, t->api->run(t->context, t->in_tensors, t->n_in, t->out_tensors, t->n_out), "run")) return 0;
  *loss = *(const float*)t->loss->tensor.data;
  for (i = 0; i < t->n_parameters; ++i) {
    const parameter* p = &t->parameters[i];
    float* value = p->value.tensor.data;
    const float* gradient = p->gradient->tensor.data;
    for (k = 0; k < p->value.elems; ++k) value[k] -= rate * gradient[k];
    if (!good(t, t->api->state_write(t->context, p->value.name, &p->value.tensor), p->value.name)) return 0;
  }
  return 1;
}

int main(int argc, char** argv) {
  trainer t;
  FILE *batches, *eager = NULL;
  double loss = 0, want = 0, worst = 0;
  int i, steps, ok;
  if (argc < 5 || argc > 6) {
    fprintf(stderr, "usage: train model.so model.batches steps rate [model.eager]\n");
    return 2;
  }
  steps = atoi(argv[3]);
  batches = fopen(argv[2], "rb");
  if (!batches) return fail(argv[2], "cannot be read"), 1;
  if (argc == 6 && !(eager = fopen(argv[5], "r"))) return fail(argv[5], "cannot be read"), fclose(batches), 1;
  ok = open_trainer(&t, argv[1]);
  if (ok) printf("%d parameters\n", (int)t.n_parameters);
  for (i = 0; i < steps && ok; ++i) {
    ok = step(&t, batches, (float)atof(argv[4]), &loss);
    if (!ok) break;
    if (eager) {
      double away;
      if (fscanf(eager, "%lf", &want) != 1) {
        ok = fail(argv[5], "has too few losses");
        break;
      }
      away = fabs(loss - want) / fabs(want);
      if (!(away <= worst)) worst = away; /* NaN counts */
    }
    if (i % 10 == 0 || i == steps - 1) {
      printf("step %3d  loss %.6f", i, loss);
      if (eager) printf("  eager %.6f", want);
      printf("\n");
    }
  }
  if (ok && eager) {
    printf("largest relative distance from eager: %.2g\n", worst);
    ok = worst < 1e-3;
    if (!ok) fail(argv[1], "leaves the curve of eager");
  }
  close_trainer(&t);
  fclose(batches);
  if (eager) fclose(eager);
  return !ok;
}
