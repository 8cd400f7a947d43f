#pragma once
#include <map>
#include <string>

#include "import/json.h"
#include "import/program.h"

namespace aotc::import {

/// The program of an archive as its JSON has it, unchanged. Throws as read_archive.
Json model_json(const std::string& path, const std::string& program = {});

/// Writes an archive that torch.export.load and read_archive take: this program, and the data of its weights, buffers and constants by
/// target name (Program::data). It has no example inputs. Throws Diagnostic (io).
void save_archive(const std::string& path, const Json& model, const std::map<std::string, ConstData>& data);

}  // namespace aotc::import
