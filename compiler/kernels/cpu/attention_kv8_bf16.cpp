#include "attention.h"
AOTC_ENTRY(attention_kv8_bf16) {
  if (static_cast<const aotc_attn_kv8_config*>(args->config)->kv_dtype == AOTC_DTYPE_I8)
    AttentionRun<bf16, float, stored_i8>(args).run(begin, end);
  else
    AttentionRun<bf16, float, stored_e4m3>(args).run(begin, end);
}
