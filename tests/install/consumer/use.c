/* Through the typed functions of the generated header. Prints the result's elements. */
#include <aotc/loader.h>
#include <net.h>
#include <stdio.h>

#define ROWS 3

int main(void) {
  const net_sizes sizes = {ROWS}, too_many = {33};
  float x[33 * 16], y[33 * 24];
  aotc_library lib;
  aotc_model* model;
  aotc_context* context;
  int i;
  for (i = 0; i < 33 * 16; ++i) x[i] = (float)(i % 7) - 3.0f;
  if (net_library_open(NET_PATH, &lib) != AOTC_STATUS_OK) {
    puts(lib.error);
    return 1;
  }
  if (lib.api->model_create(NULL, &model) != AOTC_STATUS_OK || lib.api->context_create(model, NULL, &context) != AOTC_STATUS_OK ||
      net_run(lib.api, context, &sizes, x, y) != AOTC_STATUS_OK) {
    puts(lib.api->last_error());
    return 1;
  }
  for (i = 0; i < ROWS * 24; ++i) printf("%.5f\n", (double)y[i]);
  /* The range of shapes.json is in it. */
  if (net_run(lib.api, context, &too_many, x, y) != AOTC_STATUS_SHAPE_MISMATCH) return 1;
  lib.api->context_destroy(context);
  lib.api->model_destroy(model);
  aotc_library_close(&lib);
  return 0;
}
