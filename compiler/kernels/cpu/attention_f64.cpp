#include "attention.h"
AOTC_ENTRY(attention_f64) { AttentionRun<double, double>(args).run(begin, end); }
