#include "artifact.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "artifact_metadata.h"
#include "base/file.h"

namespace aotc::cli {
namespace {

aotc_tensor view(const HostTensor& t) {
  return aotc_host_tensor(const_cast<std::byte*>(t.bytes.data()), t.dims.data(), static_cast<int32_t>(t.dims.size()),
                          static_cast<uint32_t>(t.dtype), t.bytes.size());
}

}  // namespace

bool is_shared_object(const std::string& path) {
  require_file(path);
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return std::memcmp(magic, "\177ELF", sizeof magic) == 0;
}

std::string stored_weights_text(const nlohmann::json& stored) {
  std::string text = fmt::format("{} weights as {}: {:.1f} MB, {:.1f} MB before; rounding changed them by {:.2g}",
                                 stored.at("weights").size(), stored.at("as").get<std::string>(), stored.at("bytes").get<double>() / 1e6,
                                 stored.at("bytes_before").get<double>() / 1e6, stored.at("error").get<double>());
  for (const nlohmann::json& l : stored.at("left"))
    text += fmt::format("\n  as it is: {} ({})", l.at("name").get<std::string>(), l.at("why").get<std::string>());
  return text;
}

std::string stored_caches_text(const nlohmann::json& stored) {
  return fmt::format("{} states of keys and values as {}: {:.3f} MB, {:.3f} MB before", stored.at("states").size(),
                     stored.at("as").get<std::string>(), stored.at("bytes").get<double>() / 1e6,
                     stored.at("bytes_before").get<double>() / 1e6);
}

void add_check_weights(CLI::App& app, bool& check_weights) {
  add_flag(app, "--check-weights", check_weights, "check the hashes of the whole artifact and its weights");
}

void add_weights_file(CLI::App& app, std::string& weights) {
  add_option(app, "--weights", weights, "a weights file for the artifact (aotc weights), in place of its own weights");
}

void add_weights_budget(CLI::App& app, uint64_t& bytes) {
  add_option(app, "--weights-budget", bytes,
             "GPU: the most memory of the device for weights (500M, 20G); runs copy the others to it ahead of the steps that read them")
      .transform(as_bytes, "SIZE");
}

void add_method(CLI::App& app, std::string& method) {
  add_option(app, "--method", method, "which of the artifact's methods; default: the only one");
}

namespace {

/// A failed check of a file as a Diagnostic; its text begins with the path.
[[noreturn]] void refuse_file(aotc_status status, const std::string& path, std::string text) {
  if (text.rfind(path, 0) == 0) text.erase(0, text.find_first_not_of(": ", path.size()));
  throw Diagnostic(status == AOTC_STATUS_NOT_FOUND ? ExitCode::io : ExitCode::bad_input, Loc{path, "", "", ""}, text);
}

}  // namespace

/// The weights file, where the artifact has one.
void ArtifactFile::check_weights_file() const {
  if (!seal_.weights_bytes || seal_.weights_offset) return;
  char error[512];
  const std::string path = (std::filesystem::path(path_).parent_path() / metadata().at("weights_file").get<std::string>()).string();
  const aotc_status status = aotc_weights_check(path.c_str(), AOTC_CHECK_ALL, seal_.weights_bytes, seal_.weights_hash, error, sizeof error);
  if (status != AOTC_STATUS_OK) refuse_file(status, path, error);
}

ArtifactFile::ArtifactFile(const std::string& path, bool check_weights) : path_(path) {
  if (!is_shared_object(path))
    throw Diagnostic(Loc{path, "", "", ""}, "is not an artifact of aotc (no shared object)")
        .note("of an archive (--emit static), look at the shared object of the same model: it has the same code");
  const auto start = std::chrono::steady_clock::now();
  char error[512];
  aotc_elf elf;
  const aotc_status status = aotc_elf_check(path.c_str(), check_weights ? AOTC_CHECK_ALL : AOTC_CHECK_CODE, &elf, error, sizeof error);
  if (status != AOTC_STATUS_OK) refuse_file(status, path, error);
  seal_ = elf.seal;
  const std::optional<std::string> text = metadata_text(elf);
  aotc_elf_close(&elf);
  if (text) set_metadata(*text);
  if (!check_weights) return;
  check_weights_file();
  check_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

const nlohmann::json& ArtifactFile::metadata() const {
  if (metadata_) return *metadata_;
  throw Diagnostic(Loc{path_, "", "", ""}, "does not say where its description is: an earlier aotc made it")
      .note("build it again, or ask the artifact itself (metadata_json of aotc_api)");
}

std::vector<std::string> ArtifactFile::methods() const {
  if (!metadata_ || !metadata_->contains("methods")) return {"forward"};
  std::vector<std::string> names;
  for (const nlohmann::json& m : metadata_->at("methods")) names.push_back(m.at("name").get<std::string>());
  return names;
}

void ArtifactFile::choose_method(const std::string& name) {
  const std::vector<std::string> names = methods();
  std::string known;
  for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
  if (name.empty() && names.size() > 1)
    throw Diagnostic(ExitCode::usage, Loc{path_, "", "", ""},
                     fmt::format("has {} methods; say which with --method: {}", names.size(), known));
  const auto it = name.empty() ? names.begin() : std::find(names.begin(), names.end(), name);
  if (it == names.end())
    throw Diagnostic(ExitCode::usage, Loc{path_, "", "", ""}, fmt::format("has no method '{}'", name)).note("its methods: " + known);
  method_ = *it;
  method_index_ = static_cast<int32_t>(it - names.begin());
  if (method_index_ == 0) return;  // the artifact's description is that of its first method
  nlohmann::json own = metadata_->at("methods").at(static_cast<size_t>(method_index_));
  for (const char* key : {"methods", "weights_file"})
    if (metadata_->contains(key)) own[key] = metadata_->at(key);
  metadata_ = std::make_shared<const nlohmann::json>(std::move(own));
}

void ArtifactFile::set_metadata(const std::string& text) {
  metadata_ = std::make_shared<const nlohmann::json>(nlohmann::json::parse(text));
}

LoadedArtifact::LoadedArtifact(const std::string& path, bool check_weights) : ArtifactFile(path, check_weights) {
  const aotc_status status = aotc_library_load(std::filesystem::absolute(path).c_str(), &library_);
  if (status != AOTC_STATUS_OK) refuse_file(status, std::filesystem::absolute(path), library_.error);
  set_metadata(api().metadata_json());  // of what is loaded, should the file be another by now
}

void LoadedArtifact::check(aotc_status status, const char* what) const {
  if (status == AOTC_STATUS_OK) return;
  throw Diagnostic(Loc{path(), "", "", ""}, fmt::format("{}: {}: {}", what, api().status_name(status), api().last_error()));
}

Artifact::Artifact(const std::string& path, const std::string& method, bool check_weights, int32_t device, uint32_t flags,
                   const std::string& weights, uint64_t weights_budget)
    : LoadedArtifact(path, check_weights) {
  choose_method(method);
  aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
  options.device = device;
  options.flags = flags | (check_weights && !weights.empty() ? AOTC_MODEL_VERIFY_WEIGHTS : 0);
  options.weights_budget = weights_budget;
  if (!weights.empty()) require_file(weights), options.weights_path = weights.c_str();
  check(api().model_create(&options, &model_), "cannot be used here");
  inputs_ = describe(AOTC_INPUT);
  outputs_ = describe(AOTC_OUTPUT);
}

Artifact::~Artifact() { api().model_destroy(model_); }

aotc_model_info Artifact::info() const {
  aotc_model_info i = AOTC_MODEL_INFO_INIT;
  check(api().model_get_info(model_, &i), "model_get_info");
  return i;
}

std::vector<Io> Artifact::describe(int32_t kind) const {
  std::vector<Io> all;
  int32_t n = 0;
  if (method_index() == 0) {
    check(api().io_count(model_, kind, &n), "io_count");
  } else {
    aotc_method_info m = AOTC_METHOD_INFO_INIT;
    check(api().method_get(model_, method_index(), nullptr, &m), "method_get");
    n = kind == AOTC_INPUT ? m.n_inputs : m.n_outputs;
  }
  for (int32_t i = 0; i < n; ++i) {
    aotc_io_info info = {};
    info.struct_size = sizeof info;
    check(method_index() == 0 ? api().io_get(model_, kind, i, &info) : api().method_io_get(model_, method_index(), kind, i, &info),
          "io_get");
    Io io;
    io.name = info.name;
    io.dtype = static_cast<DType>(info.dtype);
    io.alias_input = info.alias_input;
    for (int32_t d = 0; d < info.rank; ++d)
      io.dims.push_back({info.dims[d].value, info.dims[d].min, info.dims[d].max, info.dims[d].symbol ? info.dims[d].symbol : ""});
    for (int32_t d = 0; info.found && d < info.rank; ++d) io.found.emplace_back(info.found[d] ? info.found[d] : "");
    all.push_back(std::move(io));
  }
  return all;
}

Session::Session(const Artifact& artifact, int threads, uint32_t flags, search::Device* device) : artifact_(artifact), device_(device) {
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  options.num_threads = threads;
  options.flags = flags;
  if (device) options.stream = device->stream();
  artifact.check(artifact.api().context_create(artifact.model(), &options, &context_), "context_create");
}
Session::~Session() { artifact_.api().context_destroy(context_); }

aotc_status Session::output_bounds(const std::vector<aotc_tensor>& in, const std::vector<int64_t*>& shapes) const {
  const aotc_api& api = artifact_.api();
  const auto n_in = static_cast<int32_t>(in.size()), n_out = static_cast<int32_t>(shapes.size());
  if (artifact_.method_index() == 0) return api.output_bounds(context_, in.data(), n_in, shapes.data(), n_out);
  return api.method_output_bounds(context_, artifact_.method_index(), in.data(), n_in, shapes.data(), n_out);
}

aotc_status Session::run_method() {
  const aotc_api& api = artifact_.api();
  const auto n_in = static_cast<int32_t>(in_.size()), n_out = static_cast<int32_t>(out_.size());
  if (artifact_.method_index() == 0) return api.run(context_, in_.data(), n_in, out_.data(), n_out);
  return api.run_method(context_, artifact_.method_index(), in_.data(), n_in, out_.data(), n_out);
}

aotc_status Session::size_outputs() {
  const std::vector<Io>& declared = artifact_.outputs();
  outputs_.assign(declared.size(), {});
  std::vector<int64_t*> shapes;
  for (size_t i = 0; i < declared.size(); ++i) {
    outputs_[i].dtype = declared[i].dtype;
    outputs_[i].dims.resize(declared[i].dims.size());
    shapes.push_back(outputs_[i].dims.data());
  }
  return output_bounds(in_, shapes);
}

void Session::take_outputs() {
  out_.clear();
  for (HostTensor& t : outputs_) {
    t.bytes.resize(static_cast<size_t>(t.elems() * dtype_bytes(t.dtype)));
    out_.push_back(view(t));
  }
}

void Session::bind(const std::vector<HostTensor>& inputs) {
  in_.clear();
  for (const HostTensor& t : inputs) in_.push_back(view(t));
  artifact_.check(size_outputs(), "output_bounds");
  take_outputs();
  if (!device_) return;
  for (std::vector<aotc_tensor>* side : {&in_, &out_})
    for (aotc_tensor& t : *side) {
      void* const there = device_->allocate(t.byte_size, search::Memory::buffer);
      if (side == &in_) device_->write(there, t.data, t.byte_size);
      t.data = there;
      t.device = device_->ordinal();
    }
}

const std::vector<HostTensor>& Session::outputs() {
  for (size_t i = 0; device_ && i < outputs_.size(); ++i) device_->read(outputs_[i].bytes.data(), out_[i].data, out_[i].byte_size);
  const std::vector<Io>& declared = artifact_.outputs();
  if (std::all_of(declared.begin(), declared.end(), [](const Io& io) { return io.found.empty(); })) return outputs_;
  found_ = outputs_;
  for (size_t i = 0; i < found_.size(); ++i) {
    if (declared[i].found.empty()) continue;
    std::vector<int64_t> dims(outputs_[i].dims.size());
    artifact_.check(artifact_.api().output_sizes(context_, static_cast<int32_t>(i), dims.data()), "output_sizes");
    found_[i] = beginning(outputs_[i], dims);
  }
  return found_;
}

void Session::wait() { artifact_.check(artifact_.api().synchronize(context_), "run"); }

bool Session::accepts(const std::vector<HostTensor>& inputs) const {
  std::vector<aotc_tensor> in;
  for (const HostTensor& t : inputs) in.push_back(view(t));
  std::vector<std::vector<int64_t>> dims;
  for (const Io& io : artifact_.outputs()) dims.emplace_back(io.dims.size());
  std::vector<int64_t*> shapes;
  for (std::vector<int64_t>& d : dims) shapes.push_back(d.data());
  const aotc_status status = output_bounds(in, shapes);
  if (status != AOTC_STATUS_SHAPE_MISMATCH) artifact_.check(status, "output_bounds");
  return status == AOTC_STATUS_OK;
}

void Session::run() { artifact_.check(run_method(), "run"); }

std::optional<Refusal> Session::run_unless_refused() {
  aotc_status status = run_method();
  if (status == AOTC_STATUS_OK) status = artifact_.api().synchronize(context_);
  if (status == AOTC_STATUS_ASSERTION_FAILED || status == AOTC_STATUS_INDEX_OUT_OF_RANGE)
    return Refusal{status, artifact_.api().last_error()};
  artifact_.check(status, "run");
  return std::nullopt;
}

Refusal Session::attempt(const std::vector<HostTensor>& inputs) {
  in_.clear();
  for (const HostTensor& t : inputs) in_.push_back(view(t));
  aotc_status status = size_outputs();
  if (status == AOTC_STATUS_OK) {
    take_outputs();
    status = run_method();
  }
  return {status, status == AOTC_STATUS_OK ? "" : artifact_.api().last_error()};
}

std::vector<HostTensor> Session::states() const {
  std::vector<HostTensor> all;
  std::map<std::string, aotc_io_info> known;  // the artifact's: other methods may have more
  int32_t n = 0;
  artifact_.check(artifact_.api().io_count(artifact_.model(), AOTC_STATE, &n), "io_count");
  for (int32_t i = 0; i < n; ++i) {
    aotc_io_info info = {};
    info.struct_size = sizeof info;
    artifact_.check(artifact_.api().io_get(artifact_.model(), AOTC_STATE, i, &info), "io_get");
    known.emplace(info.name, info);
  }
  for (const nlohmann::json& state : artifact_.metadata().at("states")) {
    const aotc_io_info& info = known.at(state.at("name").get<std::string>());
    HostTensor t;
    t.dtype = static_cast<DType>(info.dtype);
    for (int32_t d = 0; d < info.rank; ++d) t.dims.push_back(info.dims[d].value);
    t.bytes.resize(static_cast<size_t>(t.elems() * dtype_bytes(t.dtype)));
    const aotc_tensor to = view(t);
    artifact_.check(artifact_.api().state_read(context_, info.name, &to), "state_read");
    all.push_back(std::move(t));
  }
  return all;
}

void Session::write_states(const std::map<std::string, HostTensor>& states) {
  for (const auto& [name, content] : states) {
    const aotc_tensor from = view(content);
    artifact_.check(artifact_.api().state_write(context_, name.c_str(), &from), "state_write");
  }
}

void Session::reset_states() { artifact_.check(artifact_.api().state_reset(context_, nullptr), "state_reset"); }

aotc_context_info Session::info() const {
  aotc_context_info i = {};
  i.struct_size = sizeof i;
  artifact_.check(artifact_.api().context_get_info(context_, &i), "context_get_info");
  return i;
}

std::vector<aotc_profile_step> Session::profile() const {
  int32_t n = 0;
  artifact_.check(artifact_.api().context_profile(context_, nullptr, &n), "context_profile");
  std::vector<aotc_profile_step> steps(static_cast<size_t>(n));
  artifact_.check(artifact_.api().context_profile(context_, steps.data(), &n), "context_profile");
  return steps;
}

}  // namespace aotc::cli
