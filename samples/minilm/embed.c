/* Sentences to embeddings with all-MiniLM-L6-v2 in plain C: no Python, no LibTorch.
 *
 *   cc -std=c11 -O2 -I runtime/include samples/minilm/embed.c -o embed -ldl -lm
 *   ./embed minilm.so vocab.txt "A cat sits on the mat." "A kitten rests on a rug."
 *
 * The artifact takes input_ids and attention_mask, int64 [batch, seq], and gives one float32 [batch, width] of unit length. Works with a
 * fixed sequence length (the sentence is padded) and with a dynamic one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "aotc/loader.h"
#include "wordpiece.h"

enum { MAX_SEQ = 512, MAX_WIDTH = 4096, MAX_SENTENCES = 64 };

typedef struct embedder {
  aotc_library lib;
  const aotc_api* api;
  aotc_model* model;
  aotc_context* context;
  wordpiece tokenizer;
  int64_t max_seq; /* ids that a sentence may have */
  int fixed;       /* a sentence has exactly max_seq ids */
  int64_t width;   /* of an embedding */
} embedder;

/* 0 after a failure was printed */
static int good(const embedder* e, aotc_status status, const char* what) {
  if (status != AOTC_STATUS_OK) fprintf(stderr, "%s: %s: %s\n", what, e->api->status_name(status), e->api->last_error());
  return status == AOTC_STATUS_OK;
}

static int open_embedder(embedder* e, const char* artifact, const char* vocab) {
  aotc_io_info ids = AOTC_IO_INFO_INIT, out = AOTC_IO_INFO_INIT;
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  int32_t inputs = 0, outputs = 0;
  memset(e, 0, sizeof *e);
  if (!wordpiece_open(&e->tokenizer, vocab)) return fprintf(stderr, "%s is not a vocabulary of BERT\n", vocab), 0;
  if (aotc_library_open(artifact, AOTC_DEVICE_DEFAULT, &e->lib) != AOTC_STATUS_OK) return fprintf(stderr, "%s\n", e->lib.error), 0;
  e->api = e->lib.api;
  options.num_threads = -1;
  if (!good(e, e->api->model_create(NULL, &e->model), artifact)) return 0;
  if (!good(e, e->api->context_create(e->model, &options, &e->context), artifact)) return 0;
  e->api->io_count(e->model, AOTC_INPUT, &inputs);
  e->api->io_count(e->model, AOTC_OUTPUT, &outputs);
  if (inputs != 2 || outputs != 1 || e->api->io_get(e->model, AOTC_INPUT, 0, &ids) != AOTC_STATUS_OK ||
      e->api->io_get(e->model, AOTC_OUTPUT, 0, &out) != AOTC_STATUS_OK || ids.rank != 2 || out.rank != 2 || out.dtype != AOTC_DTYPE_F32 ||
      out.dims[1].symbol || out.dims[1].value > MAX_WIDTH)
    return fprintf(stderr, "%s is not a sentence embedder with input_ids and attention_mask\n", artifact), 0;
  e->fixed = ids.dims[1].symbol == NULL;
  e->max_seq = e->fixed ? ids.dims[1].value : ids.dims[1].max;
  if (e->max_seq > MAX_SEQ) e->max_seq = MAX_SEQ;
  e->width = out.dims[1].value;
  return 1;
}

static void close_embedder(embedder* e) {
  if (e->api) e->api->context_destroy(e->context);
  if (e->api) e->api->model_destroy(e->model);
  aotc_library_close(&e->lib);
  wordpiece_close(&e->tokenizer);
}

/* 0 after a failure was printed */
static int embed(embedder* e, const char* sentence, float* embedding) {
  int64_t ids[MAX_SEQ] = {0}, mask[MAX_SEQ] = {0};
  const int64_t n = (int64_t)wordpiece_encode(&e->tokenizer, sentence, ids, (size_t)e->max_seq);
  const int64_t in_shape[2] = {1, e->fixed ? e->max_seq : n}, out_shape[2] = {1, e->width};
  const uint64_t bytes = (uint64_t)in_shape[1] * sizeof(int64_t);
  aotc_tensor in[2], out;
  int64_t i;
  for (i = 0; i < n; ++i) mask[i] = 1;
  in[0] = aotc_host_tensor(ids, in_shape, 2, AOTC_DTYPE_I64, bytes);
  in[1] = aotc_host_tensor(mask, in_shape, 2, AOTC_DTYPE_I64, bytes);
  out = aotc_host_tensor(embedding, out_shape, 2, AOTC_DTYPE_F32, (uint64_t)e->width * sizeof(float));
  return good(e, e->api->run(e->context, in, 2, &out, 1), sentence);
}

static double cosine(const float* a, const float* b, int64_t n) {
  double ab = 0, aa = 0, bb = 0;
  int64_t i;
  for (i = 0; i < n; ++i) {
    ab += (double)a[i] * b[i];
    aa += (double)a[i] * a[i];
    bb += (double)b[i] * b[i];
  }
  return ab / sqrt(aa * bb);
}

static double now_ms(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

int main(int argc, char** argv) {
  static float embeddings[MAX_SENTENCES][MAX_WIDTH];
  embedder e;
  int i, k, n = argc - 3, ok;
  if (n < 1 || n > MAX_SENTENCES) {
    fprintf(stderr, "usage: embed model.so vocab.txt \"a sentence\" [\"another\" ...]\n");
    return 2;
  }
  ok = open_embedder(&e, argv[1], argv[2]);
  for (i = 0; i < n && ok; ++i) {
    const double start = now_ms();
    ok = embed(&e, argv[3 + i], embeddings[i]);
    if (!ok) break;
    printf("\"%s\"\n  [", argv[3 + i]);
    for (k = 0; k < 6 && k < e.width; ++k) printf("%s%.6f", k ? ", " : "", (double)embeddings[i][k]);
    printf(", ...] %lld values, %.2f ms\n", (long long)e.width, now_ms() - start);
  }
  for (i = 1; i < n && ok; ++i) printf("cosine similarity of 1 and %d: %.4f\n", i + 1, cosine(embeddings[0], embeddings[i], e.width));
  close_embedder(&e);
  return !ok;
}
