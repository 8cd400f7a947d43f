/* A libnvrtc for the emulated GPU (driver.c): its machine code is a shared object of the host that AOTC_EMULATED_COMPILER made, a command that is
 * given the file of the source and that of the object (tests/gpu/emulated_compiler.py). */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, COMPILATION = 6 };
struct program {
  char folder[64];
  char* source;
  char* code;
  size_t bytes;
};

int nvrtcVersion(int* major, int* minor) { return *major = 12, *minor = 98, OK; }
const char* nvrtcGetErrorString(int rc) { return rc == OK ? "no error" : "the emulated compiler failed"; }

int nvrtcCreateProgram(struct program** out, const char* source, const char* name, int n, const char* const* headers, const char* const* names) {
  (void)name, (void)n, (void)headers, (void)names; /* those of the tree */
  *out = calloc(1, sizeof **out);
  (*out)->source = strdup(source);
  return OK;
}

static int compile(struct program* p) {
  const char* compiler = getenv("AOTC_EMULATED_COMPILER");
  char source[96], object[96], command[4096];
  FILE* f;
  strcpy(p->folder, "/tmp/aotc_host_nvrtc_XXXXXX");
  if (!compiler || !mkdtemp(p->folder)) return COMPILATION;
  snprintf(source, sizeof source, "%s/kernel.cu", p->folder);
  snprintf(object, sizeof object, "%s/kernel.so", p->folder);
  snprintf(command, sizeof command, "%s %s %s >&2", compiler, source, object);
  if (!(f = fopen(source, "w"))) return COMPILATION;
  fputs(p->source, f);
  if (fclose(f) || system(command) || !(f = fopen(object, "rb"))) return COMPILATION;
  fseek(f, 0, SEEK_END);
  p->bytes = (size_t)ftell(f);
  rewind(f);
  p->code = malloc(p->bytes);
  const size_t n = fread(p->code, 1, p->bytes, f);
  fclose(f);
  return n == p->bytes ? OK : COMPILATION;
}

int nvrtcCompileProgram(struct program* p, int n, const char* const* options) {
  (void)n, (void)options;
  const int rc = compile(p);
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", p->folder);
  return *p->folder && system(command) == 0 ? rc : COMPILATION;
}
int nvrtcGetProgramLogSize(struct program* p, size_t* bytes) { return (void)p, *bytes = 1, OK; }
int nvrtcGetProgramLog(struct program* p, char* log) { return (void)p, *log = 0, OK; }
int nvrtcGetCUBINSize(struct program* p, size_t* bytes) { return *bytes = p->bytes, OK; }
int nvrtcGetCUBIN(struct program* p, char* code) { return memcpy(code, p->code, p->bytes), OK; }
int nvrtcGetPTXSize(struct program* p, size_t* bytes) { return (void)p, *bytes = 0, COMPILATION; }
int nvrtcGetPTX(struct program* p, char* code) { return (void)p, (void)code, COMPILATION; }
int nvrtcDestroyProgram(struct program** p) {
  free((*p)->source);
  free((*p)->code);
  free(*p);
  return *p = NULL, OK;
}
