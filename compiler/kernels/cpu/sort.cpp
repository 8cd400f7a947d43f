#include "library.h"
AOTC_LIBRARY(sort, sort_rows)
