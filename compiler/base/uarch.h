#pragma once
// What a microarchitecture costs: numbers that estimates and passes read, a data file each (base/uarch/*.uarch), the rows of uarch_*.def.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/machine.h"

namespace aotc {

#define AOTC_NUMBER(name, what) double name = 0;
#define AOTC_COUNT(name, what) int64_t name = 0;
struct CpuCosts {
#include "base/uarch_cpu.def"
};
struct GpuCosts {
#include "base/uarch_gpu.def"
};
struct Uarch {
  std::string name;     ///< of its file: "zen4", "sm_90"
  std::string id;       ///< of a file that aotc does not carry: a hash of all its numbers, as 16 hex digits; else empty
  bool is_gpu = false;  ///< which of the two below it has
  CpuCosts cpu;
  GpuCosts gpu;
#include "base/uarch_both.def"
  bool is_file() const { return !id.empty(); }
};
#undef AOTC_NUMBER
#undef AOTC_COUNT

inline const CpuCosts& cpu_costs(const Machine& m) { return m.uarch->cpu; }
inline const GpuCosts& gpu_costs(const Machine& m) { return m.uarch->gpu; }

/// What is assumed of machines with this instruction set.
const Uarch& uarch_of(Isa isa);
/// The newest compute capability that is known and not above this one.
const Uarch& uarch_of_sm(int sm);
/// What decisions of this target are made by: its data file or, without one, what is assumed of its best code version.
const Uarch& uarch_of(const Target& target);
/// Names of all that aotc carries.
std::vector<std::string_view> uarch_names();

/// A data file: `kind cpu` (or gpu), or `like NAME` of one that aotc carries, then a row `name value` for each number that differs; #
/// begins a comment. Throws Diagnostic with file and line where a row is none, a number is missing or none, or a name is unknown.
Uarch parse_uarch(std::string_view text, const std::string& file);
/// The file, which has its stem for a name. Throws Diagnostic (io, or what parse_uarch throws).
std::shared_ptr<const Uarch> load_uarch(const std::string& file);
/// parse_uarch of such a text (print), with that name.
std::shared_ptr<const Uarch> named_uarch(std::string_view text, const std::string& name);
/// A text that parse_uarch reads as these numbers: `like` the first of its kind, and what differs.
std::string print(const Uarch& uarch);

/// Decisions of the target go by this one from now on: of its parts of that kind, and of CPUs for the best code version. Throws Diagnostic
/// (usage) that names `file` where the target has no part of that kind or several GPU architectures, (bad input) where a block of threads
/// of it has more memory than those of the target's architecture have.
void take_uarch(Target& target, std::shared_ptr<const Uarch> uarch, const std::string& file);

/// A number of a table, by its name in data files.
struct UarchNumber {
  std::string_view name, what;
  bool count = false;  ///< a whole number
};
/// Those of a kind of machine, in the tables' order. The text of a row that says "as the row before" is that row's.
std::vector<UarchNumber> uarch_numbers(bool gpu);
double number_of(const Uarch& uarch, std::string_view name);
/// Of a whole number the nearest one is taken.
void set_number(Uarch& uarch, std::string_view name, double value);

}  // namespace aotc
