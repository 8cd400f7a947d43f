#include "import/written_storage.h"

#include <algorithm>

namespace aotc::import {

bool WrittenStorage::is_written(const Program& program, const SharedStorage& storage, const std::set<std::string>& written) {
  return std::any_of(program.inputs.begin(), program.inputs.end(), [&](const ProgramInput& in) {
    return written.count(in.name) && std::find(storage.targets.begin(), storage.targets.end(), in.target) != storage.targets.end();
  });
}

WrittenStorage::WrittenStorage(const Program& program, const SharedStorage& storage, at::Tensor data)
    : program_(&program), storage_(&storage), data_(std::move(data)) {}

std::map<std::string, at::Tensor> WrittenStorage::views() const {
  const auto numbers = [](const std::vector<Expr>& v) {
    std::vector<int64_t> out;
    for (const Expr& e : v) out.push_back(e.as_const().value());
    return out;
  };
  const at::Tensor memory = data_.clone();
  std::map<std::string, at::Tensor> views;
  for (const std::string& target : storage_->targets) {
    const TensorMeta& m = program_->data_meta.at(target);
    if (m.dtype == storage_->data.type.dtype)
      views.emplace(target, memory.as_strided(numbers(m.sizes), numbers(m.strides), m.storage_offset.as_const().value()));
  }
  return views;
}

}  // namespace aotc::import
