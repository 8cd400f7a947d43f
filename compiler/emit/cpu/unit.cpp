#include "emit/cpu/unit.h"

namespace aotc::emit::cpu {

Isa loop_isa(Isa isa) { return features_of(isa).includes(features_of(Isa::avx512)) ? Isa::avx512 : Isa::avx2; }

std::vector<std::string> unit_flags(FeatureSet features) {
  std::vector<std::string> flags = {"-std=c++17",
                                    "-O2",
                                    "-g0",
                                    "-Werror=frame-larger-than=16384",  // what a run promises of its stack (runtime/README.md)
                                    "-fPIC",
                                    "-fwrapv",
                                    "-fno-tree-sink",  // GCC 12 crashes in that pass on vectors that live across a rare branch
                                    "-ffp-contract=fast",
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-fno-asynchronous-unwind-tables",
                                    "-fno-stack-protector",
                                    "-fno-strict-aliasing",
                                    "-ffunction-sections",
                                    "-fdata-sections",
                                    "-fvisibility=hidden"};
  if (features.includes(features_of(Isa::avx512)))
    flags.insert(flags.end(), {"-march=x86-64-v4", "-mprefer-vector-width=512"});
  else
    flags.push_back("-march=x86-64-v3");
  if (features.has(Feature::AVX512_BF16)) flags.push_back("-mavx512bf16");
  return flags;
}

std::vector<std::string> reproducible_flags(std::vector<std::string> flags) {
  std::erase(flags, "-mavx512bf16");
  flags.insert(flags.end(), {"-ffp-contract=off", "-DAOTC_SAME_BITS"});
  return flags;
}

std::string unit_source(const std::vector<std::string>& functions) {
  std::string s = "#include \"aotc/detail/kernel_abi.h\"\n#include \"vec/vec_reduce.h\"\n";
  for (const std::string& f : functions) s += "\n" + f;
  return s;
}

}  // namespace aotc::emit::cpu
