#pragma once
// Programs whose states are slots: a run feeds rows, each a piece of one slot's sequence (samples/llm/slots.py). A request brings the
// tokens; the rest of what such a program takes follows from where its sequence stands.
#include "artifact.h"
#include "settings.h"

namespace aotc::triton {

/// Which of a program's inputs has what; all int64.
struct Slots {
  size_t tokens = 0;            ///< [rows, tokens]; a row's tokens come first, what stands behind them means nothing
  size_t slot = 0;              ///< [rows], no two alike
  size_t position = 0;          ///< [rows]: where in its sequence a row's first token stands
  size_t length = 0;            ///< [rows]: how many tokens a row has
  size_t span = 0;              ///< [context]: 0, 1, ..., behind every row's last token
  size_t last = 0;              ///< [answers]: the tokens whose outputs are asked for, row * tokens + place
  std::vector<size_t> per_row;  ///< others, [rows, ...], which requests bring
  int64_t rows = 0, length_max = 0, context_max = 0;
  int64_t vocabulary = 0;  ///< tokens are below it; 0: not known
};

/// Whether the program is one; otherwise *why_not says what stands against it.
bool find_slots(const Program& program, const Settings& settings, Slots* out, std::string* why_not);

/// What a request brings to such a program: inputs `tokens`, of up to the whole context, and those per row.
Program request_of(const Program& program, const Slots& slots);

}  // namespace aotc::triton
