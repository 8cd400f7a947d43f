#include "attention.h"
AOTC_ENTRY(attention_f32) { AttentionRun<float, float>(args).run(begin, end); }
