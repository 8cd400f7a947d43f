#include "attention.h"
AOTC_ENTRY(attention_f16) { AttentionRun<f16, float>(args).run(begin, end); }
