#include "artifact/cubin_worker.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "artifact/cubins.h"
#include "emit/toolchain.h"

namespace aotc::artifact {
namespace {

using nlohmann::json;

json compile(const emit::cuda::Nvrtc& nvrtc, const std::vector<emit::cuda::SourceFile>& headers, const json& job) {
  std::string source(job.at("source_bytes").get<size_t>(), '\0');
  std::cin.read(source.data(), static_cast<std::streamsize>(source.size()));
  std::vector<std::byte> code;
  try {
    code = nvrtc.compile(source, job.at("name"), headers, job.at("sm"));
  } catch (const Diagnostic& d) { return {{"refused", d.message()}, {"notes", d.notes()}}; }
  emit::write_file(job.at("to"), {reinterpret_cast<const char*>(code.data()), code.size()});
  return {{"bytes", code.size()}};
}

}  // namespace

int run_cubin_worker() {
  // What NVRTC prints is no answer.
  std::FILE* answers = fdopen(dup(STDOUT_FILENO), "w");
  if (!answers || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return static_cast<int>(ExitCode::io);
  const Result<emit::cuda::Nvrtc> nvrtc = emit::cuda::Nvrtc::load();
  const std::vector<emit::cuda::SourceFile> headers = cuda_headers();
  for (std::string line; std::getline(std::cin, line);) {
    json answer;
    try {
      const json job = json::parse(line);
      if (!nvrtc)
        answer = {{"missing", nvrtc.why()}};
      else if (job.contains("about"))
        answer = {{"version", nvrtc->version()}, {"build", nvrtc->build()}};
      else
        answer = compile(*nvrtc, headers, job);
    } catch (const std::exception& e) { answer = {{"error", e.what()}}; }
    // A log may have bytes that are no UTF-8.
    std::fprintf(answers, "%s\n", answer.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
    std::fflush(answers);
  }
  return 0;
}

}  // namespace aotc::artifact
