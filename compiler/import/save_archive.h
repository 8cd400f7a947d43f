#pragma once
#include <map>
#include <string>
#include <vector>

#include "graph/interp.h"
#include "import/json.h"
#include "import/program.h"

namespace aotc::import {

/// The program of an archive as its JSON has it, unchanged. Throws as read_archive.
Json model_json(const std::string& path, const std::string& program = {});

/// Writes an archive that torch.export.load and read_archive take: this program, and the data of its weights, buffers and constants by
/// target name (Program::data). examples: of all user inputs, or none. Throws Diagnostic (io; unsupported: write_torch_save).
void save_archive(const std::string& path, const Json& model, const std::map<std::string, ConstData>& data,
                  const std::vector<HostTensor>& examples = {});

}  // namespace aotc::import
