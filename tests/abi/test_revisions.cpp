// Which revision of the ABI a function came with, and what a program learns of an artifact that is older or incomplete.
#include "aotc/aotc.hpp"
#include "toy.h"

namespace {

struct Appended {
  const char* name;
  size_t at;
  int revision;
  bool (*has)(const aotc_api*);
};
#define APPENDED(f)                                                                                 \
  {                                                                                                 \
#f, offsetof(aotc_api, f), AOTC_SINCE_##f, [](const aotc_api* api) { return AOTC_HAS(api, f); } \
  }
constexpr Appended kAppended[] = {
    APPENDED(output_sizes),          APPENDED(method_count),         APPENDED(method_get),    APPENDED(method_io_get),
    APPENDED(method_workspace_size), APPENDED(method_output_bounds), APPENDED(run_method),    APPENDED(run_with),
    APPENDED(state_read_range),      APPENDED(state_write_range),    APPENDED(states_layout), APPENDED(states_save),
    APPENDED(states_load),           APPENDED(states_fork),          APPENDED(states_copy),   APPENDED(states_truncate),
    APPENDED(model_swap_weights),    APPENDED(model_trim),
};

/// What the artifacts that Model::linked is given say, each as its test left it.
aotc_api g_table;
const aotc_api* get_table(uint32_t) { return &g_table; }

}  // namespace

TEST_CASE("revisions: every function of the table behind the first ones has one, and the header's is the last") {
  size_t next = offsetof(aotc_api, context_profile) + sizeof(void*);
  int revision = 1;
  for (const Appended& f : kAppended) {
    INFO(f.name);
    CHECK(f.at == next);
    CHECK((f.revision == revision || f.revision == revision + 1));
    next = f.at + sizeof(void*);
    revision = f.revision;
  }
  CHECK(next == sizeof(aotc_api));
  CHECK(revision == AOTC_ABI_REVISION);
  CHECK(offsetof(aotc_api, output_bounds) == offsetof(aotc_api, output_shapes));
  CHECK(offsetof(aotc_api, method_output_bounds) == offsetof(aotc_api, method_output_shapes));
}

TEST_CASE("revisions: of an artifact whose table ends earlier") {
  Loaded toy(toy_path());
  CHECK(aotc_api_revision(toy.api) == AOTC_ABI_REVISION);
  aotc_api table = *toy.api;
  for (const Appended& cut : kAppended) {  // the table ends before it
    INFO(cut.name);
    table.struct_size = cut.at;
    int all_of = 0;  // the latest revision that is there whole
    for (const Appended& f : kAppended) {
      CHECK(f.has(&table) == (f.at < cut.at));
      if (f.at < cut.at && (f.at + sizeof(void*) == sizeof table || (&f)[1].revision > f.revision)) all_of = f.revision;
    }
    CHECK(aotc_api_revision(&table) == all_of);
  }
  table.struct_size = sizeof table + 64;  // a later one
  CHECK(aotc_api_revision(&table) == AOTC_ABI_REVISION);
}

TEST_CASE("aotc.hpp: a model that cannot say what it has is not loaded, and the status says why") {
  using namespace aotc::host;
  Loaded toy(toy_path("toy_methods"));
  const struct {
    const char* what;
    void (*breaks)(aotc_api*);
  } kBroken[] = {
      {"method_count",
       [](aotc_api* t) { t->method_count = [](const aotc_model*, int32_t*) { return aotc_status{AOTC_STATUS_INTERNAL}; }; }},
      {"no method",
       [](aotc_api* t) { t->method_count = [](const aotc_model*, int32_t* n) { return *n = 0, aotc_status{AOTC_STATUS_OK}; }; }},
      {"method_get",
       [](aotc_api* t) {
         t->method_get = [](const aotc_model*, int32_t, const char*, aotc_method_info*) { return aotc_status{AOTC_STATUS_INTERNAL}; };
       }},
      {"io_count",
       [](aotc_api* t) { t->io_count = [](const aotc_model*, int32_t, int32_t*) { return aotc_status{AOTC_STATUS_INTERNAL}; }; }},
      {"io_get",
       [](aotc_api* t) {
         t->io_get = [](const aotc_model*, int32_t, int32_t, aotc_io_info*) { return aotc_status{AOTC_STATUS_INTERNAL}; };
       }},
      {"method_io_get",
       [](aotc_api* t) {
         t->method_io_get = [](const aotc_model*, int32_t, int32_t, int32_t, aotc_io_info*) { return aotc_status{AOTC_STATUS_INTERNAL}; };
       }},
  };
  for (const auto& broken : kBroken) {
    INFO(broken.what);
    g_table = *toy.api;
    broken.breaks(&g_table);
    Model model;
    const Status status = Model::linked(get_table, &model);
    CHECK_FALSE(status);
    CHECK_FALSE(status.message.empty());
    CHECK_FALSE(model);
  }
  g_table = *toy.api;
  Model model;
  REQUIRE(Model::linked(get_table, &model));
  CHECK((model.inputs().size() == 4 && model.outputs().size() == 3 && model.methods().size() == 2));
}

TEST_CASE("aotc.hpp: an artifact that does not know traceparent is not given one, and runs") {
  using namespace aotc::host;
  Loaded toy(toy_path());
  static const char* given;
  static int calls;
  for (const size_t size : {offsetof(aotc_api, run_with), offsetof(aotc_api, model_trim), sizeof(aotc_api)}) {
    INFO(size);
    g_table = *toy.api;
    g_table.struct_size = size;
    g_table.run_with = [](aotc_context*, int32_t, const aotc_tensor*, int32_t, const aotc_tensor*, int32_t, const aotc_run_options* o) {
      given = o->traceparent;
      return ++calls, aotc_status{AOTC_STATUS_OK};
    };
    given = nullptr;
    calls = 0;
    Model model;
    Context context;
    Model::linked(get_table, &model).check();
    model.context(&context).check();
    ToyCall call(3);
    RunOptions options;
    options.traceparent = "the header";
    context.run(call.in, call.out, options).check();
    CHECK(calls == (size > offsetof(aotc_api, run_with)));
    CHECK(call.right() == (calls == 0));
    CHECK(given == (size == sizeof(aotc_api) ? options.traceparent : nullptr));
    options.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
    CHECK(context.run(call.in, call.out, options).code == (calls ? AOTC_STATUS_OK : AOTC_STATUS_INCOMPATIBLE));
  }
}
