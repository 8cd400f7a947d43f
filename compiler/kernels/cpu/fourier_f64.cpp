#include "fourier.h"
AOTC_ENTRY(fourier_f64) { fourier<double>(args, begin, end); }
