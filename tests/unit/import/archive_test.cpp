#include "graph/scalar.h"
#include "import/bind_symbols.h"
#include "import/read_archive.h"
#include "import/reference.h"
#include "support.h"

using namespace aotc;
using namespace aotc::import;
using namespace aotc::import::test;
using Catch::Matchers::Contains;

namespace {

/// The text of the archive's records with one replaced or changed.
std::string changed(const std::string& archive, const std::string& record, const std::function<void(std::string&)>& change) {
  const std::string file = read_file(data_file(archive));
  const Zip zip(bytes_of(file), archive);
  std::vector<Entry> entries;
  for (const ZipEntry& e : zip.entries()) {
    const Bytes b = zip.read(e);
    Entry out{e.name, {reinterpret_cast<const char*>(b.data()), b.size()}};
    if (e.name.find(record) != std::string::npos) change(out.content);
    entries.push_back(std::move(out));
  }
  return make_zip(entries);
}
void replace_first(std::string& s, const std::string& from, const std::string& to) {
  const size_t at = s.find(from);
  REQUIRE(at != std::string::npos);
  s.replace(at, from.size(), to);
}
std::string why_changed(const std::string& from, const std::string& to, const std::string& record = "models/model.json") {
  const TempFile f(changed("tiny.pt2", record, [&](std::string& s) { replace_first(s, from, to); }));
  return refusal([&] { read_archive(f.path()); });
}

}  // namespace

TEST_CASE("both layouts of an archive give the same program") {
  const Program p = read_archive(data_file("tiny.pt2")), legacy = read_archive(data_file("tiny.legacy.pt2"));
  CHECK(dump(p) == dump(legacy));
  CHECK(p.schema_major == 8);
  REQUIRE(p.sample_inputs.size() == 3);
  CHECK(legacy.sample_inputs.size() == 3);
  for (const auto& [name, d] : p.data) {
    REQUIRE(legacy.data.count(name));
    CHECK(std::string(reinterpret_cast<const char*>(d.data), d.bytes) ==
          std::string(reinterpret_cast<const char*>(legacy.data.at(name).data), d.bytes));
  }
}

TEST_CASE("what the archive says arrives in the program") {
  const Program p = read_archive(data_file("tiny.pt2"));
  const std::string text = dump(p);
  CHECK_THAT(text, Contains("input user x: float32[x_0"));
  CHECK_THAT(text, Contains("input scalar k = 2 at args[2]"));
  CHECK_THAT(text, Contains("at kwargs['ids']"));
  CHECK_THAT(text, Contains("output buffer_mutation %b_calls to \"calls\""));
  CHECK_THAT(text, Contains("= aten.where.self(condition=%gt, self=%true_graph_0.add, other=%false_graph_0.sub)"));
  CHECK_THAT(text, Contains("at ['parts'][1]"));
  CHECK_THAT(text, !Contains("set_grad_enabled"));
  CHECK_THAT(text, !Contains("sym_size"));
  CHECK_THAT(text, Contains("in a  # make_fixtures.py"));
  CHECK(p.subgraphs.empty());

  // Aliases share their bytes, strided buffers are dense.
  CHECK(p.data.at("b.weight").data != nullptr);
  const ConstData& strided = p.data.at("strided");
  REQUIRE(strided.type.dims == std::vector<Expr>{4, 3});
  const auto* v = reinterpret_cast<const float*>(strided.data);
  CHECK((v[0] == 0 && v[1] == 4 && v[2] == 8 && v[3] == 1));
  CHECK(p.data_meta.at("strided").strides == std::vector<Expr>{1, 4});
  // Arguments that the archive leaves out are those of the operator's schema.
  for (const PNode& n : p.nodes)
    if (n.target == "aten.add.Tensor") {
      REQUIRE(n.args.size() == 3);
      CHECK((n.args[2].name == "alpha" && n.args[2].defaulted && std::get<Expr>(n.args[2].value).is(1)));
      break;
    }
}

