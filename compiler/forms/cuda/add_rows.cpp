// Bags of rows (kernels/cuda/add_rows.cuh): a block some columns of a row.
#include "emit/cuda/code.h"
#include "emit/cuda/library.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/simt_tile.h"

namespace aotc::forms::cuda {

using loop::LibraryKernel;

namespace {

constexpr int kBlockThreads = 128;

class AddRows final : public FormOf<LibraryKernel> {
 public:
  std::string_view name() const override { return "cuda_add_rows"; }
  bool is_part() const override { return true; }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override {
    const DType t = k.params.begin()->dtype;
    if (k.algorithm != "add_rows" || (t != DType::f32 && t != DType::f64)) return {false, ""};
    if (k.sizes.at(4).is(0)) return refuse("rows that do not say where their indices begin");
    return Fit::yes();
  }
  StepSpec step(const LibraryKernel& k, const Site& s, const Choice&) const override {
    return library_step(k, kBlockThreads, min(k.sizes[0] * ceildiv(k.sizes[1], columns(k, s)), kMaxGrid));
  }
  std::string source(const LibraryKernel& k, const Site& s, const Choice&, const std::string& symbol) const override {
    using emit::cuda::pointer;
    const DType t = k.params.begin()->dtype;
    const DType table = k.params[static_cast<loop::ParamId>(1)].dtype;
    const bool factors = !k.sizes.at(5).is(0), largest = k.sizes.at(4).is(2);
    const size_t out = factors ? 5 : 4;
    return emit::cuda::kernel(
        "add_rows.cuh", symbol, out + 1, 6, 1, kBlockThreads,
        fmt::format("  add_rows<{}, {}, {}, {}, {}>({}, {}, {}, {}, {}, {}, a.size[0], a.size[1], a.size[2], a.size[3], a.fault);\n",
                    emit::cuda::c_type(t), factors, largest, columns(k, s), kBlockThreads, pointer(t, 0), pointer(table, 1),
                    pointer(DType::i64, 2), pointer(DType::i64, 3), factors ? pointer(t, 4) : "nullptr", pointer(t, out, true)));
  }

 private:
  /// Of a block: 8 to 64, as rows are long.
  static int columns(const LibraryKernel& k, const Site& s) {
    int columns = 8;
    while (columns < 64 && columns < at_least_one(k.sizes[1], s)) columns *= 2;
    return columns;
  }
};

}  // namespace

const Form& add_rows() { return instance<AddRows>(); }

}  // namespace aotc::forms::cuda
