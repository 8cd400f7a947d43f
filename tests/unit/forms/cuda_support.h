#pragma once
// What the tests of CUDA forms share: the decision for an H200, and generated text through NVRTC, which needs no GPU; where it is not
// installed (packaging/setup.sh installs it) compiles() says so and passes.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "emit/cuda/nvrtc.h"
#include "emit/object_cache.h"
#include "emit/toolchain.h"
#include "forms/list.h"

namespace aotc::test {

inline std::vector<emit::cuda::SourceFile> headers() {
  std::vector<emit::cuda::SourceFile> out;
  for (const auto& file : std::filesystem::directory_iterator(AOTC_TEST_DIR "/../compiler/kernels/cuda")) {
    if (file.path().extension() != ".cuh") continue;
    std::ifstream in(file.path());
    std::stringstream text;
    text << in.rdbuf();
    out.push_back({file.path().filename().string(), text.str()});
  }
  return out;
}

inline const Machine& h200() {
  static const Machine machine = machine_of(std::string("sm_90a"));
  return machine;
}

inline SymTable syms_of(const loop::Kernel& k) {
  return std::visit([](const auto& x) { return x.syms; }, k);
}

inline forms::Decision decide(const loop::Kernel& k) {
  const SymTable syms = syms_of(k);
  return forms::decide({k, syms, h200(), {}});
}
inline forms::StepSpec step_of(const loop::Kernel& k) {
  const forms::Choice c = decide(k).choice;
  const SymTable syms = syms_of(k);
  return c.form->step({k, syms, h200(), {}}, c);
}
inline int field_of(const forms::Choice& c, std::string_view name) {
  for (size_t i = 0; i < c.values.size(); ++i)
    if (c.form->fields()[i].name == name) return c.values[i];
  FAIL("no field " << name);
  return 0;
}
/// A field of the first choice.
inline int field(const loop::Kernel& k, std::string_view name) { return field_of(decide(k).choice, name); }

/// Adds a text and the headers that it includes, each once, to `content`.
inline void add_content(const std::string& name, const std::string& text, const std::map<std::string, std::string>& headers,
                        std::set<std::string>& added, std::string& content) {
  if (!added.insert(name).second) return;
  content += "\n" + name + "\n" + text;
  constexpr std::string_view kInclude = "#include \"";
  for (size_t at = text.find(kInclude); at != std::string::npos; at = text.find(kInclude, at + 1)) {
    const size_t begin = at + kInclude.size();
    const auto header = headers.find(text.substr(begin, text.find('"', begin) - begin));
    if (header != headers.end()) add_content(header->first, header->second, headers, added, content);
  }
}

/// Whether this run takes a text that was not compiled before: a ninth of them where AOTC_TEST_NINTH names one (tests/thirds.py exec).
inline bool takes(const Digest& key) {
  const char* ninth = std::getenv("AOTC_TEST_NINTH");
  return !ninth || key[0] % 9 == std::atoi(ninth);
}

/// Whether a text becomes machine code, or is not taken by this run. What NVRTC has compiled is kept by content, as aotc keeps its cubins:
/// only text, headers or an NVRTC that changed are compiled again. Throws Diagnostic when the text does not compile, which is not kept.
inline bool becomes_code(const emit::cuda::Nvrtc& nvrtc, const std::string& source, const char* sm) {
  constexpr size_t kLeastBytes = 1000;
  static const std::vector<emit::cuda::SourceFile> all = headers();
  std::map<std::string, std::string> texts;
  for (const emit::cuda::SourceFile& h : all) texts[h.name] = h.text;
  std::set<std::string> added;
  std::string content = "unit_forms\n" + nvrtc.build() + "\n" + sm;
  add_content("kernels.cu", source, texts, added, content);
  const Digest key = emit::CacheKey().add(content).digest();
  const emit::ObjectCache cache(emit::user_cache());
  if (const std::optional<std::string> known = cache.take(key)) return known->size() > kLeastBytes;
  if (!takes(key)) return true;
  const std::vector<std::byte> code = nvrtc.compile(source, "kernels.cu", all, sm);
  cache.put(key, std::string(reinterpret_cast<const char*>(code.data()), code.size()));
  return code.size() > kLeastBytes;
}

/// The best `most` candidates of each form for every kernel, for an architecture with its own instructions and one without.
inline void compiles(const loop::Module& m, size_t most) {
  const Result<emit::cuda::Nvrtc> nvrtc = emit::cuda::Nvrtc::load();
  if (!nvrtc) {
    WARN("not compiled: " << nvrtc.why());
    return;
  }
  for (const char* sm : {"sm_90a", "sm_80"}) {
    const Machine machine = machine_of(std::string(sm));
    std::string source = "#include \"gemm.cuh\"\n#include \"wgmma.cuh\"\n";
    for (const loop::Kernel& k : m.kernels) {
      const SymTable syms = syms_of(k);
      std::map<const forms::Form*, size_t> seen;
      size_t n = 0;
      for (const forms::Candidate& c : forms::decide({k, syms, machine, {}}).candidates)
        if (c.fit && seen[c.choice.form]++ < most)
          source += c.choice.form->source({k, syms, machine, {}}, c.choice, fmt::format("{}_{}", loop::kernel_name(k), n++));
    }
    INFO(sm);
    CHECK(becomes_code(*nvrtc, source, sm));
  }
}
inline void compiles(const loop::Module& m) { compiles(m, 1); }
inline void compiles(loop::Kernel k, size_t most = 1) {
  loop::Module m;
  m.kernels.push(std::move(k));
  compiles(m, most);
}

}  // namespace aotc::test
