// A tool of NVTX as NVTX_INJECTION64_PATH names one: what it is told, as text. Where AOTC_NVTX_LOG names a file, the ranges that begin are
// appended to that instead, a line each, from any thread.
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include <cstdlib>

#include <cstring>
#include <string>

using Function = void (*)();
struct Callbacks {
  size_t struct_size;
  int (*get_module)(int, Function***, unsigned*);
};
struct Event {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const char* message;
};

namespace {

std::string told;
int domain;
const int log_file = std::getenv("AOTC_NVTX_LOG") ? open(std::getenv("AOTC_NVTX_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;

void* create(const char* name) {
  told += std::string("domain ") + name + "; ";
  return &domain;
}

int push(void* in, const Event* e) {
  const bool known = in == &domain && e->version == 3 && e->size == 48 && e->message_type == 1;
  if (log_file >= 0) {
    const std::string line = (known ? e->message : "?") + std::string("\n");
    return write(log_file, line.data(), line.size()) < 0;
  }
  told += known ? std::string("push ") + e->message + "; " : std::string("?; ");
  return 0;
}

int pop(void* in) {
  if (log_file < 0) told += in == &domain ? "pop; " : "?; ";
  return 0;
}

template <class F>
void put(Function** table, int id, F* f) {
  *table[id] = reinterpret_cast<Function>(f);
}

}  // namespace

/// What was told since the last call.
extern "C" const char* nvtx_tool_told() {
  static std::string text;
  text = told;
  told.clear();
  return text.c_str();
}

extern "C" int InitializeInjectionNvtx2(const void* (*export_table)(uint32_t)) {
  const auto* const callbacks = static_cast<const Callbacks*>(export_table(1));
  const auto* const version = static_cast<const char*>(export_table(3));
  uint32_t number = 0;
  if (version) memcpy(&number, version + sizeof(size_t), sizeof number);
  for (const int module : {1, 2, 3, 4, 6}) {  // a tool may name things of other kinds, too
    Function** table = nullptr;
    unsigned last = 0;
    if (!callbacks->get_module(module, &table, &last) || !table || !table[last]) return 0;
  }
  Function** table = nullptr;
  unsigned last = 0;
  if (number != 3 || !callbacks->get_module(5, &table, &last) || last < 15 || callbacks->get_module(7, nullptr, nullptr)) return 0;
  put(table, 4, push);
  put(table, 5, pop);
  put(table, 12, create);
  told += "attached; ";
  return 1;
}