TEST_CASE("the reference runner gives what PyTorch gave") {
  const Program p = read_archive(data_file("tiny.pt2"));
  const std::vector<HostTensor> inputs = make_inputs(p, {}, 0);
  const std::vector<HostTensor> out = make_reference(p, {})->run(inputs);
  REQUIRE(out.size() == 9);  // 8 results and the mutated buffer
  for (size_t i = 0; i < 8; ++i) {
    const std::string want = read_file(data_file("tiny.out" + std::to_string(i) + ".bin"));
    CHECK(std::string(reinterpret_cast<const char*>(out[i].bytes.data()), out[i].bytes.size()) == want);
  }
  CHECK(*reinterpret_cast<const float*>(out[8].bytes.data()) == 1);

  const std::vector<HostTensor> exact = make_reference(p, {.f64 = true})->run(inputs);
  REQUIRE(exact[0].dtype == DType::f64);
  CHECK(exact[7].dtype == DType::f64);
  for (int64_t i = 0; i < exact[0].elems(); ++i)
    CHECK(reinterpret_cast<const double*>(exact[0].bytes.data())[i] ==
          Approx(reinterpret_cast<const float*>(out[0].bytes.data())[i]).epsilon(1e-5));

  // Constants that are widened at each use give the same, every run.
  const auto frugal = make_reference(p, {.f64 = true, .kept_bytes = 0});
  for (int run : {1, 2}) {
    const std::vector<HostTensor> same = frugal->run(inputs);
    INFO("run " << run);
    REQUIRE(same.size() == exact.size());
    for (size_t i = 0; i < exact.size(); ++i) CHECK((same[i].dtype == exact[i].dtype && same[i].bytes == exact[i].bytes));
  }
}

TEST_CASE("the reference runner in bf16 rounds what is float32 and stays near") {
  const Program p = read_archive(data_file("tiny.pt2"));
  const std::vector<HostTensor> inputs = make_inputs(p, {}, 0);
  const std::vector<HostTensor> out = make_reference(p, {})->run(inputs), half = make_reference(p, {.bf16 = true})->run(inputs);
  REQUIRE(half.size() == out.size());
  const std::vector<HostTensor> frugal = make_reference(p, {.bf16 = true, .kept_bytes = 0})->run(inputs);
  for (size_t i = 0; i < half.size(); ++i) CHECK(frugal.at(i).bytes == half[i].bytes);
  size_t rounded = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    CHECK(half[i].dims == out[i].dims);
    CHECK((half[i].dtype == out[i].dtype || (out[i].dtype == DType::f32 && half[i].dtype == DType::bf16)));
    rounded += half[i].dtype == DType::bf16;
  }
  CHECK(rounded > 0);
  REQUIRE(half[0].dtype == DType::bf16);
  std::vector<double> got(static_cast<size_t>(half[0].elems()));
  load_f64(DType::bf16, half[0].bytes.data(), got.data(), half[0].elems());
  for (int64_t i = 0; i < out[0].elems(); ++i)
    CHECK(got[static_cast<size_t>(i)] == Approx(reinterpret_cast<const float*>(out[0].bytes.data())[i]).epsilon(0.05).margin(0.05));
}

TEST_CASE("made inputs have the wished sizes and fit the graph") {
  const Program p = read_archive(data_file("tiny.pt2"));
  const SymId batch = p.tensors.at("x").sizes[0].as_symbol().value();
  const std::vector<HostTensor> inputs = make_inputs(p, {{batch, 7}}, 5);
  CHECK(inputs[0].dims == std::vector<int64_t>{7, 4});
  for (int64_t i = 0; i < 7; ++i) {
    const int64_t id = reinterpret_cast<const int64_t*>(inputs[2].bytes.data())[i];
    CHECK((id >= 0 && id < 4));
  }
  CHECK(make_reference(p, {})->run(inputs)[1].dims == std::vector<int64_t>{17, 3});
  CHECK(make_inputs(p, {{batch, 7}}, 5)[0].bytes == inputs[0].bytes);
  CHECK(make_inputs(p, {{batch, 7}}, 6)[0].bytes != inputs[0].bytes);
  CHECK_THAT(refusal([&] { bind_symbols(p, {inputs[0], inputs[1]}); }), Contains("2 inputs given"));
  std::vector<HostTensor> wrong = inputs;
  wrong[2].dims[0] = 6;
  CHECK_THAT(refusal([&] { bind_symbols(p, wrong); }), Contains("input ids has size 6"));
}

