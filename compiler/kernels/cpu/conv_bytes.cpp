#include "conv_bytes_depthwise.h"
AOTC_ENTRY(conv_bytes_u8) { ConvBytes(args).run(begin, end); }
AOTC_ENTRY(conv_bytes_depthwise_u8) { ConvBytesDepthwise(args).run(begin, end); }
