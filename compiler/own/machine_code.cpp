// CUDA code that the user compiled: which GPUs it is for, and whether it has the function.
#include <algorithm>
#include <cctype>
#include <cstring>

#include "base/parts.h"
#include "graph/custom_op.h"
#include "own/description.h"

namespace aotc::own {
namespace {

constexpr size_t kElfHeader = 64;

/// "90a" of a cubin: of the flags of its header, whose layout changed with CUDA 13.
std::string cubin_architecture(const std::string& bytes) {
  constexpr unsigned char kOldAbi = 0x33;
  constexpr uint32_t kAcceleratedOld = 0x800, kAcceleratedNew = 0x8;
  uint32_t flags;
  std::memcpy(&flags, bytes.data() + 48, sizeof flags);
  const bool old = static_cast<unsigned char>(bytes[7]) == kOldAbi;
  const uint32_t sm = old ? flags & 0xff : flags >> 8 & 0xff;
  return std::to_string(sm) + (flags & (old ? kAcceleratedOld : kAcceleratedNew) ? "a" : "");
}

bool is_cubin(const std::string& bytes) {
  constexpr unsigned char kCuda = 190;
  return bytes.size() >= kElfHeader &&
         bytes.compare(0, 4,
                       "\x7f"
                       "ELF") == 0 &&
         static_cast<unsigned char>(bytes[18]) == kCuda && bytes[19] == 0;
}

/// "90a" of ".target sm_90a"; empty: it is no PTX.
std::string ptx_architecture(const std::string& text) {
  constexpr std::string_view kTarget = ".target sm_";
  const size_t at = text.find(kTarget);
  if (at == std::string::npos || text.find(".version") > at || text.find('\0') != std::string::npos) return {};
  size_t end = at + kTarget.size();
  while (end < text.size() && std::isalnum(static_cast<unsigned char>(text[end]))) ++end;
  return text.substr(at + kTarget.size(), end - at - kTarget.size());
}

/// {90, "a"} of "90a"; {0, ..}: it begins with no such number.
std::pair<int, std::string> split(const std::string& architecture) {
  constexpr size_t kMostDigits = 4;
  const size_t letters = std::min(architecture.find_first_not_of("0123456789"), architecture.size());
  const bool number = letters > 0 && letters <= kMostDigits;
  return {number ? std::stoi(architecture.substr(0, letters)) : 0, architecture.substr(letters)};
}

}  // namespace

Result<CudaBinary> read_machine_code(std::string file, std::string bytes) {
  CudaBinary b;
  b.file = std::move(file);
  b.ptx = !is_cubin(bytes);
  b.architecture = b.ptx ? ptx_architecture(bytes) : cubin_architecture(bytes);
  if (split(b.architecture).first < 30) return Result<CudaBinary>::fail(b.file + " is neither a cubin nor PTX");
  if (b.ptx) bytes.push_back('\0');
  b.code = std::move(bytes);
  return b;
}

bool has_function(const CudaBinary& b, const std::string& function) {
  if (!b.ptx) return b.code.find('\0' + (".text." + function) + '\0') != std::string::npos;
  const std::string entry = ".entry " + function;
  for (size_t at = b.code.find(entry); at != std::string::npos; at = b.code.find(entry, at + 1)) {
    const char behind = b.code[at + entry.size()];  // the zero at the end, at last
    if (!std::isalnum(static_cast<unsigned char>(behind)) && behind != '_') return true;
  }
  return false;
}

bool runs_on(const CudaBinary& b, const std::string& sm) {
  const auto [has, has_suffix] = split(b.architecture);
  const auto [wants, wants_suffix] = split(sm.substr(sm.find('_') + 1));
  if (!has_suffix.empty()) return has == wants && has_suffix == wants_suffix && (b.ptx || !is_ptx(sm));
  if (b.ptx) return has <= wants;
  return !is_ptx(sm) && has / 10 == wants / 10 && has <= wants;
}

std::optional<std::string> compiled_code(const Kernels& all, const std::string& source, const std::string& sm) {
  const std::optional<CustomCuda> code = parse_compiled_text(source);
  if (!code) return std::nullopt;
  std::string files;
  const CudaBinary* best = nullptr;
  for (const int64_t i : code->binaries) {
    const CudaBinary& b = all.cuda_binaries.at(static_cast<size_t>(i));
    files += fmt::format("{}{} has code for {}_{}", files.empty() ? "" : ", ", b.file, b.ptx ? "compute" : "sm", b.architecture);
    if (runs_on(b, sm) && (!best || (best->ptx && !b.ptx))) best = &b;  // machine code before what the driver compiles
  }
  if (!best)
    throw Diagnostic(all.at("$.kernels"), fmt::format("no code for {}: {}", sm, files))
        .note("compile it for that, too, and give a list of files as \"cubin\"; PTX runs on what is as new or newer");
  return best->code;
}

}  // namespace aotc::own
