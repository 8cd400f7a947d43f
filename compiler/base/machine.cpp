#include "base/machine.h"

#include <sched.h>

#include <algorithm>
#include <fstream>

#include "aotc/detail/cpu_quota.h"
#include "base/diagnostic.h"
#include "base/named_threads.h"
#include "base/parts.h"
#include "base/uarch.h"

namespace aotc {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string s;
  std::getline(in, s);
  return s;
}

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0)
      if (const size_t at = line.find(": "); at != std::string::npos) return line.substr(at + 2);
  return "unknown cpu";
}

/// "1024K", "48K", "32M" as the kernel writes it; 0 where it does not.
int64_t bytes_of(const std::string& text) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return 0;
  const int64_t n = std::stoll(text);
  return text.back() == 'K' ? n << 10 : text.back() == 'M' ? n << 20 : n;
}

/// One that lives as long as the program.
std::shared_ptr<const Uarch> carried(const Uarch& u) { return {std::shared_ptr<const Uarch>(), &u}; }

}  // namespace

std::string Machine::name() const {
  if (arch == Arch::x86_64) return std::string(isa_name(isa));
  return fmt::format("sm_{}{}", sm, own ? "a" : "");
}

std::string Machine::str() const {
  const std::string who = model.empty() ? name() : model + " " + name();
  const std::string costs = uarch && uarch->is_file() ? fmt::format(", costs of {} {}", uarch->name, uarch->id) : "";
  if (is_gpu())
    return fmt::format("{} {} processors, {} KB shared, L2 {} MB, {} bytes a ns{}", who, cores, shared_bytes >> 10, l2_bytes >> 20,
                       bytes_per_ns, costs);
  return fmt::format("{} {} thread{} L1 {}K L2 {}K L3 {}M{}", who, cores, cores == 1 ? "" : "s", l1_bytes >> 10, l2_bytes >> 10,
                     l3_bytes >> 20, costs);
}

std::string Goal::str() const {
  const Numerics& n = numerics;
  if (machine.is_gpu())
    return machine.str() + (n.f32_matmul == F32Matmul::highest ? "" : fmt::format(", float32 products {}", f32_matmul_name(n.f32_matmul)));
  return fmt::format("{}{}{}{}", machine.str(), n.int8_rows ? ", int8 rows" : "", n.winograd4 ? ", F(4x4)" : "",
                     n.strassen ? ", Strassen" : "") +
         (n.reproducible ? ", reproducible" : "");
}

Machine machine_of(Isa isa, int threads) {
  Machine m;
  m.isa = isa, m.features = features_of(isa), m.cores = std::max(1, threads);
  take_costs(m, carried(uarch_of(isa)));
  return m;
}

Machine machine_of(const std::string& sm) {
  const Target t = parse_cuda_target(is_ptx(sm) ? "sm_" + sm.substr(sm.find('_') + 1) : sm);
  const std::string digits = t.sms.at(0).substr(3);
  Machine m;
  m.arch = Arch::cuda;
  m.sm = std::stoi(digits);
  m.own = digits.back() == 'a';
  if (m.sm >= 80) m.features = m.features | FeatureSet{Feature::tensor_cores};
  if (m.sm >= 90) m.features = m.features | FeatureSet{Feature::clusters};
  if (m.own && m.sm == 90) m.features = m.features | FeatureSet{Feature::wgmma};
  take_costs(m, carried(uarch_of_sm(m.sm)));
  return m;
}

Machine this_machine(const std::vector<Isa>& isas, int threads) {
  const std::vector<Isa> native = native_isas();
  Isa best = isas.empty() ? Isa::avx2 : isas.front();
  for (Isa i : isas)
    if (std::find(native.begin(), native.end(), i) != native.end()) best = i;
  Machine m = machine_of(best, threads);
  m.model = cpu_model();
  for (int i = 0; i < 8; ++i) {
    const std::string dir = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    const std::string level = first_line(dir + "level"), type = first_line(dir + "type");
    const int64_t bytes = bytes_of(first_line(dir + "size"));
    if (bytes > 0 && level == "1" && type == "Data") m.l1_bytes = bytes;
    if (bytes > 0 && level == "2") m.l2_bytes = bytes;
    if (bytes > 0 && level == "3") m.l3_bytes = bytes;
  }
  return m;
}

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int affinity = std::max(1, CPU_COUNT(&set)), quota = aotc_cpu_quota("");
  return quota > 0 ? std::min(affinity, quota) : affinity;
}

void take_costs(Machine& m, std::shared_ptr<const Uarch> uarch) {
  const Uarch& u = *uarch;
  AOTC_CHECK(u.is_gpu == m.is_gpu(), "{} does not describe {}", u.name, m.name());
  m.l2_bytes = u.l2_bytes;
  if (u.is_gpu) {
    m.cores = static_cast<int>(std::min<int64_t>(u.gpu.processors, 1 << 20)), m.shared_bytes = u.gpu.shared_bytes;
    m.bytes_per_ns = u.gpu.copy_bytes_per_ns;
  } else {
    m.l1_bytes = u.cpu.l1_bytes, m.l3_bytes = u.cpu.l3_bytes;
  }
  m.uarch = std::move(uarch);
}

namespace {

Machine known_machine(const Target& target) {
  if (target.is_gpu()) {
    AOTC_CHECK(target.sms.size() == 1 && target.isas.empty(), "{} is no part of a target", target.str());
    return machine_of(target.sms.front());
  }
  const int threads = target.threads > 0 ? target.threads : target.native ? usable_processors() : kNamedThreads;
  if (target.numerics.reproducible) return machine_of(Isa::avx512, threads);  // the same decisions for all machines
  return target.isas.empty() ? machine_of(Isa::avx2, threads)
         : target.native     ? this_machine(target.isas, threads)
                             : machine_of(target.isas.back(), threads);
}

}  // namespace

Machine machine_of(const Target& target) {
  Machine m = known_machine(target);
  if (target.uarch) take_costs(m, target.uarch);
  return m;
}

Goal goal_of(const Target& target) { return {machine_of(target), target.numerics}; }

}  // namespace aotc
