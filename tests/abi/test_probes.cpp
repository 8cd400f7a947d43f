// The USDT probes of artifacts for CPUs.
#include <sstream>

#include "aotc/seal.h"
#include "tracer.h"

TEST_CASE("probes: the notes name four") {
  for (const char* name : {"toy", "toy_methods", "toy_gpu", "toy_states"}) {
    const std::vector<Probe> probes = probes_of(toy_path(name));
    INFO(name);
    REQUIRE(probes.size() == kAllProbes.size());
    for (const Probe& p : probes) {
      std::vector<int> bytes;
      for (const Argument& a : p.arguments) bytes.push_back(a.bytes);
      INFO(p.name);
      CHECK(std::count(kAllProbes.begin(), kAllProbes.end(), p.name) == 1);
      CHECK(bytes == (p.name == "run__start" ? std::vector<int>{8, 8, 8, 8, 8}
                      : p.name == "run__end" ? std::vector<int>{8, 8, 8, -4, 8}
                                             : std::vector<int>{8, 8, 4, 8}));
    }
  }
}

TEST_CASE("probes: runs and steps, in their order, with their names") {
  const std::string path = toy_path("toy_methods");
  Loaded toy(path);
  Session s(toy.api);
  ToyCall call(3);
  float z[8] = {}, w[8];
  const int64_t shape[1] = {8};
  const aotc_tensor in = aotc_host_tensor(z, shape, 1, AOTC_DTYPE_F32, sizeof z),
                    out = aotc_host_tensor(w, shape, 1, AOTC_DTYPE_F32, sizeof w);
  {
    const Tracer tracer(toy, path, kAllProbes);
    REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    REQUIRE(toy.api->run_method(s.context, 1, &in, 1, &out, 1) == AOTC_STATUS_OK);
  }
  CHECK(call.right());
  size_t at = 0;
  for (const char* method : {"forward", "peek"}) {
    REQUIRE(at < traced.hits.size());
    const Hit& start = traced.hits[at++];
    CHECK((start.name == "run__start" && start.text(0) == path && start.text(1) == method));
    CHECK(start.values[2] == reinterpret_cast<int64_t>(s.context));
    CHECK(!start.text(3).empty());
    int64_t steps = 0;
    for (; at + 1 < traced.hits.size() && traced.hits[at].name == "step__start"; at += 2, ++steps)
      for (size_t i = 0; i < 2; ++i) {
        const Hit& hit = traced.hits[at + i];
        CHECK(hit.name == (i == 0 ? "step__start" : "step__end"));
        CHECK((hit.text(0) == path && hit.text(1) == method && hit.values[2] == steps));
        CHECK(hit.text(3) == traced.hits[at].text(3));
      }
    CHECK(steps == (std::string(method) == "peek" ? 2 : 6));
    REQUIRE(at < traced.hits.size());
    const Hit& end = traced.hits[at++];
    CHECK((end.name == "run__end" && end.text(1) == method && end.values[2] == start.values[2] && end.values[3] == AOTC_STATUS_OK));
  }
  CHECK(at == traced.hits.size());

  // Nobody is told when nobody listens, and of the others alone when somebody does.
  traced.hits.clear();
  REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
  CHECK(traced.hits.empty());
  {
    const Tracer tracer(toy, path, {"run__end"});
    REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    call.idx[1] = 99;
    CHECK(call.run(toy.api, s.context) == AOTC_STATUS_INDEX_OUT_OF_RANGE);
    CHECK(toy.api->run(s.context, call.in.data(), 3, call.out.data(), 3) == AOTC_STATUS_INVALID_ARGUMENT);  // refused: it never began
  }
  REQUIRE(traced.hits.size() == 2);
  CHECK((traced.hits[0].values[3] == AOTC_STATUS_OK && traced.hits[1].values[3] == AOTC_STATUS_INDEX_OUT_OF_RANGE));
}

