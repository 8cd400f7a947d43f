#include "triangle.h"
AOTC_ENTRY(solve_triangular_f32) { solve_triangular<float>(args, begin, end); }
AOTC_ENTRY(solve_triangular_f64) { solve_triangular<double>(args, begin, end); }
