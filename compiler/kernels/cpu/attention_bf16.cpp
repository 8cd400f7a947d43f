#include "attention.h"
AOTC_ENTRY(attention_bf16) { AttentionRun<bf16, float>(args).run(begin, end); }
