#pragma once
// What verify found as a JUnit report: a test an output and set of sizes, as CI systems show it.
#include <functional>
#include <string>
#include <vector>

#include "judge.h"

namespace aotc::cli {

/// --junit
void add_junit(CLI::App& app, std::string& path);

/// Prints what `verify` finds of the artifact; the exit code. With a path, it is written there, too: a test for each row, its numbers in
/// the text of a failure; where `verify` throws, one test with an error, and the exception goes on.
int with_junit(const std::string& path, const std::string& artifact, const Common& common,
               const std::function<Verdict(const std::string& artifact, const Common& common)>& verify);

}  // namespace aotc::cli
