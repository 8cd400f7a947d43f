#pragma once
// The field tables of the Plan IR: what its text shows and reads back, in this order. How a value is spelled is in plan/spelling.h.
#include "aotc/detail/strips_abi.h"
#include "base/fields.h"
#include "loop/names.h"
#include "plan/build.h"

namespace aotc::plan {

inline constexpr loop::Words<Place, 6> kPlaces{{"input", "output", "weight", "arena", "state", "state_next"}};
inline constexpr loop::Words<ShapeGuard::Kind, 3> kGuardKinds{{"eq", "le", "divisible"}};
inline constexpr loop::Words<StepKind, 4> kStepKinds{{"cpu", "cuda", "copy", "zero"}};

}  // namespace aotc::plan

namespace aotc {

template <>
struct FieldTable<forms::StripArg> {
  using S = forms::StripArg;
  static constexpr auto fields = std::tuple{
      positional_field("ptr", &S::ptr).at_least(AOTC_STRIP_OWN),
      optional_field("pixel_bytes", &S::pixel_bytes),
      optional_field("image_bytes", &S::image_bytes),
  };
};
template <>
struct FieldTable<forms::StripStage> {
  using S = forms::StripStage;
  static constexpr auto fields = std::tuple{
      field("config", &S::config).at_least(0),
      field("symbol", &S::symbol),
      optional_field("product", &S::product),
      optional_field("kernel", &S::kernel).at_least(1),
      optional_field("stride", &S::stride).at_least(1),
      optional_field("padding", &S::padding),
      optional_field("dilation", &S::dilation).at_least(1),
      field("sizes", &S::sizes).at_least(0),
      field("x", &S::x).at_least(0),
      field("pixel_bytes", &S::pixel_bytes).at_least(0),
      field("args", &S::args),
  };
};
template <>
struct FieldTable<forms::Strips> {
  using S = forms::Strips;
  static constexpr auto fields = std::tuple{
      field("rows", &S::rows).at_least(1),
      field("scratch_bytes", &S::scratch_bytes).at_least(0),
      field("stages", &S::stages),
  };
};
template <>
struct FieldTable<forms::JoinedPart> {
  using S = forms::JoinedPart;
  static constexpr auto fields = std::tuple{field("kernel", &S::kernel), field("choice", &S::choice)};
};
template <>
struct FieldTable<forms::JoinedCall> {
  using S = forms::JoinedCall;
  static constexpr auto fields = std::tuple{
      positional_field("part", &S::part).at_least(0),
      optional_field("args", &S::args),
      optional_field("sizes", &S::sizes),
  };
};
template <>
struct FieldTable<forms::Joined> {
  using S = forms::Joined;
  static constexpr auto fields = std::tuple{
      field("parts", &S::parts),
      field("calls", &S::calls),
      optional_field("beside", &S::beside),
      optional_field("threads", &S::threads).at_least(1),
  };
};
template <>
struct FieldTable<plan::KernelConfig> {
  using S = plan::KernelConfig;
  static constexpr auto fields = std::tuple{
      optional_field("kernel", &S::kernel),         optional_field("choice", &S::choice),
      optional_field("strips", &S::strips),         optional_field("joined", &S::joined),
      optional_field("symbol", &S::symbol),         optional_field("max_smem_bytes", &S::max_smem_bytes).at_least(0),
      optional_field("plan", &S::plan).at_least(0),
  };
};
template <>
struct FieldTable<forms::Panels::Rows> {
  using S = forms::Panels::Rows;
  static constexpr auto fields = std::tuple{
      field("count", &S::count).at_least(0),
      optional_field("inner", &S::inner).at_least(1),
      optional_field("outer_stride", &S::outer_stride),
      optional_field("inner_stride", &S::inner_stride),
      optional_field("taps", &S::taps),
  };
};
template <>
struct FieldTable<forms::Panels::Matrix> {
  using S = forms::Panels::Matrix;
  static constexpr auto fields = std::tuple{
      field("begin", &S::begin).at_least(0),
      field("cols", &S::cols).at_least(0),
      optional_field("rows", &S::rows),
  };
};
template <>
struct FieldTable<forms::Panels> {
  using S = forms::Panels;
  static constexpr auto fields = std::tuple{
      field("dtype", &S::dtype),
      optional_field("winograd", &S::winograd).at_least(0),
      optional_field("column_groups", &S::column_groups).at_least(0),
      optional_field("parts", &S::parts).at_least(1),
      optional_field("bits", &S::bits).at_least(0),
      optional_field("slabs", &S::slabs),
      optional_field("line", &S::line).at_least(0),
      optional_field("step", &S::step).at_least(1),
      field("col_stride", &S::col_stride),
      field("rows", &S::rows),
      field("matrices", &S::matrices),
  };
};
template <>
struct FieldTable<plan::Weight> {
  using S = plan::Weight;
  static constexpr auto fields = std::tuple{
      positional_field("name", &S::name), field("source", &S::source),          field("offset", &S::offset),
      field("bytes", &S::bytes),          optional_field("panels", &S::panels),
  };
};
template <>
struct FieldTable<plan::SymRange> {
  using S = plan::SymRange;
  static constexpr auto fields = std::tuple{
      positional_field("sym", &S::sym),
      field("min", &S::min),
      field("max", &S::max),
      optional_field("multiple_of", &S::multiple_of).at_least(1),
  };
};
template <>
struct FieldTable<ShapeGuard> {
  using S = ShapeGuard;
  static constexpr auto fields = std::tuple{
      positional_field("kind", &S::kind),
      field("a", &S::a),
      field("b", &S::b),
      optional_field("why", &S::why),
  };
};
template <>
struct FieldTable<plan::PlannedBuffer> {
  using S = plan::PlannedBuffer;
  static constexpr auto fields = std::tuple{
      positional_field("name", &S::name),
      field("of", &S::buffer),
      field("place", &S::place),
      optional_field("index", &S::index),
      optional_field("offset", &S::offset),
      field("bytes", &S::bytes),
      field("live", &S::live),
      optional_field("in_place_of", &S::in_place_of),
  };
};
template <>
struct FieldTable<forms::TensorMap> {
  using S = forms::TensorMap;
  static constexpr auto fields = std::tuple{
      field("arg", &S::arg).at_least(0),
      field("dtype", &S::dtype),
      optional_field("swizzle", &S::swizzle_bytes).at_least(0),
      optional_field("offset", &S::offset_bytes),
      field("dims", &S::dims),
      field("strides", &S::stride_bytes),
      field("box", &S::box),
      optional_field("lower", &S::lower),
      optional_field("upper", &S::upper),
      optional_field("steps", &S::steps),
  };
};
template <>
struct FieldTable<plan::Step> {
  using S = plan::Step;
  static constexpr auto fields = std::tuple{
      positional_field("kind", inherited<S>(&S::kind)),
      optional_field("kernel", &S::kernel),
      field("args", &S::args),
      optional_field("symbol", inherited<S>(&S::symbol)),
      optional_field("library", inherited<S>(&S::library)),
      optional_field("config", &S::config).at_least(-1),
      optional_field("sizes", inherited<S>(&S::sizes)),
      optional_field("work", inherited<S>(&S::work)),
      optional_field("grain", inherited<S>(&S::grain)),
      optional_field("scratch_bytes", inherited<S>(&S::scratch_bytes)),
      optional_field("grid", inherited<S>(&S::grid)),
      optional_field("block", inherited<S>(&S::block)),
      optional_field("smem_bytes", inherited<S>(&S::smem_bytes)),
      optional_field("max_smem_bytes", inherited<S>(&S::max_smem_bytes)).at_least(0),
      optional_field("maps", inherited<S>(&S::maps)),
      optional_field("overlaps", inherited<S>(&S::overlaps)),
      optional_field("label", &S::label),
      optional_field("note", &S::note),
  };
};
/// A step's base counts as one member of it.
template <>
inline constexpr bool kComplete<plan::Step> = std::tuple_size_v<decltype(FieldTable<plan::Step>::fields)> + 1 ==
                                              detail::member_count<plan::Step>() + detail::member_count<forms::StepSpec>();
template <>
struct FieldTable<plan::Plan> {
  using S = plan::Plan;
  static constexpr auto fields = std::tuple{
      positional_field("name", &S::name),
      rows("range", &S::ranges),
      rows("guard", &S::guards),
      rows("buffer", &S::buffers),
      rows("step", &S::steps),
      field("arena_bytes", &S::arena_bytes),
      field("scratch_bytes", &S::scratch_bytes),
      field("arena_bytes_max", &S::arena_bytes_max),
      field("sum_bytes_max", &S::sum_bytes_max),
      field("live_bytes_max", &S::live_bytes_max),
  };
};
template <>
struct FieldTable<plan::PlanSet> {
  using S = plan::PlanSet;
  static constexpr auto fields = std::tuple{
      rows("sym", &S::syms),
      rows("kernel", &S::kernels),
      field("symbols", &S::symbols),
      rows("weight", &S::weights),
      field("weights_bytes", &S::weights_bytes),
      optional_field("state_initial", &S::state_initial),
      rows("config", &S::configs),
      rows("plan", &S::plans),
  };
};

}  // namespace aotc
