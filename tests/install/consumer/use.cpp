// Through aotc.hpp. Prints the result's elements.
#include <aotc/aotc.hpp>
#include <cstdio>
#include <vector>

#include <net.h>

int main() {
  const net_sizes sizes{3};
  std::vector<float> x(static_cast<size_t>(net_x_elems(&sizes))), y(24 * 3);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3.0f;
  aotc::host::Model model;
  aotc::host::Context context;
  aotc::host::Model::load(NET_PATH, &model).check();
  model.context(&context).check();
  const std::vector<int64_t> in_shape = {3, 16}, out_shape = {3, 24};
  context.run({aotc::host::tensor(x.data(), in_shape)}, {aotc::host::tensor(y.data(), out_shape)}).check();
  for (float v : y) std::printf("%.5f\n", static_cast<double>(v));
}
