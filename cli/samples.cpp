#include "samples.h"

#include "compare.h"

namespace aotc::cli {

OutputError worst_error(Session& session, const std::vector<Sample>& samples, const HostTensor& last) {
  OutputError worst;
  for (const Sample& s : samples) {
    std::vector<HostTensor> inputs = s.inputs;  // borrowed until the next bind
    inputs.push_back(last);
    session.reset_states();
    session.bind(inputs);
    session.run();
    for (size_t i = 0; i < session.outputs().size(); ++i) {
      const OutputError e{compare(session.outputs()[i], s.truth.at(i)).l2, s.bounds.at(i)};
      if (worst.bound == 0 || e.share() > worst.share()) worst = e;
    }
  }
  return worst;
}

}  // namespace aotc::cli
