#pragma once
// Ranges of NVTX (NVIDIA Tools Extension, version 3) in the domain "aotc", one a run and one a step, and around a run one that is called
// as its request (traceparent.h), for Nsight Systems and other tools of NVTX. The tool is the library that NVTX_INJECTION64_PATH names, as
// in every program with NVTX; it stays loaded.
namespace aotc::rt {

struct Nvtx;  ///< a tool that is attached

/// Attaches the tool on this artifact's first call; null where there is none, or it refused. From any thread; errno stays as it was.
const Nvtx* nvtx_attach();
void nvtx_push(const Nvtx& tool, const char* name);
void nvtx_pop(const Nvtx& tool);

/// A range of the calling thread, for a scope. tool, name: may be null.
class NvtxRange {
 public:
  NvtxRange(const Nvtx* tool, const char* name) : tool_(tool) {
    if (__builtin_expect(tool_ != nullptr, 0)) nvtx_push(*tool_, name);
  }
  ~NvtxRange() {
    if (__builtin_expect(tool_ != nullptr, 0)) nvtx_pop(*tool_);
  }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  const Nvtx* tool_;
};

}  // namespace aotc::rt
