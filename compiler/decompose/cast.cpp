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
    {"aten.to.dtype aten.to.device aten.to.dtype_layout aten.to.other aten.to.prim_Device aten.to.prim_dtype aten.to.prim_other "
     "aten._to_copy.default aten.type_as.default aten._cast_Float.default aten._cast_Half.default aten._cast_Int.default "
     "aten._cast_Long.default aten.float.default prims.convert_element_type.default prims.device_put.default",
     to_result_type},
    {"aten.view.dtype prims.view_of_dtype.default", view_dtype},
};
}  // namespace

RuleTable cast_rules() { return kRows; }

}  // namespace aotc::decompose
