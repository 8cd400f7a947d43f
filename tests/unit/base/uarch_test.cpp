#include "base/uarch.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/diagnostic.h"
#include "base/parts.h"

using namespace aotc;

namespace {
std::string refusal(const std::string& text) {
  try {
    parse_uarch(text, "mine.uarch");
  } catch (const Diagnostic& d) { return d.what(); }
  return "taken";
}

/// What take_uarch says of a file for the target.
std::string refusal(Target target, const std::string& text, ExitCode code) {
  try {
    take_uarch(target, named_uarch(text, "mine"), "mine.uarch");
  } catch (const Diagnostic& d) {
    CHECK(d.code() == code);
    CHECK(target.uarch == nullptr);
    return d.what();
  }
  return "taken";
}
}  // namespace

TEST_CASE("every microarchitecture that aotc carries is whole, and each machine has its own") {
  CHECK(uarch_names().size() >= 12);
  for (const Isa isa : {Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    const Machine m = machine_of(isa, 2);
    CHECK(m.uarch.get() == &uarch_of(isa));
    CHECK_FALSE(m.uarch->is_gpu);
    CHECK(cpu_costs(m).tile_call > 0);
    CHECK(cpu_costs(m).halves_vectors == (isa == Isa::avx512_bf16));
    CHECK(m.l1_bytes == (isa == Isa::amx ? 48 << 10 : 32 << 10));
    CHECK(m.l2_bytes == (isa == Isa::amx ? 2 << 20 : 1 << 20));
  }
  CHECK(uarch_of(parse_cpu_target("portable")).name == "skylake");
  const struct {
    int sm;
    const char* name;
    int64_t processors;
  } kGpus[] = {{70, "sm_75", 72}, {80, "sm_80", 108}, {88, "sm_87", 16}, {90, "sm_90", 132}, {103, "sm_100", 148}, {121, "sm_120", 170}};
  for (const auto& row : kGpus) {
    INFO(row.sm);
    const Uarch& u = uarch_of_sm(row.sm);
    CHECK(u.is_gpu);
    CHECK(u.name == row.name);
    CHECK(u.gpu.processors == row.processors);
    CHECK(u.gpu.wg_start == uarch_of_sm(90).gpu.wg_start);
  }
  CHECK(uarch_of(parse_cuda_target("sm_90a")).name == "sm_90");
}

TEST_CASE("a file of a microarchitecture says what differs, and is refused with its line where it is wrong") {
  const Uarch mine = parse_uarch("# mine\nlike zen4  # but\n\ntile_call 41.5\nl2_bytes 2097152\n", "mine.uarch");
  CHECK(mine.cpu.tile_call == 41.5);
  CHECK(mine.l2_bytes == 2 << 20);
  CHECK(mine.cpu.halves_vectors == 1);
  CHECK(mine.cpu.byte_macs == uarch_of(Isa::avx512_bf16).cpu.byte_macs);
  using Catch::Contains;
  CHECK_THAT(refusal(""), Contains("empty"));
  CHECK_THAT(refusal("tile_call 4\n"), Contains("line 1") && Contains("like NAME"));
  CHECK_THAT(refusal("like zen9\n"), Contains("zen9") && Contains("sapphire_rapids"));
  CHECK_THAT(refusal("like zen4\ntile_cal 4\n"), Contains("line 2") && Contains("tile_cal"));
  CHECK_THAT(refusal("like zen4\nclock 4\n"), Contains("of a cpu"));
  CHECK_THAT(refusal("like zen4\n\ntile_call four\n"), Contains("line 3") && Contains("four"));
  CHECK_THAT(refusal("like zen4\ntile_call -1\n"), Contains("-1"));
  CHECK_THAT(refusal("like zen4\ntile_call nan\n"), Contains("nan"));
  CHECK_THAT(refusal("like zen4\nl2_bytes 1.5\n"), Contains("1.5"));
  CHECK_THAT(refusal("like zen4\nsplit_least 0\n"), Contains("line 2") && Contains("'0'"));
  CHECK_THAT(refusal("like zen4\ntile_call 1e-9\n"), Contains("1e-9"));
  CHECK_THAT(refusal("like zen4\ntile_call 1e8\n"), Contains("1e8") && Contains("10000000"));
  CHECK_THAT(refusal("like zen4\nl2_bytes 9000000000000000000\n"), Contains("9000000000000000000"));
  CHECK(parse_uarch("like zen4\nhalves_vectors 0\nwindow_ns 0\n", "mine.uarch").cpu.halves_vectors == 0);
  CHECK_THAT(refusal("like zen4\ntile_call 4 5\n"), Contains("3 words"));
  CHECK_THAT(refusal("like zen4\ntile_call 4\ntile_call 5\n"), Contains("twice"));
  CHECK_THAT(refusal("kind cpu\ntile_call 4\n"), Contains("missing"));
}

TEST_CASE("numbers by name, and a text of all of them that is read as the same") {
  for (const std::string_view name : uarch_names()) {
    INFO(name);
    const auto u = named_uarch(fmt::format("like {}\n", name), "mine");
    const auto again = named_uarch(print(*u), "mine");
    CHECK(again->id == u->id);
    const std::vector<UarchNumber> numbers = uarch_numbers(u->is_gpu);
    REQUIRE(numbers.size() > 100);
    for (const UarchNumber& n : numbers) {
      INFO(n.name);
      CHECK_FALSE(n.what.empty());
      CHECK(number_of(*again, n.name) == number_of(*u, n.name));
      // Every number counts in the id, and goes through the text.
      Uarch changed = *u;
      set_number(changed, n.name, number_of(*u, n.name) + (n.count ? 1 : 0.1));
      const auto read = named_uarch(print(changed), "mine");
      CHECK(number_of(*read, n.name) == number_of(changed, n.name));
      CHECK(read->id != u->id);
    }
  }
}

TEST_CASE("a target's decisions go by its data file") {
  const std::string path = "uarch_test.mine.uarch";
  std::ofstream(path) << "# a comment\nlike zen4\ntile_call 41.5\nl1_bytes 40000\nl2_bytes 2097152\n";
  const auto file = load_uarch(path);
  std::remove(path.c_str());
  CHECK(file->name == "uarch_test.mine");
  CHECK(file->is_file());
  CHECK(file->id == named_uarch("like zen4\nl1_bytes 40000\ntile_call 41.5\nl2_bytes 2097152\n", "other")->id);
  CHECK_THROWS_AS(load_uarch(path), Diagnostic);
  for (const char* cpu : {"portable", "avx2", "native"}) {
    INFO(cpu);
    Target t;
    try {
      t = parse_cpu_target(cpu);
    } catch (const Diagnostic&) { continue; }  // native, of a machine that there is no code for
    const Machine plain = machine_of(t);
    CHECK_FALSE(plain.uarch->is_file());
    take_uarch(t, file, path);
    CHECK(&uarch_of(t) == file.get());
    const Machine m = machine_of(t);
    CHECK(m.uarch == file);
    CHECK(cpu_costs(m).tile_call == 41.5);
    CHECK(m.l1_bytes == 40000);
    CHECK(m.l2_bytes == 2 << 20);
    CHECK(m.l3_bytes == file->cpu.l3_bytes);
    CHECK(m.isa == plain.isa);
    CHECK(m.cores == plain.cores);
    CHECK(m.str().find(", costs of uarch_test.mine " + file->id) != std::string::npos);
    CHECK(plain.str().find("costs") == std::string::npos);
  }
}

TEST_CASE("a data file is that of the parts of its kind") {
  Target both = parse_cpu_target("portable");
  both.sms = parse_cuda_target("sm_90a").sms;
  add_ptx(both);
  const auto cpu = named_uarch("like zen4\n", "mine"), gpu = named_uarch("like sm_90\nlaunch 3000\n", "chip");
  for (const auto& [file, of_gpu] : {std::pair(cpu, false), {gpu, true}}) {
    Target t = both;
    take_uarch(t, file, "mine.uarch");
    const std::vector<Target> parts = parts_of(t);
    REQUIRE(parts.size() == 3);
    for (const Target& part : parts) {
      const bool ptx = part.is_gpu() && is_ptx(part.sms.front());
      CHECK(part.uarch == (part.is_gpu() == of_gpu && !ptx ? file : nullptr));
      CHECK(machine_of(part).uarch->is_file() == (part.uarch != nullptr));
    }
  }
  using Catch::Contains;
  CHECK_THAT(refusal(parse_cuda_target("sm_90a"), "like zen4\n", ExitCode::usage),
             Contains("mine.uarch") && Contains("describes a CPU") && Contains("sm_90a"));
  CHECK_THAT(refusal(parse_cpu_target("portable"), "like sm_90\n", ExitCode::usage),
             Contains("mine.uarch") && Contains("describes a GPU") && Contains("avx2,avx512"));
  CHECK_THAT(refusal(parse_cuda_target("sm_80,sm_90a"), "like sm_90\n", ExitCode::usage), Contains("sm_80,sm_90a"));
  CHECK_THAT(refusal(parse_cuda_target("sm_86"), "like sm_90\n", ExitCode::bad_input),
             Contains("shared_bytes 204800") && Contains("94208"));
}
