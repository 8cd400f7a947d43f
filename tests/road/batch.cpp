#include "batch.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "artifact/tables.h"
#include "emit/cpu/module.h"
#include "emit/toolchain.h"
#include "forms/rules.h"
#include "loop/lower.h"
#include "model.h"
#include "passes/passes.h"

extern "C" const aotc_module_desc aotc_module = {};  // the runtime's own model; here models are given to model_create

namespace aotc::test {

namespace fs = std::filesystem;

RoadModel road_model(std::string name, const Graph& g, const Target& target, const plan::PlanOptions& options) {
  RoadModel m{std::move(name), g, g, {}, {}};
  passes::PassContext context;
  context.target = target;
  passes::run_passes(m.graph, context);
  m.module = loop::lower(m.graph, forms::rules_of(machine_of(target)));
  for (loop::Kernel& k : m.module.kernels) std::visit([&](auto& x) { x.name = m.name + "_" + x.name; }, k);
  m.plans = plan::build_plans(m.graph, m.module, options);
  return m;
}

Batch::Batch(const std::vector<RoadModel>& models, const Target& target, bool quick) {
  dir_ = (fs::temp_directory_path() / fmt::format("aotc_road_{}_{}", getpid(), static_cast<const void*>(this))).string();
  fs::create_directories(dir_);
  loop::Module all;  // its kernels are all that is looked at
  std::string tables = artifact::table_includes(), list;
  for (const RoadModel& m : models) {
    for (const loop::Kernel& k : m.module.kernels) all.kernels.push(k);
    tables += fmt::format("namespace {} {{\n{}}}\n", m.name,
                          artifact::emit_tables({{{"forward", m.graph, m.module, m.plans}}, target, "{}", m.plans.weights_bytes}));
    list += fmt::format("&{}::aotc_module, ", m.name);
  }
  tables += fmt::format("extern \"C\" __attribute__((visibility(\"default\"))) const aotc_module_desc* road_models[] = {{{}}};\n", list);

  std::vector<emit::TranslationUnit> units = {{"tables.cpp", tables, {"-O1", "-march=x86-64", "-w"}}};
  for (emit::cpu::SourceUnit& u : emit::cpu::emit_module(all, target.isas)) {
    if (quick) std::replace(u.flags.begin(), u.flags.end(), std::string("-O2"), std::string("-O1"));
    units.push_back({u.name, std::move(u.source), std::move(u.flags)});
  }
  const emit::Compiler compiler = emit::find_compiler();
  const emit::CompileResult compiled = emit::compile(compiler, units, {dir_, "", 2, {}});
  const std::string so = dir_ + "/road.so";
  std::string link;
  for (const std::string& word : compiler.command) link += word + " ";
  link += "-shared -Wl,-Bsymbolic -o " + so;
  for (const std::string& o : compiled.objects) link += " " + o;
  AOTC_CHECK(std::system((link + " " AOTC_KERNELS_ARCHIVE " -lm").c_str()) == 0, "the link failed");
  handle_ = dlopen(so.c_str(), RTLD_NOW | RTLD_LOCAL);
  AOTC_CHECK(handle_, "{}", dlerror());
  const auto* descs = static_cast<const aotc_module_desc* const*>(dlsym(handle_, "road_models"));
  AOTC_CHECK(descs, "road_models is missing");
  constexpr size_t kAlign = 4096;
  for (size_t i = 0; i < models.size(); ++i) {
    descs_.push_back(*descs[i]);
    const size_t bytes = models[i].plans.weights_bytes;
    blobs_.push_back(std::make_unique<std::byte[]>(bytes + kAlign));
    std::byte* base = blobs_.back().get();
    base += (kAlign - reinterpret_cast<uintptr_t>(base) % kAlign) % kAlign;
    plan::write_weights(models[i].plans.weights, models[i].graph.constants, {base, bytes}, 1);
    descs_.back().weights_begin = bytes ? base : nullptr;
  }
}

Batch::~Batch() {
  if (handle_) dlclose(handle_);
  std::error_code ec;
  fs::remove_all(dir_, ec);
}

namespace {
const aotc_api& api() { return *aotc_get_api(AOTC_ABI_VERSION); }
void must(aotc_status status) { AOTC_CHECK(status == AOTC_STATUS_OK, "{}: {}", api().status_name(status), api().last_error()); }
aotc_tensor tensor(HostTensor& t) {
  return aotc_host_tensor(t.bytes.data(), t.dims.data(), static_cast<int32_t>(t.dims.size()), static_cast<uint32_t>(t.dtype),
                          t.bytes.size());
}
}  // namespace

RoadSession::RoadSession(const aotc_module_desc& desc, int threads) {
  must(rt::model_create(desc, nullptr, &model_));
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  options.num_threads = threads;
  options.flags = AOTC_CONTEXT_POISON;
  must(api().context_create(model_, &options, &context_));
}
RoadSession::~RoadSession() {
  api().context_destroy(context_);
  api().model_destroy(model_);
}

std::vector<HostTensor> RoadSession::run(const Graph& g, const std::vector<HostTensor>& inputs, bool over_inputs) {
  std::vector<HostTensor> own = inputs, out;
  std::vector<aotc_tensor> in, results;
  for (HostTensor& t : own) in.push_back(tensor(t));
  std::vector<std::vector<int64_t>> shapes;
  for (const OutputInfo& o : g.outputs) shapes.emplace_back(static_cast<size_t>(g.type(o.value).rank()));
  std::vector<int64_t*> shape_of;
  for (auto& s : shapes) shape_of.push_back(s.data());
  const auto n_in = static_cast<int32_t>(in.size()), n_out = static_cast<int32_t>(shapes.size());
  must(api().output_bounds(context_, in.data(), n_in, shape_of.data(), n_out));
  for (size_t i = 0; i < shapes.size(); ++i) {
    HostTensor t{g.type(g.outputs[i].value).dtype, shapes[i], {}};
    t.bytes.assign(static_cast<size_t>(t.elems() * dtype_bytes(t.dtype)), std::byte{0x77});
    out.push_back(std::move(t));
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const int32_t alias = g.outputs[i].alias_input;
    results.push_back(alias >= 0 && over_inputs ? in[static_cast<size_t>(alias)] : tensor(out[i]));
  }
  must(api().run(context_, in.data(), n_in, results.data(), n_out));
  for (size_t i = 0; i < out.size(); ++i) {
    const int32_t alias = g.outputs[i].alias_input;
    if (alias >= 0 && over_inputs) out[i].bytes = own[static_cast<size_t>(alias)].bytes;
  }
  if (!over_inputs)
    for (size_t i = 0; i < own.size(); ++i) AOTC_CHECK(own[i].bytes == inputs[i].bytes, "input {} was written to", i);
  for (const StateInfo& s : g.states) {
    if (s.updated == kNone<ValueId>) continue;
    HostTensor t{s.type.dtype, {}, {}};
    for (const Expr& d : s.type.dims) t.dims.push_back(*d.as_const());
    t.bytes.resize(static_cast<size_t>(t.elems() * dtype_bytes(t.dtype)));
    const aotc_tensor to = tensor(t);
    must(api().state_read(context_, s.name.c_str(), &to));
    out.push_back(std::move(t));
  }
  return out;
}

}  // namespace aotc::test
