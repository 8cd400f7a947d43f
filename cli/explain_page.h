#pragma once
// aotc explain --html: a page that shows what a build decided.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace aotc::cli {

/// A method for a kind of machine.
struct PagePart {
  std::string method, target;
  nlohmann::json explain;        ///< as `aotc explain --json` has it
  nlohmann::json about_it = {};  ///< of the metadata: inputs, outputs, states, symbols, weights_bytes; null of an archive
};

constexpr size_t kMostPageBytes = 3'000'000;

/// The page: one text of HTML that asks nothing of any network (its Content-Security-Policy forbids it), below kMostPageBytes where steps
/// are not many thousands. Of large plans it leaves out candidates, then plans of further variants, and says so. title: the file's name.
/// bench: what `bench --profile --json` wrote, or null; its times stand at the part and variant whose steps it has.
std::string explain_page(const std::string& title, const nlohmann::json& about, const std::vector<PagePart>& parts,
                         const nlohmann::json& bench);

}  // namespace aotc::cli
