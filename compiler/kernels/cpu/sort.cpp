#include "sort.h"
AOTC_LIBRARY(sort, sort_rows)
