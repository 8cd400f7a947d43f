#pragma once
// Tensors out of a file of torch.save. The pickle inside is not executed: a fixed set of opcodes and of names is read, everything else
// is refused with the opcode or name.
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/interp.h"
#include "import/payload.h"

namespace aotc::import {

struct PickleValue {
  struct None {};
  struct Name {
    std::string text;
  };  ///< a class or function that is allowed, "torch.FloatStorage"
  struct Sequence {
    bool tuple = false;
    std::vector<PickleValue> items;
  };
  struct Dict {
    std::vector<std::pair<PickleValue, PickleValue>> items;
  };
  std::variant<None, bool, int64_t, double, std::string, Name, StoredTensor, std::shared_ptr<Sequence>, std::shared_ptr<Dict>> v;
  int depth = 0;  ///< of containers, bounded

  template <class T>
  const T* as() const {
    return std::get_if<T>(&v);
  }
  const Sequence* sequence() const {
    auto* p = as<std::shared_ptr<Sequence>>();
    return p ? p->get() : nullptr;
  }
  const Dict* dict() const {
    auto* p = as<std::shared_ptr<Dict>>();
    return p ? p->get() : nullptr;
  }
};

/// `file` is the whole zip that torch.save wrote; tensors point into it. Throws Diagnostic.
PickleValue read_torch_save(Bytes file, const std::string& what);

/// Writes what torch.save makes of (the tensors, {}): the example inputs of an archive. Throws Diagnostic (unsupported: a type that is none
/// of torch's storages; io).
void write_torch_save(const std::string& path, const std::vector<HostTensor>& tensors);

}  // namespace aotc::import
