#include "import/torch_functions.h"

extern "C" __attribute__((visibility("default"))) const aotc::import::TorchFunctions* aotc_torch_functions() {
  namespace side = aotc::import::torch_side;
  static constexpr aotc::import::TorchFunctions table{AOTC_VERSION,        side::works,          side::find_schema,  side::operators,
                                                      side::make_tracer,   side::make_reference, side::result_types, side::define_operator,
                                                      side::call_operator, side::load_operators};
  return &table;
}
