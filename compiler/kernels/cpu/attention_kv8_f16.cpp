#include "attention.h"
AOTC_ENTRY(attention_kv8_f16) {
  if (static_cast<const aotc_attn_kv8_config*>(args->config)->kv_dtype == AOTC_DTYPE_I8)
    AttentionRun<f16, float, stored_i8>(args).run(begin, end);
  else
    AttentionRun<f16, float, stored_e4m3>(args).run(begin, end);
}
