// The USDT probes of artifacts for GPUs: a step is what is queued, and a run that is one launch has none.
#include "gpu_toy.h"
#include "tracer.h"

TEST_CASE("probes: steps as they are queued, none of a graph") {
  const std::string path = toy_path("toy_gpu");
  Loaded toy(path);
  const Current current;
  Session s(toy.api, with_flags(AOTC_CONTEXT_GRAPHS));
  DeviceCall call(5);
  for (const bool graph : {false, true}) {
    {
      const Tracer tracer(toy, path, kAllProbes);
      REQUIRE(call.run(s) == AOTC_STATUS_OK);
    }
    std::string seen;
    for (const Hit& hit : traced.hits) {
      seen += hit.name;
      if (hit.name.rfind("step", 0) == 0) seen += " " + std::to_string(hit.values[2]) + " " + hit.text(3);
      seen += "; ";
    }
    std::string steps;
    int number = 0;
    for (const char* label : {"runs", "scale", "y", "zeros"}) {
      const std::string named = " " + std::to_string(number++) + " " + label + "; ";
      steps += "step__start" + named + "step__end" + named;
    }
    CHECK(seen == "run__start; " + (graph ? "" : steps) + "run__end; ");
    CHECK(call.right());
  }
}
