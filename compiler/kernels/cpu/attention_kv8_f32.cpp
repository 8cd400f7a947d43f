#include "attention.h"
AOTC_ENTRY(attention_kv8_f32) {
  if (static_cast<const aotc_attn_kv8_config*>(args->config)->kv_dtype == AOTC_DTYPE_I8)
    AttentionRun<float, float, stored_i8>(args).run(begin, end);
  else
    AttentionRun<float, float, stored_e4m3>(args).run(begin, end);
}
