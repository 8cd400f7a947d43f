#pragma once
// A model's config beside its artifact: what is not said is filled in, what is said is compared.
#include <nlohmann/json.hpp>

#include "artifact.h"
#include "slots.h"

namespace aotc::triton {

/// How the instances of a model serve requests.
struct Service {
  Program program;        ///< takes a request
  Program asked;          ///< what the request brings and is answered; with slots not all that the program takes
  Program next;           ///< with feedback: every later run; else as program
  int64_t max_batch = 0;  ///< rows of a run; 0: requests are not batched and have the program's whole shapes
  States states = States::none;
  Slots slots;
  bool decoupled = false;
  int32_t instances = 1;  ///< on CPUs
};

/// The first dim of all inputs and outputs is one symbol, which may be 1, and runs keep its rows apart: tried, with two rows together and
/// each alone. Otherwise *why_not says what stands against it. `trust`: not tried.
bool batchable(const Artifact& artifact, const Program& program, bool trust, int64_t* max_batch, std::string* why_not);

/// Fills in inputs, outputs, max_batch_size, the scheduler and whether responses are decoupled, each where the config has nothing.
Status complete(const Artifact& artifact, const Settings& settings, nlohmann::json* config);

/// What the complete config says, after it has been compared with the artifact. INVALID_ARG names the tensor, what was expected and what is
/// there.
Status read_service(const Artifact& artifact, const Settings& settings, const nlohmann::json& config, Service* out);

}  // namespace aotc::triton
