// Stands in for libnvrtc in tests of what a build does when it crashes, hangs or refuses: FAKE_NVRTC="crash:TEXT" (abort, hang, exit, fail, spin:
// works without an end, work: works for two seconds) does that where the source has TEXT, several separated by commas. Else the machine code is "cubin of N bytes for ARCHITECTURE".
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct program {
  char* source;
  char code[128];
};

static const char kLog[] = "kernel.cu(1): error: the fake refuses this\n\n";

int nvrtcVersion(int* major, int* minor) {
  *major = 12, *minor = 99;
  return 0;
}

int nvrtcCreateProgram(struct program** out, const char* source, const char* name, int n, const char* const* headers, const char* const* names) {
  (void)name, (void)n, (void)headers, (void)names;
  *out = calloc(1, sizeof(struct program));
  (*out)->source = strdup(source);
  return 0;
}

static int fault(const char* kind) {
  if (!strcmp(kind, "crash")) raise(SIGSEGV);
  if (!strcmp(kind, "abort")) abort();
  if (!strcmp(kind, "exit")) _exit(9);
  while (!strcmp(kind, "hang")) sleep(1);
  const clock_t from = clock();
  while (!strcmp(kind, "spin") || (!strcmp(kind, "work") && clock() - from < 2 * CLOCKS_PER_SEC)) {}
  return !strcmp(kind, "fail") ? 6 : 0;
}

int nvrtcCompileProgram(struct program* p, int n, const char* const* options) {
  char* faults = strdup(getenv("FAKE_NVRTC") ? getenv("FAKE_NVRTC") : "");
  int rc = 0;
  for (char *next = faults, *one; rc == 0 && (one = strsep(&next, ","));) {
    char* text = strchr(one, ':');
    if (!text) continue;
    *text++ = 0;
    if (strstr(p->source, text)) rc = fault(one);
  }
  free(faults);
  snprintf(p->code, sizeof p->code, "cubin of %zu bytes for %s", strlen(p->source), n > 0 ? options[0] : "nothing");
  fputs("{\"bytes\": 1}\n", stdout);  // NVRTC may print what it likes
  fflush(stdout);
  return rc;
}

int nvrtcGetProgramLogSize(struct program* p, size_t* bytes) {
  (void)p;
  *bytes = sizeof kLog;
  return 0;
}
int nvrtcGetProgramLog(struct program* p, char* log) {
  (void)p;
  memcpy(log, kLog, sizeof kLog);
  return 0;
}
int nvrtcGetCUBINSize(struct program* p, size_t* bytes) {
  *bytes = strlen(p->code) + 1;
  return 0;
}
int nvrtcGetCUBIN(struct program* p, char* code) {
  strcpy(code, p->code);
  return 0;
}
int nvrtcGetPTXSize(struct program* p, size_t* bytes) { return nvrtcGetCUBINSize(p, bytes); }
int nvrtcGetPTX(struct program* p, char* code) { return nvrtcGetCUBIN(p, code); }
int nvrtcDestroyProgram(struct program** p) {
  free((*p)->source);
  free(*p);
  *p = NULL;
  return 0;
}
const char* nvrtcGetErrorString(int rc) {
  (void)rc;
  return "NVRTC_ERROR";
}
