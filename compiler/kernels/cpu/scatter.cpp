#include "library.h"
AOTC_LIBRARY(scatter, scatter)
