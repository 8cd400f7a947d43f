#include "fourier.h"
AOTC_ENTRY(fourier_f32) { fourier<float>(args, begin, end); }
