#pragma once
// What the convolution forms of the library share: sizes, the config struct, the panel form of their weights.
#include <array>
#include <set>

#include "aotc/detail/library_abi.h"
#include "forms/cpu/cost.h"
#include "forms/cpu/forms.h"
#include "forms/form.h"

namespace aotc::forms::cpu {

/// See aotc_conv_config.
struct ConvTile {
  int mc = 64, nc = 192, kc = 256, kp = 1024;
  int pack_w = 1;  ///< a constant weight is stored in panel form
  static std::span<const Member<ConvTile>> members();
};

/// The convolution at the sizes worth tuning for.
struct ConvSizes {
  DType dtype = DType::f32;
  int64_t n = 1, c = 1, co = 1, groups = 1;
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1};
  bool transposed = false, w_constant = true;
  int64_t depth() const { return c / groups * kernel[0] * kernel[1] * kernel[2]; }
  int64_t pixels() const { return n * out[0] * out[1] * out[2]; }
  int64_t group_channels() const { return co / groups; }
};
ConvSizes conv_sizes(const loop::ConvKernel& k, const SymTable& syms);
/// The same for estimates: an empty convolution is planned as the smallest one.
ConvSizes conv_sizes_at_least_one(const loop::ConvKernel& k, const SymTable& syms);

int64_t taps_of(const loop::ConvKernel& k);
/// Elements of one output's sum.
Expr depth_of(const loop::ConvKernel& k);
/// The share of the windows' taps along one of the three dims that lie inside of x, over all of the output; not of transposed ones.
double taps_inside(const ConvSizes& c, size_t dim);

/// Whether register tiles of floats serve it.
Fit takes_floats(const loop::ConvKernel& k);
/// The blocks of a group's channels that are worth trying.
std::set<int> channel_blocks(int64_t group_channels);
/// How often a block of pixels is copied over its blocks of channels: once by each thread that runs through some of them where copies of
/// the whole depth are kept, else for each.
double copies_of_pixels(bool kept, int64_t channel_blocks, int64_t pixel_blocks, int threads);

/// One of AOTC_CONV_*: a subclass decides which choices exist and what they cost, and counts the work units.
class ConvForm : public FormOf<loop::ConvKernel> {
 public:
  ConvForm(int algo, bool channels_last) : algo_(algo), channels_last_(channels_last) {}
  std::span<const Field> fields() const override { return fields_of<ConvTile>(); }
  Fit legal(const Choice& c) const override;

 protected:
  Fit fits(const loop::ConvKernel& k, const Site& s) const final {
    if (k.channels_last != channels_last_) return refuse("x has its channels {}", k.channels_last ? "last" : "first");
    if (const Fit taken = takes(k, s); !taken) return taken;
    if (k.channels_last && k.transposed) return refuse("transposed convolutions have their channels first");
    return has_entry(entry(), k.in) ? Fit::yes() : refuse("no kernel of its kind is of {}", dtype_name(k.in));
  }
  virtual Fit takes(const loop::ConvKernel&, const Site&) const = 0;
  struct Work {
    Expr units, grain;
  };
  /// Of an implicit product, images merged: nc pixels x mc channels of a group a unit.
  virtual Work work(const loop::ConvKernel& k, const ConvTile& t, const Site& s) const;
  /// What the library's entry is called without its dtype, and its scratch for sums over `depth` elements.
  virtual std::string_view entry() const { return channels_last_ ? "conv_last" : "conv"; }
  virtual Expr scratch(const aotc_conv_config& g, const Expr& depth, int64_t acc_bytes) const;
  /// Rows of one matrix of the panel form, or nothing where the weight stays as it is.
  virtual std::vector<Panels::Rows> rows(const loop::ConvKernel&, int64_t /*ci*/, int64_t /*co*/, int64_t /*taps*/) const { return {}; }
  /// The groups' weights, a column each, are one matrix.
  virtual bool joins_groups() const { return false; }
  /// aotc_conv_config::line_steps.
  virtual int line_steps(const loop::ConvKernel&, const ConvTile&) const { return 0; }
  /// Panels::winograd.
  virtual int winograd(const ConvTile&) const { return 0; }

  std::string contract(const loop::ConvKernel& k, const Site& s) const override;
  StepSpec step(const loop::ConvKernel& k, const Site& s, const Choice& c) const override;
  std::optional<std::pair<loop::ParamId, WeightForm>> weight(const loop::ConvKernel& k, const Choice& c) const override;
  std::string config(const loop::Kernel& kernel, const loop::ConvKernel& k, const Choice& c, Isa isa,
                     const std::string& name) const override;

  Candidate candidate(const ConvTile& t) const { return {pack(*this, t), Fit::yes(), 0}; }
  /// Refused where the scratch is too large.
  Candidate candidate(const ConvTile& t, const ConvSizes& c, const Machine& m) const;
  aotc_conv_config scratch_config(const ConvTile& t, bool packed, int64_t stride_w) const;

 private:
  std::optional<Panels> panels_of(const loop::ConvKernel& k, const ConvTile& t) const;
  int algo_;
  bool channels_last_;
};

}  // namespace aotc::forms::cpu
