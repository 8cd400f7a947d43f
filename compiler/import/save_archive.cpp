#include "import/save_archive.h"

#include <fmt/format.h>

#include "import/pickle.h"
#include "import/zip_writer.h"

namespace aotc::import {
namespace {

/// What archives call a kind of data, and where its payload lies.
struct DataKind {
  const char *tag, *target;
  bool parameter;
};
constexpr DataKind kKinds[] = {
    {"parameter", "parameter_name", true}, {"buffer", "buffer_name", false}, {"tensor_constant", "tensor_constant_name", false}};

/// The tensor's meta in the graph, lying dense.
Json dense_meta(Json meta) {
  int64_t stride = 1;
  Json strides = Json::array();
  const Json& sizes = meta.at("sizes");
  for (size_t d = sizes.size(); d-- > 0;) {
    strides.insert(strides.begin(), Json{{"as_int", stride}});
    stride *= std::max<int64_t>(sizes[d].at("as_int").get<int64_t>(), 1);
  }
  meta["strides"] = strides;
  meta["storage_offset"] = Json{{"as_int", 0}};
  return meta;
}

}  // namespace

void save_archive(const std::string& path, const Json& model, const std::map<std::string, ConstData>& data,
                  const std::vector<HostTensor>& examples) {
  ZipWriter zip(path);
  const std::string root = "model/";
  Json weights = {{"config", Json::object()}}, constants = weights;
  std::map<std::pair<const std::byte*, size_t>, std::string> written;
  const Json& graph = model.at("graph_module").at("graph");
  for (const Json& spec : model.at("graph_module").at("signature").at("input_specs"))
    for (const DataKind& kind : kKinds) {
      if (!spec.contains(kind.tag) || spec.at(kind.tag).is_null()) continue;
      const Json& s = spec.at(kind.tag);
      const std::string target = s.at(kind.target);
      const ConstData& d = data.at(target);
      const bool constant = kind.tag == std::string_view("tensor_constant") || !s.value("persistent", true);
      const char* const folder = constant ? "data/constants/" : "data/weights/";
      std::string& file = written[{d.bytes > 0 ? d.data : nullptr, constant ? d.bytes * 2 : d.bytes * 2 + 1}];
      if (file.empty() || d.bytes == 0) {
        file = fmt::format("{}_{}", constant ? "tensor" : "weight", (constant ? constants : weights)["config"].size());
        zip.add(root + folder + file, Bytes(d.data, d.bytes));
      }
      (constant ? constants : weights)["config"][target] = {
          {"path_name", file},
          {"is_param", kind.parameter},
          {"use_pickle", false},
          {"tensor_meta", dense_meta(graph.at("tensor_values").at(s.at("arg").at("name").get<std::string>()))}};
    }
  zip.add(root + "data/weights/model_weights_config.json", weights.dump());
  zip.add(root + "data/constants/model_constants_config.json", constants.dump());
  zip.add(root + "models/model.json", model.dump());
  if (examples.empty()) {
    zip.add(root + "data/sample_inputs/model.pt", "");
  } else {
    const std::string aside = path + ".examples";
    write_torch_save(aside, examples);
    const auto written_examples = MappedFile::open(aside);
    std::remove(aside.c_str());
    zip.add(root + "data/sample_inputs/model.pt", written_examples->bytes());
  }
  zip.add(root + "archive_format", "pt2");
  zip.add(root + "archive_version", "0");
  zip.add(root + "byteorder", "little");
  zip.add(root + ".data/version", "3\n");
  zip.finish();
}

}  // namespace aotc::import
