// The meaning of recurrent layers: step by step, in doubles.
#include <cmath>

#include "graph/infer.h"
#include "graph/interp_detail.h"

namespace aotc::interp {

void recurrence(Eval& e) {
  const std::string& cell = e.n.get<std::string>(Attr::cell);
  const bool reverse = e.n.get<bool>(Attr::reverse), lstm = cell == "lstm", gru = cell == "gru";
  const bool batch_first = e.n.get<int64_t>(Attr::dim) == 1;
  std::vector<std::vector<double>> in;
  for (const HostTensor* t : e.in) in.push_back(as_f64(*t));
  const int64_t steps = e.in_dims(0)[batch_first], batch = e.in_dims(0)[!batch_first], n = e.in_dims(0)[2], width = e.in_dims(1)[0];
  const int64_t hidden = n / recurrence_gates(cell);
  const bool projected = in.size() == 5;
  std::vector<double> h = in[2], c = lstm ? in[3] : std::vector<double>(), out(e.out[0].elems()), g(n), s(hidden);
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  for (int64_t k = 0; k < steps; ++k) {
    const int64_t t = reverse ? steps - 1 - k : k;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t row = batch_first ? b * steps + t : t * batch + b;
      const double* x = &in[0][row * n];
      for (int64_t j = 0; j < n; ++j) {
        g[j] = gru ? in[3][j] : x[j];
        for (int64_t i = 0; i < width; ++i) g[j] += h[b * width + i] * in[1][i * n + j];
      }
      for (int64_t j = 0; j < hidden; ++j) {
        if (lstm) {
          double& cj = c[b * hidden + j];
          cj = sigmoid(g[hidden + j]) * cj + sigmoid(g[j]) * std::tanh(g[2 * hidden + j]);
          s[j] = sigmoid(g[3 * hidden + j]) * std::tanh(cj);
        } else if (gru) {
          const double update = sigmoid(x[hidden + j] + g[hidden + j]);
          const double fresh = std::tanh(x[2 * hidden + j] + sigmoid(x[j] + g[j]) * g[2 * hidden + j]);
          s[j] = (1 - update) * fresh + update * h[b * width + j];
        } else {
          s[j] = cell == "tanh" ? std::tanh(g[j]) : g[j] < 0 ? 0 : g[j];
        }
      }
      for (int64_t i = 0; i < width; ++i) {
        double y = projected ? 0 : s[i];
        for (int64_t j = 0; projected && j < hidden; ++j) y += s[j] * in[4][j * width + i];
        h[b * width + i] = out[row * width + i] = y;
      }
    }
  }
  set_f64(e.out[0], out);
  set_f64(e.out[1], h);
  if (lstm) set_f64(e.out[2], c);
}

}  // namespace aotc::interp
