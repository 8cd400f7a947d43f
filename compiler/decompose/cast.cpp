// Changes of dtype; device, layout and memory format never decide anything.
#include "decompose/bits.h"
#include "decompose/families.h"
#include "decompose/tensor.h"

namespace aotc::decompose {
namespace {

void to_result_type(Rule& r) {
  const DType to = r.meta_result().dtype;
  const T x = tensor(r, r.has("self") ? "self" : "a");
  if (is_complex(to) != is_complex(x.dtype())) r.refuse("complex tensors are not supported");
  r.set(x.to(to));
}

void view_dtype(Rule& r) { r.set(retyped(tensor(r, "self"), r.meta_result().dtype)); }

constexpr RuleRow kRows[] = {
    {"aten.to.dtype", to_result_type},
    {"aten.to.device", to_result_type},
    {"aten.to.dtype_layout", to_result_type},
    {"aten.to.other", to_result_type},
    {"aten.to.prim_Device", to_result_type},
    {"aten.to.prim_dtype", to_result_type},
    {"aten.to.prim_other", to_result_type},
    {"aten._to_copy.default", to_result_type},
    {"aten.type_as.default", to_result_type},
    {"aten._cast_Float.default", to_result_type},
    {"aten._cast_Half.default", to_result_type},
    {"aten._cast_Int.default", to_result_type},
    {"aten._cast_Long.default", to_result_type},
    {"aten.float.default", to_result_type},
    {"prims.convert_element_type.default", to_result_type},
    {"prims.device_put.default", to_result_type},
    {"aten.view.dtype", view_dtype},
    {"prims.view_of_dtype.default", view_dtype},
};
}  // namespace

RuleTable cast_rules() { return kRows; }

}  // namespace aotc::decompose
