#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "ci_verbs.h"
#include "import/torch_library.h"
#include "package/verbs.h"
#include "shell.h"

namespace aotc::cli {
namespace {

constexpr Verb kVerbs[] = {
    {"build", "compile a .pt2 into model.so, model.h and model.report.json",
     "aotc build model.pt2 --shapes shapes.json -o model.so --cpu native", add_build},
    {"check", "report whether a .pt2 can be compiled for a target, and everything that prevents it, without compiling; SARIF for CI",
     "aotc check model.pt2 --cuda sm_90a --sarif aotc.sarif", add_check},
    {"inspect", "show the signature, symbols, operators and, of an artifact, its kernels, arena and versions",
     "aotc inspect model.so --json", add_inspect, false, true},
    {"weights", "make a weights file for an existing artifact from a .pt2 of the same program with other weights, without a compiler",
     "aotc weights finetuned.pt2 --for model.so -o finetuned.weights", add_weights},
    {"tune", "measure kernel candidates for a model into the tuning database, here or on another machine",
     "aotc tune model.pt2 --cuda sm_90a --tuning-db tuning.json --remote gpu-host", add_tune},
    {"calibrate", "measure what this machine's CPU costs into a data file for --uarch of build, tune and others",
     "aotc calibrate -o mine.uarch && aotc build model.pt2 --uarch mine.uarch", add_calibrate},
    {"verify", "compare an artifact with eager PyTorch (LibTorch, operator by operator) and with a float64 reference",
     "aotc verify model.so --against model.pt2 --dim batch=7 --samples 3", add_verify},
    {"reduce", "reduce a failing program to a few operators that fail in the same way, as a .pt2 to send",
     "aotc reduce model.pt2 --verify-fails -o small.pt2 --random-weights", add_reduce},
    {"references", "write inputs and expected outputs (float64 and eager PyTorch) as .npy files, for aotc-device verify on another machine",
     "aotc references model.so --against model.pt2 -o refs", add_references},
    {"bench", "measure load time, first call, latency percentiles and memory",
     "aotc bench model.so --dim batch=8 --threads 2 --against model.pt2", add_bench},
    {"run", "run an artifact on .npy files", "aotc run model.so --input x=x.npy --output-dir out", add_run},
    {"replay", "run a captured run again (AOTC_CAPTURE) and compare status and outputs bit for bit", "aotc replay captures/model-4711-12",
     add_replay},
    {"explain", "show which operators each kernel computes and why, buffers, arena, variants, guards",
     "aotc explain model.pt2 --shapes shapes.json", add_explain, false, true},
    {"diff", "compare two artifacts: signature, guards, kernels, choices, weights, sizes, and times; exit code 1 if the files differ",
     "aotc diff old.so new.so --bench", add_diff, false, true},
    {"package", "pack an artifact with its header, report, licenses, SBOM, provenance and hashes; --sign signs the package",
     "aotc package model.so -o model.aotcpkg.tar --sign key.pem", add_package},
    {"verify-package", "check that a package is complete and signed with a key, without loading it",
     "aotc verify-package model.aotcpkg.tar --key key.pub --extract model", add_verify_package},
    {"ops", "list the supported operators, and the element types of each kind of kernel on CPUs and GPUs", "aotc ops --json", add_ops},
    {"opt", "for developers: run passes and stages on IR text", "aotc opt file.graph --passes=all,loop,plan", add_opt},
    {"completion", "print a script that completes aotc's command line in a shell", "source <(aotc completion bash)", add_completion},
    {"man-pages", "writes the man pages", "", add_man_pages, true},
    {"measure-worker", "times candidates for max-autotune: JSON requests on stdin, a line each", "", add_measure_worker, true},
    {"cubin-worker", "runs NVRTC for builds: JSON requests on stdin, a line each", "", add_cubin_worker, true},
    {"finish-artifact", "puts the weights into a linked artifact and seals it: the last step of the script that --keep leaves", "",
     add_finish_artifact, true},
};

nlohmann::json built_with() {
  nlohmann::json torch = nlohmann::json::array();
  for (const import::TorchSide& side : import::torch_sides_here()) torch.push_back(side.version.str());
  return {{"libtorch", torch},
          {"libtorch_oldest", import::oldest_torch().str()},
          {"nvrtc", "found at run time"},
          {"targets", {"cpu", "cuda"}},
          {"isas", {"avx2", "avx512", "avx512_bf16", "amx"}}};
}

/// Ends the process without taking down LibTorch's tables of operators, a quarter of a short command's processor time. Sanitizers look for
/// leaks after that.
int leave(int code) {
#ifndef AOTC_SANITIZED
  std::fflush(nullptr);
  std::cout.flush(), std::cerr.flush();
  _exit(code);
#endif
  return code;
}

}  // namespace
}  // namespace aotc::cli

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_st("aotc"));
  spdlog::set_pattern("%^%v%$");
  return aotc::cli::leave(
      aotc::cli::run_verbs({"aotc", "aotc: ahead-of-time compiler for PyTorch models. model.pt2 in, model.so and model.h out.",
                            aotc::cli::kVerbs, aotc::cli::built_with},
                           argc, argv));
}
