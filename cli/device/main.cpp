#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "about.h"
#include "device/device.h"
#include "junit.h"
#include "package/verbs.h"
#include "shell.h"
#include "stored.h"

namespace aotc::cli {

Run add_device_verify(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  auto stored = std::make_shared<Stored>();
  add_option(app, "artifact", *path, "model.so").required();
  add_stored(app, *stored, true);
  add_option(app, "--threads", stored->threads, "CPU: threads of the run").range(1, 1024);
  add_check_weights(app, stored->check_weights);
  add_weights_budget(app, stored->weights_budget);
  auto junit = std::make_shared<std::string>();
  add_junit(app, *junit);
  return [path, stored, junit](const Common& common) {
    require_apart({{"--junit", *junit}}, stored_files(*stored));
    return with_junit(*junit, *path, common, [&](const std::string& file, const Common&) { return verify_stored(file, *stored); });
  };
}

Run add_probe(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  auto device = std::make_shared<int32_t>(AOTC_DEVICE_DEFAULT);
  add_option(app, "artifact", *path, "model.so").required();
  add_option(app, "--device", *device, "-1: the CPU, N: GPU N; default: GPU 0 if the artifact has code for it, else the CPU");
  return [path, device](const Common& common) {
    const LoadedArtifact file(*path);
    const aotc_status status = file.api().probe(*device);
    if (common.json)
      print_result({{"runs", status == AOTC_STATUS_OK},
                    {"status", file.api().status_name(status)},
                    {"why", status == AOTC_STATUS_OK ? "" : file.api().last_error()}},
                   about(common, file));
    else if (status == AOTC_STATUS_OK)
      fmt::print("{} runs here, on {}\n", *path, Artifact(*path, file.methods().front(), false, *device).info().target);
    else
      fmt::print("{} cannot run here: {}\n", *path, file.api().last_error());
    return status == AOTC_STATUS_OK ? 0 : static_cast<int>(ExitCode::failed);
  };
}

namespace {

constexpr Verb kVerbs[] = {
    {"verify", "run an artifact on stored inputs and compare with stored outputs",
     "aotc-device verify model.so --inputs refs/inputs --expected refs/expected", add_device_verify},
    {"bench", "measure an artifact with its tensors on the device", "aotc-device bench model.so --inputs refs/inputs --profile",
     add_device_bench},
    {"run", "run an artifact on .npy files", "aotc-device run model.so --input x=x.npy --output-dir out", add_run},
    {"replay", "run a captured run again (AOTC_CAPTURE) and compare status and outputs bit for bit",
     "aotc-device replay captures/model-4711-12", add_replay},
    {"probe", "report whether this machine can run the artifact, or what it lacks", "aotc-device probe model.so", add_probe},
    {"verify-package", "check that a package is complete and signed with a key, without loading it",
     "aotc-device verify-package model.aotcpkg.tar --key key.pub --extract model", add_verify_package},
    {"completion", "print a script that completes aotc-device's command line in a shell", "source <(aotc-device completion bash)",
     add_completion},
    {"man-pages", "writes the man pages", "", add_man_pages, true},
    {"measure", "time candidates for aotc tune: one request per line on stdin (search/README.md)", "", add_measure_worker},
};

nlohmann::json built_with() { return {{"targets", {"cpu", "cuda"}}}; }

}  // namespace
}  // namespace aotc::cli

int main(int argc, char** argv) {
  return aotc::cli::run_verbs(
      {"aotc-device", "aotc-device: runs, checks and measures artifacts of aotc. Needs the C library and, for GPUs, the driver.",
       aotc::cli::kVerbs, aotc::cli::built_with},
      argc, argv);
}
