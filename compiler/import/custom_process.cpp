#include "import/custom_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/dtype.h"
#include "base/file.h"
#include "base/python_sites.h"
#include "import/torch_library.h"

namespace aotc::import {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kImportSeconds = 300, kCallSeconds = 600;

/// A line of JSON and then the tensors' bytes come in, a line of JSON goes out, results' bytes into the file that the request names. What
/// the module prints goes to stderr.
constexpr const char* kScript = R"py(
import ctypes, importlib, importlib.util, json, os, sys, traceback

out = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
requests = sys.stdin.buffer


def load(name):
    import torch
    before = set(torch._C._dispatch_get_all_op_names())
    if name.endswith(".py"):
        sys.path.insert(0, os.path.dirname(os.path.abspath(name)))
        spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(name))[0], name)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, os.getcwd())
        importlib.import_module(name)
    schemas = []
    for op in sorted(set(torch._C._dispatch_get_all_op_names()) - before):
        space, _, rest = op.partition("::")
        base, _, overload = rest.partition(".")
        schemas.append(str(getattr(getattr(getattr(torch.ops, space), base), overload or "default")._schema))
    return {"schemas": schemas}


def tensor(t):
    import torch
    n = t["bytes"]
    data = requests.read(n)
    if len(data) != n:
        sys.exit(0)
    x = torch.empty(t["sizes"], dtype=getattr(torch, t["dtype"]))
    if n:
        ctypes.memmove(x.data_ptr(), data, n)
    return x


def call(request):
    import torch
    tensors = [tensor(t) for t in request["tensors"]]

    def value(a):
        if "tensor" in a:
            return tensors[a["tensor"]]
        return getattr(torch, a["dtype"]) if "dtype" in a else a["value"]

    space, _, rest = request["op"].partition("::")
    base, _, overload = rest.partition(".")
    with torch.no_grad():
        results = getattr(getattr(getattr(torch.ops, space), base), overload)(*[value(a) for a in request["args"]])
    if isinstance(results, torch.Tensor):
        results = (results,)
    answer = []
    with open(request["file"], "wb") as file:
        for r in results:
            r = r.detach().cpu().contiguous()
            file.write(ctypes.string_at(r.data_ptr(), r.numel() * r.element_size()) if r.numel() else b"")
            answer.append({"dtype": str(r.dtype).removeprefix("torch."), "sizes": list(r.shape)})
    return {"results": answer}


while True:
    line = requests.readline()
    if not line:
        break
    request = json.loads(line)
    try:
        answer = load(request["module"]) if "module" in request else call(request)
    except BaseException as e:
        traceback.print_exc()
        answer = {"error": "".join(traceback.format_exception_only(type(e), e)).strip()}
    out.write(json.dumps(answer) + "\n")
    out.flush()
)py";

std::string python() {
  const Variables variables = process_variables();
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string prefix = variable(variables, name);
    if (const std::string file = prefix + "/bin/python"; !prefix.empty() && access(file.c_str(), X_OK) == 0) return file;
  }
  std::error_code ec;
  for (const std::string& site : sites_of_path(variables).folders)
    if (fs::is_directory(fs::path(site) / "torch", ec)) return "python3";
  const std::string beside = python_of_torch();
  return beside.empty() ? "python3" : beside;
}

std::string temporary_file() {
  std::error_code ec;
  std::string name = (fs::temp_directory_path(ec) / "aotc-results-XXXXXX").string();
  const int fd = mkostemp(name.data(), O_CLOEXEC);
  if (ec || fd < 0) throw Diagnostic(ExitCode::io, Loc{name, "", "", ""}, "cannot be made: results of a Python process come in it");
  close(fd);
  return name;
}

}  // namespace

CustomProcess::CustomProcess(const std::string& module)
    : module_(module), worker_({{python(), "-c", kScript}, "", false}), results_(temporary_file()) {}
CustomProcess::~CustomProcess() {
  std::error_code ec;
  fs::remove(results_, ec);
}

Result<json> CustomProcess::ask(const json& request, double limit_s, const std::string& bytes) {
  Result<json> answer = worker_.ask(request, limit_s, bytes);
  if (worker_.loss() != WorkerProcess::Loss::none) loaded_ = false;
  return answer;
}

Result<std::vector<std::string>> CustomProcess::schemas() {
  const Result<json> answer = ask({{"module", module_}}, kImportSeconds, "");
  if (!answer) return Result<std::vector<std::string>>::fail(fmt::format("Python ({}): {}", python(), answer.why()));
  loaded_ = true;
  return answer->at("schemas").get<std::vector<std::string>>();
}

Result<std::vector<HostTensor>> CustomProcess::call(const std::string& op, const json& args, const std::vector<HostTensor>& tensors) {
  using R = Result<std::vector<HostTensor>>;
  if (!loaded_)
    if (const auto again = schemas(); !again) return R::fail(again.why());
  json request = {{"op", op}, {"args", args}, {"file", results_}, {"tensors", json::array()}};
  std::string bytes;
  for (const HostTensor& t : tensors) {
    request["tensors"].push_back({{"dtype", dtype_name(t.dtype)}, {"sizes", t.dims}, {"bytes", t.bytes.size()}});
    bytes.append(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
  }
  const Result<json> answer = ask(request, kCallSeconds, bytes);
  if (!answer) return R::fail(answer.why());
  const std::string got = read_file(results_);
  std::vector<HostTensor> results;
  size_t at = 0;
  for (const json& r : answer->at("results")) {
    const std::string name = r.at("dtype").get<std::string>();
    const auto dtype = parse_dtype(name);
    if (!dtype) return R::fail("a result of element type " + name);
    HostTensor t{*dtype, r.at("sizes").get<std::vector<int64_t>>(), {}};
    const size_t n = static_cast<size_t>(t.elems() * dtype_bytes(*dtype));
    if (n > got.size() - at) return R::fail("the results are cut off");
    t.bytes.resize(n);
    std::memcpy(t.bytes.data(), got.data() + at, n);
    at += n;
    results.push_back(std::move(t));
  }
  return results;
}

}  // namespace aotc::import
