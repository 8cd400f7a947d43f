#pragma once
// --precision auto: which contractions of float32 may multiply bf16, found by measuring.
#include "pipeline/pipeline.h"

namespace aotc::cli {

/// Settles the precisions of options' parts where the mode is auto; otherwise does nothing. In each part a contraction is as cheap as it
/// may be: bf16 where the part's estimate says that it is faster, unless the outputs of sample inputs would be further from fp64 than the
/// bound. For that an artifact of this machine is made whose contractions round what they multiply where an input says so; LibTorch gives
/// the truth and eager bf16's error. Files go to a folder beside `near`. Throws Diagnostic.
void choose_precision(pipeline::FrontOptions& options, const std::string& near, const pipeline::Events& events);

}  // namespace aotc::cli
