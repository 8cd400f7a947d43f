#include "library.h"
AOTC_LIBRARY(topk, topk_rows)