TEST_CASE("probes: a run says which request it is for, where its traceparent is valid") {
  const std::string path = toy_path("toy_methods"), trace = "4bf92f3577b34da6a3ce929d0e0e4736", parent = "00f067aa0ba902b7",
                    valid = "00-" + trace + "-" + parent + "-01";
  Loaded toy(path);
  Session s(toy.api);
  ToyCall call(3);
  const Tracer tracer(toy, path, {"run__start", "run__end"});
  const auto told = [&](const char* header, aotc_status status = AOTC_STATUS_OK) {
    traced.hits.clear();
    aotc_run_options options = AOTC_RUN_OPTIONS_INIT;
    options.traceparent = header;
    CHECK(toy.api->run_with(s.context, 0, call.in.data(), 4, call.out.data(), 3, &options) == status);
    REQUIRE(traced.hits.size() == 2);
    CHECK(traced.hits[0].request == traced.hits[1].request);
    return traced.hits[0].request;
  };
  for (const char* flags : {"00", "01", "03", "ff"})
    CHECK(told(("00-" + trace + "-" + parent + "-" + flags).c_str()) == "00-" + trace + "-" + parent + "-" + flags);
  for (const char* more : {"", "-", "-what the future will be like"})
    CHECK(told(("cc-" + trace + "-" + parent + "-01" + more).c_str()) == "cc" + valid.substr(2));
  CHECK(call.right());
  const std::string zeros(32, '0');
  for (const std::string& header :
       {std::string(), std::string("00"), "ff" + valid.substr(2), valid + "-", valid + "-01", valid + "0", valid + " ", " " + valid,
        "cc" + valid.substr(2) + ".more", "00-" + zeros + "-" + parent + "-01", "00-" + trace + "-" + zeros.substr(16) + "-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" + parent + "-01", "00_" + valid.substr(3), "0" + valid, valid.substr(1)}) {
    INFO(header);
    CHECK(told(header.c_str()).empty());
  }
  for (size_t n = 0; n < valid.size(); ++n) CHECK(told(valid.substr(0, n).c_str()).empty());
  for (size_t i = 0; i < valid.size(); ++i)
    for (const char c : {'g', 'A', '/', ':', '`', '\x80', '-'}) {
      if (valid[i] == c) continue;
      CHECK(told((valid.substr(0, i) + c + valid.substr(i + 1)).c_str()).empty());
    }
  call.idx[1] = 99;
  CHECK(told(valid.c_str(), AOTC_STATUS_INDEX_OUT_OF_RANGE) == valid);
  call.idx[1] = 0;
  REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);

  // A run has its own, or none.
  traced.hits.clear();
  REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
  REQUIRE(traced.hits.size() == 2);
  CHECK((traced.hits[0].request.empty() && traced.hits[1].request.empty()));

  // A caller of before, whose options end before it, and one of a header to come.
  struct {
    aotc_run_options known = AOTC_RUN_OPTIONS_INIT;
    uint64_t more = 0;
  } options;
  for (const size_t size : {offsetof(aotc_run_options, traceparent), sizeof options}) {
    traced.hits.clear();
    options.known.struct_size = size;
    options.known.traceparent = valid.c_str();
    REQUIRE(toy.api->run_with(s.context, 0, call.in.data(), 4, call.out.data(), 3, &options.known) == AOTC_STATUS_OK);
    REQUIRE(traced.hits.size() == 2);
    CHECK(traced.hits[0].request == (size == sizeof options ? valid : ""));
  }
}

// The kernel writes the breakpoints of tracers into every private mapping of a file, those that are only read too; a file is hashed as it
// is.
TEST_CASE("probes: a file that is checked is mapped without breakpoints") {
  const unsigned char* data;
  uint64_t bytes;
  char error[512];
  REQUIRE(aotc_map_file(toy_path().c_str(), &data, &bytes, error, sizeof error) == AOTC_STATUS_OK);
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<uintptr_t>(data) << '-';
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line) && line.rfind(begin.str(), 0) != 0) continue;
  INFO(line);
  CHECK(line.find(" r--s ") != std::string::npos);
  munmap(const_cast<unsigned char*>(data), bytes);
}
