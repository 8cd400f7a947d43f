#include "emit/cuda/joined.h"

#include <fmt/format.h>

#include "emit/cuda/functor.h"
#include "emit/cuda/loop_kernel.h"

namespace aotc::emit::cuda {

/// "{a.ptr[2], a.ptr[0]}"
static std::string picked(const char* from, const std::vector<int>& which) {
  std::string out = "{";
  for (int i : which) out += fmt::format("{}a.{}[{}]", out.size() > 1 ? ", " : "", from, i);
  return out + "}";
}

/// What call blockIdx.y takes where the calls take `which[0]`, `which[1]`, ..: "{blockIdx.y == 0 ? a.ptr[2] : a.ptr[5], a.ptr[0]}"
static std::string picked_beside(const char* from, const std::vector<const std::vector<int>*>& which) {
  std::string out = "{";
  for (size_t i = 0; i < which.front()->size(); ++i) {
    std::string one;
    for (size_t call = 0; call + 1 < which.size(); ++call)
      if (which[call]->at(i) != which.back()->at(i)) one += fmt::format("blockIdx.y == {} ? a.{}[{}] : ", call, from, which[call]->at(i));
    out += fmt::format("{}{}a.{}[{}]", i ? ", " : "", one, from, which.back()->at(i));
  }
  return out + "}";
}
static std::string beside(const JoinedText& text) {
  std::vector<const std::vector<int>*> args, sizes;
  for (const JoinedText::Call& c : text.calls) args.push_back(&c.args), sizes.push_back(&c.sizes);
  return fmt::format("  {0}({0}_args{{a.fault, a.scratch, {1}, {2}}});\n", text.parts.at(text.calls.at(0).part).symbol,
                     picked_beside("ptr", args), picked_beside("size", sizes));
}

std::string emit_joined(const JoinedText& text, const std::string& symbol) {
  std::string out = "#undef AOTC_KERNEL\n#define AOTC_KERNEL AOTC_PART\n";
  for (const JoinedText::Part& p : text.parts) out += p.source;
  out += "#undef AOTC_KERNEL\n#define AOTC_KERNEL AOTC_GLOBAL\n" + argument_struct(symbol, text.n_ptr, text.n_size);
  // A part that overlaps the step before it waits for that itself. One that does not is a boundary: what follows is spread over processors
  // that are free, where blocks that start early share the few that are.
  if (text.beside) return out + global_function(symbol, 1, text.threads, 1, beside(text));
  std::string body = wait_first();
  for (const JoinedText::Call& c : text.calls) {
    const std::string& part = text.parts.at(c.part).symbol;
    if (&c != text.calls.data()) body += "  __syncthreads();\n";
    body += fmt::format("  {0}({0}_args{{a.fault, a.scratch, {1}, {2}}});\n", part, picked("ptr", c.args), picked("size", c.sizes));
  }
  return out + global_function(symbol, 1, text.threads, 1, body);
}

}  // namespace aotc::emit::cuda
