#pragma once
// The worker that holds NVRTC: what crashes or hangs there is lost, not the build.

namespace aotc::artifact {

/// A JSON job a line on stdin, an answer a line on stdout, until stdin ends. Returns the exit code.
///   {"about": "nvrtc"}  ->  {"version": "13.0", "build": Nvrtc::build()} or {"missing": where it was looked for}
///   {"source_bytes": n, "name": "kernel.cu", "sm": "sm_90a", "to": path}, then n bytes  ->  {"bytes": of the machine code at `to`},
///   {"refused": message, "notes": [...]} where it does not compile, or {"error": why}
int run_cubin_worker();

}  // namespace aotc::artifact
