#pragma once
// Parts of a program as programs: edits of an archive's JSON that leave a program which torch.export.load takes.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "import/json.h"

namespace aotc::import {

/// The operators of a program, by their places in its JSON: its nodes but those that only make numbers of sizes, which are there
/// whenever another node needs them.
std::vector<size_t> operators_of(const Json& model);

/// The program with these nodes alone. What they take and none of them makes is an input: the original's, or a further one of the same type
/// and sizes. It returns what none of its nodes takes and what of the original's results it still makes; a write to a buffer or an input
/// stays one where both are still there. Conditions on sizes (guards_code) are left out, names of call arguments too.
Json subprogram(const Json& model, const std::set<size_t>& nodes);

struct UserInput {
  std::string name;                           ///< of a tensor; empty: it is a number
  std::optional<std::vector<int64_t>> sizes;  ///< where none is symbolic
};
std::vector<UserInput> user_inputs(const Json& model);

/// The names of the tensors that it returns (not those that it writes), and the program without one of them.
std::vector<std::string> returned(const Json& model);
Json without_result(Json model, const std::string& tensor);

/// Every symbolic size is a number, that of `size` (by its expression) or what it was in the example; nothing depends on symbols any more.
Json with_known_sizes(Json model, const std::function<std::optional<int64_t>(const std::string&)>& size = {});

/// The sizes above 1 of inputs, weights among them, largest first.
std::vector<int64_t> input_sizes(const Json& model);
/// Sizes of inputs, and integers among the operators' arguments, that are `from`, are `to`. Sizes of results are as before: of another
/// program than this one.
Json with_input_size(Json model, int64_t from, int64_t to);

/// Without what tells of the user's code: lines, names of modules, names of parameters. renamed: old target names by new ones.
Json anonymous(Json model, std::map<std::string, std::string>& renamed);

}  // namespace aotc::import