TEST_CASE("damaged and hostile programs are refused with the place") {
  CHECK_THAT(why_changed(R"("major": 8)", R"("major": 9)"), Contains("schema version 9.") && Contains("supported: schema version 8.x"));
  CHECK_THAT(why_changed(R"("name": "linear_1"}}], "metadata")", R"("name": "add"}}], "metadata")"),
             Contains("defined twice") || Contains("before it is defined"));
  CHECK_THAT(why_changed(R"({"name": "self", "arg": {"as_tensor": {"name": "add"}})",
                         R"({"name": "self", "arg": {"as_tensor": {"name": "mul_4"}})"),
             Contains("used before it is defined"));
  CHECK_THAT(why_changed(R"({"name": "other", "arg": {"as_tensor": {"name": "mul"}}, "kind": 1})",
                         R"({"name": "otter", "arg": {"as_tensor": {"name": "mul"}}, "kind": 1})"),
             Contains("'other' is missing"));
  CHECK_THAT(why_changed(R"({"name": "other", "arg": {"as_tensor": {"name": "mul"}})", R"({"name": "other", "arg": {"as_string": "mul"})"),
             Contains("is not Tensor"));
  CHECK_THAT(why_changed(R"("mul": {"dtype": 7, "sizes": [{"as_int": 4})", R"("mul": {"dtype": 7, "sizes": [{"as_int": -4})"),
             Contains("negative size"));
  CHECK_THAT(why_changed(R"("mul": {"dtype": 7)", R"("mul": {"dtype": 31)"), Contains("float8_e4m3fnuz"));
  CHECK_THAT(why_changed(R"("mul": {"dtype": 7)", R"("mul": {"dtype": 99)"), Contains("unknown (99)"));
  CHECK_THAT(why_changed(R"("min_val": 2)", R"("min_val": 65)"), Contains("empty range"));
  CHECK_THAT(why_changed("FloorDiv(", "Mystery("), Contains("the function Mystery"));
  CHECK_THAT(why_changed(R"("buffer_name": "strided")", R"("buffer_name": "gone")"), Contains("no data for 'gone'"));
  CHECK_THAT(why_changed(R"({"user_output": )", R"({"custom_obj_output": )"), Contains("custom_obj_output is not supported"));
  CHECK_THAT(why_changed(R"("nodes": [)", R"("nodes": [[], )"), Contains("nodes[0]"));
  CHECK_THAT(why_changed(R"("storage_offset": {"as_int": 0})", R"("storage_offset": {"as_int": 1})", "_weights_config.json"),
             Contains("element") && Contains("storage"));
  CHECK_THAT(why_changed(R"("path_name": "weight_0")", R"("path_name": "../weight_0")", "_weights_config.json"), Contains("missing"));
  CHECK_THAT(why_changed("pt2", "pt3", "archive_format"), Contains("not an archive"));
  CHECK_THAT(refusal([] { read_archive("/nonexistent/m.pt2"); }), Contains("there is no such file"));
}

TEST_CASE("operators that nobody knows are kept to be reported") {
  const TempFile f(changed("tiny.pt2", "models/model.json",
                           [](std::string& s) { replace_first(s, "torch.ops.aten.embedding.default", "torch.ops.mylib.lookup.default"); }));
  const Program p = read_archive(f.path());
  const auto it = std::find_if(p.nodes.begin(), p.nodes.end(), [](const PNode& n) { return n.target == "mylib.lookup.default"; });
  REQUIRE(it != p.nodes.end());
  CHECK(it->args[0].name == "weight");
  CHECK_THAT(refusal([&] { make_reference(p, {}); }), Contains("LibTorch does not know it"));
}
