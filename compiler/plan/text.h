#pragma once
// Text of Plans; parse_plans(print(p)) prints the same text again. For --print-ir-after, --keep, `aotc opt` and filetests.
//
//   plans
//   sym batch [1, 64]
//   kernel 0 "linear_relu"
//   weight 0 "fc.weight.panels" source c0 offset 0 bytes 65536 panels {dtype float32 col_stride 1 rows [{count 64}] matrices [..]}
//   config 0 kernel "linear_relu" packed true choice gemm {mr 14 nv 2 ...}
//   plan 0 "batch=1" {
//     range 0 batch min 1 max 1
//     buffer p0 "x" of b0 place input bytes [256] live [0, 2)
//     step 0 cpu kernel "linear_relu" args [p0, p1, p2] symbol "aotc_gemm_f32" library true config 0 sizes [..] work [1] grain [3] ...
//     arena_bytes [4096]
//     # a map of the arena and its totals
//   }
//
// What is shown and in which order is said by the tables of plan/fields.h. # starts a comment.
#include <string>
#include <string_view>

#include "plan/build.h"

namespace aotc::plan {
std::string print(const PlanSet& set);
/// Throws Diagnostic (file, "line:column", what was expected). The result is verified.
PlanSet parse_plans(std::string_view text, std::string_view file_name);
/// "{dtype float32 col_stride 1 rows [..] ..}"
std::string print(const forms::WeightForm& form);
/// Throws Diagnostic (what, "line:column", what was expected).
forms::WeightForm parse_weight_form(std::string_view text, std::string_view what);
/// The line of totals: arena, sum of all buffers, lower bound.
std::string summary(const Plan& plan);
}  // namespace aotc::plan
