#include "add_rows.h"
AOTC_ENTRY(add_rows_f32) { add_table_rows<float>(args, begin, end); }
AOTC_ENTRY(add_rows_f64) { add_table_rows<double>(args, begin, end); }
