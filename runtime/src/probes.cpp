#include "probes.h"

#include "traceparent.h"

// A probe is a nop and a note (SystemTap's "UserSpaceProbeImplementation", version 3): in a section that is not loaded, an ELF note of name
// "stapsdt" and type 3 has the addresses of the nop, of one byte in .stapsdt.base (whether the file was moved since) and of the semaphore,
// then provider, name and arguments, each as text: bytes ('-' before them: signed), '@', operand.
#define AOTC_NOTE(name, semaphore, arguments)     \
  "990: nop\n"                                    \
  ".reloc 990b, R_X86_64_NONE, aotc_probe_base\n" \
  ".pushsection .note.stapsdt, \"\", @note\n"     \
  ".balign 4\n"                                   \
  ".4byte 992f - 991f, 994f - 993f, 3\n"          \
  "991: .asciz \"stapsdt\"\n"                     \
  "992: .balign 4\n"                              \
  "993: .8byte 990b, aotc_probe_base, " semaphore \
  "\n"                                            \
  ".asciz \"aotc\"\n"                             \
  ".asciz \"" name                                \
  "\"\n"                                          \
  ".asciz \"" arguments                           \
  "\"\n"                                          \
  "994: .balign 4\n"                              \
  ".popsection\n"

// The reference that .reloc makes keeps it where the linker drops what nothing refers to.
__asm__(
    ".pushsection .stapsdt.base, \"a\", @progbits\n"
    ".hidden aotc_probe_base\n"
    ".globl aotc_probe_base\n"
    ".type aotc_probe_base, @object\n"
    ".size aotc_probe_base, 1\n"
    "aotc_probe_base: .zero 1\n"
    ".popsection\n");

#define AOTC_SEMAPHORE(probe) __attribute__((section(".probes"))) volatile uint16_t aotc_probe_##probe = 0
extern "C" {
AOTC_SEMAPHORE(run_start);
AOTC_SEMAPHORE(run_end);
AOTC_SEMAPHORE(step_start);
AOTC_SEMAPHORE(step_end);
}

namespace aotc::rt {
namespace {

const char* text(const char* name) { return name ? name : ""; }
const char* model_of(const aotc_context& c) { return text(c.model->path); }
const char* method_of(const ShapeEntry& e) { return text(e.method->desc->name); }

}  // namespace

[[gnu::cold]] void probe_run_start(const aotc_context& c, const ShapeEntry& e) {
  const Traceparent request = read_traceparent(c.traceparent);
  __asm__ volatile(AOTC_NOTE("run__start", "aotc_probe_run_start", "8@%0 8@%1 8@%2 8@%3 8@%4")
                   :
                   : "r"(model_of(c)), "r"(method_of(e)), "r"(&c), "r"(text(variant_of(e).name)), "r"(request.text), "m"(request));
}

[[gnu::cold]] void probe_run_end(const aotc_context& c, const ShapeEntry& e, aotc_status status) {
  const Traceparent request = read_traceparent(c.traceparent);
  __asm__ volatile(AOTC_NOTE("run__end", "aotc_probe_run_end", "8@%0 8@%1 8@%2 -4@%k3 8@%4")
                   :
                   : "r"(model_of(c)), "r"(method_of(e)), "r"(&c), "r"(status), "r"(request.text), "m"(request));
}

[[gnu::cold]] void probe_step_start(const aotc_context& c, const ShapeEntry& e, uint32_t step) {
  __asm__ volatile(AOTC_NOTE("step__start", "aotc_probe_step_start", "8@%0 8@%1 4@%k2 8@%3")
                   :
                   : "r"(model_of(c)), "r"(method_of(e)), "r"(step), "r"(text(variant_of(e).steps[step].label)));
}

[[gnu::cold]] void probe_step_end(const aotc_context& c, const ShapeEntry& e, uint32_t step) {
  __asm__ volatile(AOTC_NOTE("step__end", "aotc_probe_step_end", "8@%0 8@%1 4@%k2 8@%3")
                   :
                   : "r"(model_of(c)), "r"(method_of(e)), "r"(step), "r"(text(variant_of(e).steps[step].label)));
}

}  // namespace aotc::rt
