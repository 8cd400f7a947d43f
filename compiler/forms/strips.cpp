#include "forms/strips.h"

#include <fmt/ranges.h>

#include "aotc/detail/strips_abi.h"
#include "base/initialiser.h"
#include "kernels/cpu/catalog.h"

namespace aotc::forms {

std::vector<int64_t> rows_of_strip(const std::vector<StripStage>& stages, int64_t rows) {
  std::vector<int64_t> out(stages.size(), rows);
  for (size_t k = stages.size(); k-- > 1;) out[k - 1] = aotc_strip_rows(stages[k].kernel, stages[k].stride, stages[k].dilation, out[k]);
  return out;
}

std::string strips_config(const Strips& s, Isa isa, const std::string& name, const std::function<std::string(int)>& config_of) {
  std::vector<std::string> args, stages;
  for (const StripStage& x : s.stages) {
    Initialiser row;
    row.add("fn", kernels::library_symbol(x.symbol, isa)).add("config", "&" + config_of(x.config)).add("product", int{x.product});
    row.add("kernel", x.kernel).add("stride", x.stride).add("padding", x.padding).add("dilation", x.dilation);
    row.add("n_sizes", x.sizes).add("n_args", x.args.size()).add("x", x.x).add("pixel_bytes", x.pixel_bytes);
    stages.push_back(row.add("args", fmt::format("{}_args + {}", name, args.size())).str());
    for (const StripArg& a : x.args)
      args.push_back(Initialiser().add("ptr", a.ptr).add("pixel_bytes", a.pixel_bytes).add("image_bytes", a.image_bytes).str());
  }
  Initialiser config;
  config.add("n_stages", stages.size()).add("rows", s.rows).add("scratch_bytes", s.scratch_bytes).add("stages", name + "_stages");
  return fmt::format(
      "static const aotc_strip_arg {0}_args[] = {{{1}}};\nstatic const aotc_strip_stage {0}_stages[] = {{{2}}};\n"
      "static const aotc_strips_config {0} = {3};\n",
      name, fmt::join(args, ", "), fmt::join(stages, ", "), config.str());
}

}  // namespace aotc::forms
