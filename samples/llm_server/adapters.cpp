#include "adapters.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "json_text.h"

namespace llm {

namespace {

using Json = nlohmann::json;

float from_f16(uint16_t h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  const float size = exponent == 0    ? std::ldexp(static_cast<float>(fraction), -24)
                     : exponent == 31 ? (fraction ? NAN : HUGE_VALF)
                                      : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return h & 0x8000 ? -size : size;
}

float from_bf16(uint16_t h) {
  const uint32_t bits = static_cast<uint32_t>(h) << 16;
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;
};

/// A safetensors file: eight bytes of the header's size, the header (JSON), the tensors.
class Safetensors {
 public:
  explicit Safetensors(const std::string& path) : path_(path), in_(path, std::ios::binary) {
    if (!in_) wrong("cannot be opened");
    in_.seekg(0, std::ios::end);
    const auto size = static_cast<uint64_t>(in_.tellg());
    in_.seekg(0);
    uint8_t count[8];
    uint64_t header = 0;
    if (!in_.read(reinterpret_cast<char*>(count), 8)) wrong("is cut off: a safetensors file begins with its header's size");
    for (int i = 7; i >= 0; --i) header = header << 8 | count[i];
    if (header > size - 8 || header > (uint64_t{100} << 20)) wrong("has no header of " + std::to_string(header) + " bytes");
    std::string text(header, '\0');
    in_.read(text.data(), static_cast<std::streamsize>(header));
    header_ = parse_json(text, 8);
    if (!header_.is_object()) wrong("has a header that is not a JSON object");
    header_.erase("__metadata__");
    begin_ = 8 + header, bytes_ = size - begin_;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, _] : header_.items()) out.push_back(name);
    return out;
  }

  Matrix matrix(const std::string& name) {
    try {
      const Json& t = header_.at(name);
      const auto dims = t.at("shape").get<std::vector<int64_t>>();
      const auto at = t.at("data_offsets").get<std::vector<uint64_t>>();
      const auto type = t.at("dtype").get<std::string>();
      if (dims.size() != 2 || at.size() != 2) wrong(name + ": expected a matrix");
      const uint64_t width = type == "F32" ? 4 : type == "F16" || type == "BF16" ? 2 : 0;
      if (!width) wrong(name + ": is " + type + ", expected F32, F16 or BF16");
      Matrix m{dims[0], dims[1], {}};
      if (m.rows < 0 || m.columns < 0 || (m.columns && m.rows > static_cast<int64_t>(bytes_) / m.columns) || at[0] > at[1] ||
          at[1] > bytes_ || at[1] - at[0] != static_cast<uint64_t>(m.rows * m.columns) * width)
        wrong(name + ": its offsets do not fit its shape or the file");
      std::vector<char> raw(at[1] - at[0]);
      in_.seekg(static_cast<std::streamoff>(begin_ + at[0]));
      if (!in_.read(raw.data(), static_cast<std::streamsize>(raw.size()))) wrong(name + ": cannot be read");
      m.values.resize(static_cast<size_t>(m.rows * m.columns));
      if (width == 4) std::memcpy(m.values.data(), raw.data(), raw.size());
      for (size_t i = 0; width == 2 && i < m.values.size(); ++i) {
        uint16_t half;
        std::memcpy(&half, raw.data() + 2 * i, 2);
        m.values[i] = type == "F16" ? from_f16(half) : from_bf16(half);
      }
      return m;
    } catch (const Json::exception& e) { wrong(name + ": " + e.what()); }
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const { throw std::runtime_error(path_ + ": " + what); }

  std::string path_;
  std::ifstream in_;
  Json header_;
  uint64_t begin_ = 0, bytes_ = 0;
};

/// What PEFT's config says of the product's scale: alpha / rank.
class Scales {
 public:
  explicit Scales(const std::string& path) : path_(path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw std::runtime_error(path + ": cannot be opened; expected an adapter as PEFT saves it");
    const Json j = parse_json(in, 8);
    if (!j.is_object()) throw std::runtime_error(path + ": is not a JSON object");
    try {
      // What changes the sum in another way than by a product beside the layer.
      const std::pair<const char*, Json> plain[] = {
          {"peft_type", "LORA"}, {"use_dora", false}, {"bias", "none"}, {"modules_to_save", nullptr}, {"fan_in_fan_out", false}};
      for (const auto& [name, expected] : plain)
        if (const Json has = j.value(name, Json()); !has.is_null() && has != expected && has != Json::array())
          throw std::runtime_error(path + ": " + name + " is " + has.dump() + ", expected " + expected.dump());
      alpha_ = j.at("lora_alpha").get<double>();
      root_ = j.value("use_rslora", false);
      const Json patterns = j.value("alpha_pattern", Json());
      if (patterns.is_object())
        for (const auto& [ending, alpha] : patterns.items()) patterns_.emplace_back(ending, alpha.get<double>());
    } catch (const Json::exception& e) { throw std::runtime_error(path + ": " + e.what()); }
    for (const auto& [ending, alpha] : patterns_)
      if (ending.find_first_of("^$*+?()[]{}|\\") != std::string::npos)
        throw std::runtime_error(path + ": alpha_pattern has " + ending + ", expected the ends of layers' names");
  }

  double of(const std::string& layer, int64_t rank) const {
    double alpha = alpha_;
    for (const auto& [ending, a] : patterns_)
      if (layer == ending || (layer.size() > ending.size() && layer[layer.size() - ending.size() - 1] == '.' &&
                              layer.compare(layer.size() - ending.size(), ending.size(), ending) == 0)) {
        alpha = a;
        break;
      }
    return alpha / (root_ ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank));
  }

