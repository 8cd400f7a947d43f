#include "library.h"
AOTC_LIBRARY(index_put, index_put)
