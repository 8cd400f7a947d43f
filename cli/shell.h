#pragma once
// A table of verbs as a program.
#include <span>

#include "cli.h"

namespace aotc::cli {

/// Parses the command line, runs the verb and turns failures into exit codes and messages on stderr. name: of the program.
int run_verbs(const char* about, const char* name, std::span<const Verb> verbs, int argc, char** argv);

}  // namespace aotc::cli