 private:
  std::string path_;
  double alpha_ = 0;
  bool root_ = false;
  std::vector<std::pair<std::string, double>> patterns_;
};

/// "base_model.model.PATH.lora_A.weight" as {PATH, 'A'}; the letter is 0 where the name is no such thing.
std::pair<std::string, char> parts_of(const std::string& name) {
  constexpr const char* kBefore = "base_model.model.";
  const size_t before = name.rfind(kBefore, 0) == 0 ? std::strlen(kBefore) : 0;
  for (const char letter : {'A', 'B'}) {
    const std::string behind = std::string(".lora_") + letter + ".weight";
    if (name.size() > before + behind.size() && name.compare(name.size() - behind.size(), behind.size(), behind) == 0)
      return {name.substr(before, name.size() - behind.size() - before), letter};
  }
  return {name, '\0'};
}

std::string last_names(const std::vector<AdaptedLayer>& layers) {
  std::set<std::string> names;
  for (const AdaptedLayer& l : layers) names.insert(l.path.substr(l.path.rfind('.') + 1));
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "" : ", ") + n;
  return out;
}

}  // namespace

std::vector<AdapterRow> read_adapter(const std::string& folder, const std::vector<AdaptedLayer>& layers) {
  const Scales scales(folder + "/adapter_config.json");
  const std::string path = folder + "/adapter_model.safetensors";
  Safetensors file(path);
  std::vector<AdapterRow> rows;
  std::map<std::string, size_t> at;
  for (const AdaptedLayer& l : layers) {
    at[l.path] = rows.size();
    rows.push_back({"model." + l.path + ".lora_a", std::vector<float>(static_cast<size_t>(l.in * l.rank))});
    rows.push_back({"model." + l.path + ".lora_b", std::vector<float>(static_cast<size_t>(l.rank * l.out))});
  }
  for (const std::string& name : file.names()) {
    const auto [layer, letter] = parts_of(name);
    const auto found = at.find(layer);
    if (!letter || found == at.end())
      throw std::runtime_error(path + ": " + name + ": the artifact has no adapter of this layer. It has those of " + last_names(layers));
    const AdaptedLayer& l = layers[found->second / 2];
    const Matrix m = file.matrix(name);
    const bool is_a = letter == 'A';
    const int64_t rank = is_a ? m.rows : m.columns, width = is_a ? m.columns : m.rows;
    if (width != (is_a ? l.in : l.out))
      throw std::runtime_error(path + ": " + name + " is [" + std::to_string(m.rows) + ", " + std::to_string(m.columns) +
                               "], and the layer has " + std::to_string(l.in) + " inputs and " + std::to_string(l.out) +
                               " outputs: it is another model's");
    if (rank < 1 || rank > l.rank)
      throw std::runtime_error(path + ": " + name + " has rank " + std::to_string(rank) + ", and the artifact takes 1 to " +
                               std::to_string(l.rank) + " (export.py --rank)");
    // Stored is the transpose, A as [rank, in] and B as [out, rank].
    std::vector<float>& to = rows[found->second + (is_a ? 0 : 1)].values;
    const double scale = is_a ? 1 : scales.of(layer, rank);
    for (int64_t i = 0; i < m.rows; ++i)
      for (int64_t k = 0; k < m.columns; ++k)
        to[static_cast<size_t>(is_a ? k * l.rank + i : k * l.out + i)] =
            static_cast<float>(scale * static_cast<double>(m.values[static_cast<size_t>(i * m.columns + k)]));
  }
  return rows;
}

struct Adapters::Rows {
  std::mutex mutex;
  std::vector<bool> used;
  uint64_t serial = 0;
};

Adapters::Adapters(int64_t count, std::vector<AdaptedLayer> layers, Write write)
    : count_(count), layers_(std::move(layers)), write_(std::move(write)), rows_(std::make_shared<Rows>()) {
  rows_->used.assign(static_cast<size_t>(count) + 1, false);
  rows_->used[0] = true;  // that of requests without an adapter
}

void Adapters::load(const std::string& name, const std::string& folder) {
  if (!count_) throw std::runtime_error("the artifact has no room for adapters: export it with --adapters");
  if (name.empty() || name.size() > 256) throw std::runtime_error("an adapter's name has 1 to 256 bytes");
  if (find(name)) throw std::runtime_error("an adapter " + name + " is loaded already");
  const std::vector<AdapterRow> values = read_adapter(folder, layers_);
  auto made = std::make_unique<Adapter>(Adapter{name, 0, 0});
  {
    const std::lock_guard<std::mutex> lock(rows_->mutex);
    const auto free = std::find(rows_->used.begin(), rows_->used.end(), false);
    if (free == rows_->used.end())
      throw std::runtime_error("all " + std::to_string(count_) + " rows for adapters are in use: unload one, or export with more");
    *free = true;
    made->row = free - rows_->used.begin();
    made->serial = ++rows_->serial;
  }
  const AdapterPtr adapter(made.release(), [rows = rows_](const Adapter* a) {
    {
      const std::lock_guard<std::mutex> lock(rows->mutex);
      rows->used[static_cast<size_t>(a->row)] = false;
    }
    delete a;
  });
  write_(adapter->row, values);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!by_name_.emplace(name, adapter).second) throw std::runtime_error("an adapter " + name + " is loaded already");
}

bool Adapters::unload(const std::string& name) {
  AdapterPtr gone;  // after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) return false;
  gone = std::move(it->second);
  by_name_.erase(it);
  return true;
}

AdapterPtr Adapters::find(const std::string& name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

std::vector<std::string> Adapters::names() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [name, _] : by_name_) out.push_back(name);
  return out;
}

}  // namespace llm
