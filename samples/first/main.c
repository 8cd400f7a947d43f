/* python net.py && aotc build net.pt2 --shapes net.shapes.json && cc main.c -o main -ldl && ./main */
#include <stdio.h>

#include "net.h"

int main(void) {
  aotc_library lib;
  aotc_model* model;
  aotc_context* context;
  net_sizes sizes = {2}; /* batch of this call */
  float x[2][8] = {{1}, {0, 1}}, p[2][3];
  int i;
  if (net_library_open("net.so", &lib) != AOTC_STATUS_OK) return puts(lib.error), 1;
  if (lib.api->model_create(NULL, &model) != AOTC_STATUS_OK || net_context_create(lib.api, model, 1, 0, &context) != AOTC_STATUS_OK ||
      net_run(lib.api, context, &sizes, x[0], p[0]) != AOTC_STATUS_OK)
    return puts(lib.api->last_error()), 1;
  for (i = 0; i < 2; ++i) printf("%.4f %.4f %.4f\n", p[i][0], p[i][1], p[i][2]);
  lib.api->context_destroy(context);
  lib.api->model_destroy(model);
  aotc_library_close(&lib);
  return 0;
}
