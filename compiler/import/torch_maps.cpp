#include "import/torch_maps.h"

#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>

namespace aotc::import {
namespace {

namespace ft = at::functorch;
using Values = std::vector<c10::IValue>;

int64_t level() {
  const auto layer = ft::maybeCurrentDynamicLayer();
  TORCH_CHECK(layer, "rows of a map that has not begun");
  return layer->layerId();
}

Values nothing(const Values&) { return {c10::IValue()}; }

Values begin(const Values& v) {
  ft::initAndPushDynamicLayer(ft::TransformType::Vmap, c10::SymInt(v.at(0).toInt()), ft::RandomnessType::Error);
  return {c10::IValue()};
}

Values end(const Values&) {
  level();
  ft::popDynamicLayerAndDeleteMetadata();
  return {c10::IValue()};
}

Values rows(const Values& v) { return {ft::addBatchDim(v.at(0).toTensor(), v.at(1).toInt(), level())}; }

Values whole(const Values& v) {
  const at::Tensor t = v.at(0).toTensor();
  const int64_t n = v.at(2).toInt(), dim = v.at(3).toInt();
  if (const auto* b = ft::maybeGetBatchedImpl(t); b && b->level() == level()) return {b->value().movedim(b->bdim(), dim)};
  std::vector<int64_t> sizes = t.sizes().vec();
  sizes.insert(sizes.begin(), n);
  return {t.expand(sizes).movedim(0, dim)};
}

constexpr MapNode kNodes[] = {
    {"torch._functorch.predispatch.lazy_load_decompositions", nothing}, {"torch._functorch.predispatch._vmap_increment_nesting", begin},
    {"torch._functorch.predispatch._vmap_decrement_nesting", end},      {"torch._functorch.predispatch._add_batch_dim", rows},
    {"torch._functorch.predispatch._remove_batch_dim", whole},
};

}  // namespace

const MapNode* find_map_node(std::string_view target) {
  for (const MapNode& n : kNodes)
    if (n.target == target) return &n;
  return nullptr;
}

OpenMaps::OpenMaps() : before_(ft::getDynamicLayerStack().size()) {}
OpenMaps::~OpenMaps() {
  while (ft::getDynamicLayerStack().size() > before_) ft::popDynamicLayerAndDeleteMetadata();
}

}  // namespace aotc::import
