// NVTX ranges of runs and steps, as a tool gets them.
#include <stdlib.h>

#include "gpu_toy.h"

namespace {

/// The tool of nvtx_tool.cpp for a scope: artifacts that are loaded meanwhile attach it.
class Tool {
 public:
  Tool() : handle_(dlopen(AOTC_NVTX_TOOL, RTLD_NOW)) {
    REQUIRE(handle_ != nullptr);
    told_ = reinterpret_cast<const char* (*)()>(dlsym(handle_, "nvtx_tool_told"));
    REQUIRE(told_ != nullptr);
    told_();
    setenv("NVTX_INJECTION64_PATH", AOTC_NVTX_TOOL, 1);
  }
  ~Tool() {
    unsetenv("NVTX_INJECTION64_PATH");
    dlclose(handle_);
  }
  Tool(const Tool&) = delete;
  Tool& operator=(const Tool&) = delete;
  std::string told() const { return told_(); }

 private:
  void* handle_;
  const char* (*told_)();
};

std::string range(const std::string& name, const std::string& within = "") { return "push " + name + "; " + within + "pop; "; }

}  // namespace

TEST_CASE("nvtx: a range a run and a step, in the domain aotc") {
  const Tool tool;
  Loaded toy(toy_path("toy_methods"));
  Session s(toy.api);
  CHECK(tool.told() == "attached; domain aotc; ");
  Session again(toy.api);
  CHECK(tool.told().empty());  // once an artifact
  ToyCall call(3);
  REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
  CHECK(call.right());
  const std::string told = tool.told(), first = "push forward; ";
  REQUIRE(told.rfind(first, 0) == 0);
  size_t at = first.size();
  int steps = 0;
  for (; told.compare(at, 5, "push ") == 0; ++steps) {
    at = told.find("; ", at) + 2;
    REQUIRE(told.compare(at, 5, "pop; ") == 0);
    at += 5;
  }
  CHECK(steps == 6);
  CHECK(told.substr(at) == "pop; ");
}

TEST_CASE("nvtx: a range with the traceparent of the request around its run, where that is valid") {
  const Tool tool;
  Loaded cpu(toy_path("toy_methods")), gpu(toy_path("toy_gpu"));
  const Current current;
  Session on_cpu(cpu.api), on_gpu(gpu.api, with_flags(AOTC_CONTEXT_GRAPHS));
  ToyCall host(3);
  DeviceCall device(5);
  REQUIRE(device.run(on_gpu) == AOTC_STATUS_OK);  // the next ones are a graph
  const std::string valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const auto told = [&](bool on_host, const char* header) {
    aotc_run_options options = AOTC_RUN_OPTIONS_INIT;
    options.traceparent = header;
    tool.told();
    const aotc_api* const api = on_host ? cpu.api : gpu.api;
    std::vector<aotc_tensor>&in = on_host ? host.in : device.in, &out = on_host ? host.out : device.out;
    REQUIRE(api->run_with(on_host ? on_cpu.context : on_gpu.context, 0, in.data(), static_cast<int32_t>(in.size()), out.data(),
                          static_cast<int32_t>(out.size()), &options) == AOTC_STATUS_OK);
    return tool.told();
  };
  for (const bool on_host : {true, false}) {
    const std::string plain = told(on_host, nullptr);
    CHECK(plain.rfind("push forward; ", 0) == 0);
    CHECK(told(on_host, valid.c_str()) == range(valid, plain));
    CHECK(told(on_host, valid.substr(1).c_str()) == plain);
  }
}

TEST_CASE("nvtx: what a GPU's stream is given, and a graph as one") {
  const Tool tool;
  Loaded toy(toy_path("toy_gpu"));
  const Current current;
  Session s(toy.api, with_flags(AOTC_CONTEXT_GRAPHS));
  CHECK(tool.told() == "attached; domain aotc; ");
  DeviceCall call(5);
  for (const bool graph : {false, true}) {
    REQUIRE(call.run(s) == AOTC_STATUS_OK);
    std::string steps;
    for (const char* label : {"runs", "scale", "y", "zeros"}) steps += range(label);
    CHECK(tool.told() == range("forward", graph ? "" : steps));
    CHECK(call.right());
  }
}

TEST_CASE("nvtx: a tool that is not there, or is none, changes nothing") {
  for (const char* path : {"/nowhere/libtool.so", AOTC_FAKE_CUDA, ""}) {
    setenv("NVTX_INJECTION64_PATH", path, 1);
    Loaded toy(toy_path("toy_methods"));
    Session s(toy.api);
    ToyCall call(3);
    INFO(path);
    CHECK(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    CHECK(call.right());
    unsetenv("NVTX_INJECTION64_PATH");
  }
}
