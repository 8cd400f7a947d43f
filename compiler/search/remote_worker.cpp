#include "search/remote_worker.h"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace aotc::search {

Result<WorkerCommand> worker_on(const std::string& host) {
  using R = Result<WorkerCommand>;
  const std::string path = (std::filesystem::path(this_program()).parent_path() / "aotc-device").string();
  std::ifstream in(path, std::ios::binary);
  if (!in) return R::fail(path + " is missing: it is what measures on another machine");
  WorkerCommand c;
  c.preamble.assign(std::istreambuf_iterator<char>(in), {});
  c.elsewhere = true;
  // A host that begins with a dash would be an option of ssh.
  c.words = {"ssh",
             "-o",
             "BatchMode=yes",
             "--",
             host,
             fmt::format("f=$(mktemp) && head -c {} >\"$f\" && chmod 700 \"$f\" && exec \"$f\" measure --temporary", c.preamble.size())};
  return c;
}

}  // namespace aotc::search
