#pragma once
// Attaches to the USDT probes of an artifact as a tracer does, by the notes in its file, the semaphores and breakpoints, from within.
#include <elf.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "toy.h"

constexpr unsigned char kNop = 0x90, kBreakpoint = 0xcc;

/// Registers as an argument names them.
struct RegisterName {
  const char* text;
  int number;
};
constexpr RegisterName kRegisters[] = {{"%rax", REG_RAX},  {"%rbx", REG_RBX},  {"%rcx", REG_RCX},  {"%rdx", REG_RDX},  {"%rsi", REG_RSI},
                                       {"%rdi", REG_RDI},  {"%rbp", REG_RBP},  {"%r8", REG_R8},    {"%r9", REG_R9},    {"%r10", REG_R10},
                                       {"%r11", REG_R11},  {"%r12", REG_R12},  {"%r13", REG_R13},  {"%r14", REG_R14},  {"%r15", REG_R15},
                                       {"%eax", REG_RAX},  {"%ebx", REG_RBX},  {"%ecx", REG_RCX},  {"%edx", REG_RDX},  {"%esi", REG_RSI},
                                       {"%edi", REG_RDI},  {"%ebp", REG_RBP},  {"%r8d", REG_R8},   {"%r9d", REG_R9},   {"%r10d", REG_R10},
                                       {"%r11d", REG_R11}, {"%r12d", REG_R12}, {"%r13d", REG_R13}, {"%r14d", REG_R14}, {"%r15d", REG_R15}};

struct Argument {
  int bytes = 0;  ///< below 0: signed
  int reg = -1;
};
struct Probe {
  std::string name;
  uint64_t pc = 0, semaphore = 0;  ///< in the file's addresses
  std::vector<Argument> arguments;
  unsigned char* at = nullptr;  ///< in this process
  volatile uint16_t* count = nullptr;
};
struct Hit {
  std::string name;
  std::vector<int64_t> values;
  std::string request;  ///< of a run's probes: their last argument, a text that stands while the probe is told of
  std::string text(size_t i) const { return reinterpret_cast<const char*>(values[i]); }
};

inline std::vector<Argument> arguments_of(std::string text) {
  std::vector<Argument> out;
  for (text += ' '; !text.empty(); text.erase(0, text.find(' ') + 1)) {
    const std::string one = text.substr(0, text.find(' ')), reg = one.substr(one.find('@') + 1);
    Argument a{std::stoi(one), -1};
    for (const RegisterName& r : kRegisters)
      if (reg == r.text) a.reg = r.number;
    INFO(one);
    CHECK(a.reg >= 0);
    out.push_back(a);
  }
  return out;
}

inline std::vector<Probe> probes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(file.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(file.data() + header->e_shoff);
  std::vector<Probe> out;
  for (int s = 0; s < header->e_shnum; ++s) {
    const std::string name = file.data() + sections[header->e_shstrndx].sh_offset + sections[s].sh_name;
    if (name != ".note.stapsdt") continue;
    CHECK(sections[s].sh_type == SHT_NOTE);
    const char* at = file.data() + sections[s].sh_offset;
    for (const char* end = at + sections[s].sh_size; at < end;) {
      Elf64_Nhdr note;
      std::memcpy(&note, at, sizeof note);
      const char* content = at + sizeof note + (note.n_namesz + 3) / 4 * 4;
      CHECK((note.n_type == 3 && std::string(at + sizeof note) == "stapsdt"));
      uint64_t places[3];
      std::memcpy(places, content, sizeof places);
      const char* text = content + sizeof places;
      CHECK(std::string(text) == "aotc");
      Probe p;
      p.pc = places[0], p.semaphore = places[2];
      p.name = text += std::strlen(text) + 1;
      text += std::strlen(text) + 1;
      p.arguments = arguments_of(text);
      CHECK(text + std::strlen(text) + 1 == content + note.n_descsz);
      out.push_back(p);
      at = content + (note.n_descsz + 3) / 4 * 4;
    }
  }
  return out;
}

/// What the handler of SIGTRAP reads and fills.
inline struct {
  std::vector<Probe> probes;
  std::vector<Hit> hits;
} traced;

inline void on_breakpoint(int, siginfo_t*, void* context) {
  const greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  for (const Probe& p : traced.probes) {
    if (reinterpret_cast<uintptr_t>(p.at) + 1 != static_cast<uintptr_t>(registers[REG_RIP])) continue;
    Hit hit{p.name, {}, {}};
    for (const Argument& a : p.arguments) {
      const int64_t v = registers[a.reg];
      hit.values.push_back(a.bytes == 8 ? v : a.bytes == 4 ? static_cast<uint32_t>(v) : static_cast<int32_t>(v));
    }
    if (p.name.rfind("run", 0) == 0) hit.request = hit.text(4);
    traced.hits.push_back(hit);  // the thread that runs, not one that a signal took from anything
  }
}

/// Attached to the probes of those names while it lives.
class Tracer {
 public:
  Tracer(const Loaded& artifact, const std::string& path, std::vector<std::string> names) {
    Dl_info where{};
    const void* code = reinterpret_cast<const void*>(artifact.api->run);
    REQUIRE(dladdr(code, &where) != 0);
    auto* base = static_cast<unsigned char*>(where.dli_fbase);
    traced.hits.clear();
    traced.probes.clear();
    for (Probe& p : probes_of(path)) {
      p.at = base + p.pc;
      p.count = reinterpret_cast<volatile uint16_t*>(base + p.semaphore);
      CHECK((*p.at == kNop && *p.count == 0));
      if (std::find(names.begin(), names.end(), p.name) != names.end()) traced.probes.push_back(p);
    }
    REQUIRE(traced.probes.size() == names.size());
    struct sigaction action {};
    action.sa_sigaction = on_breakpoint;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, &before_);
    for (const Probe& p : traced.probes) write(p, kBreakpoint, 1);
  }
  ~Tracer() {
    for (const Probe& p : traced.probes) write(p, kNop, -1);
    sigaction(SIGTRAP, &before_, nullptr);
  }
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

 private:
  static void write(const Probe& p, unsigned char code, int by) {
    const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), at = reinterpret_cast<uintptr_t>(p.at) / page * page;
    if (mprotect(reinterpret_cast<void*>(at), page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) FAIL("code cannot be written here");
    *p.at = code;
    mprotect(reinterpret_cast<void*>(at), page, PROT_READ | PROT_EXEC);
    *p.count = static_cast<uint16_t>(*p.count + by);
  }
  struct sigaction before_ {};
};

inline const std::vector<std::string> kAllProbes = {"run__start", "run__end", "step__start", "step__end"};
