#include "mutate_model.h"

#include <iterator>

#include "import/json.h"

namespace aotc::fuzz {
namespace {

using import::Json;
using Random = std::mt19937_64;

constexpr int64_t kInts[] = {
    0, 1, -1, 2, 3, 7, -2, 64, -100, 1000003, int64_t{1} << 31, int64_t{1} << 40, int64_t{1} << 62, INT64_MAX, INT64_MIN, INT64_MIN + 1};
constexpr double kReals[] = {0.0, -1.5, 1e300, -1e-300, 0.5, 3.0};
/// "@" stands for a symbol of the model.
constexpr const char* kSizes[] = {"@",
                                  "2*@",
                                  "-@",
                                  "@ - 1000",
                                  "@*@*@*@*4611686018427387904",
                                  "@**8",
                                  "@*9223372036854775807",
                                  "Max(1, @)",
                                  "(@ + 1)//2",
                                  "Mod(@, 0)",
                                  "Mod(7, @)",
                                  "@//(@ - 3)",
                                  "unknown",
                                  "u0 + 1",
                                  "FloorDiv(@, FloorDiv(@, FloorDiv(@, FloorDiv(@, 3))))",
                                  "Min(@, Max(@ - 3, Min(9 - @, Max(@ - 7, Min(5 - @, Max(@ - 11, 4 - @))))))",
                                  "TruncToInt(0.37*ToFloat(@))",
                                  "@ +",
                                  ""};
constexpr const char* kGuards[] = {"@ % 2 == 0",
                                   "@ == 3",
                                   "@ != 8 and @ > 4 or @ < 2",
                                   "not (@ >= 5)",
                                   "@ // (@ // 9) == 1",
                                   "@*@*@*@*4611686018427387904 > 1",
                                   "math.trunc(torch.sym_float(@) ** 0.5) == 2",
                                   "math.sin(@) > 0",
                                   "@ < ",
                                   "1 / 0 == 1",
                                   "1 % 0 == 1",
                                   "@ >= 100000 and @ <= 99999",
                                   "9223372036854775807 + 1 > @"};

template <class C>
const auto& pick(const C& c, Random& r) {
  return *std::next(std::begin(c), static_cast<int64_t>(r() % std::size(c)));
}
/// A random element of an array or object; null when there is none.
Json* any(Json& j, Random& r) {
  if (!j.is_structured() || j.empty()) return nullptr;
  auto it = j.begin();
  std::advance(it, static_cast<int64_t>(r() % j.size()));
  return &*it;
}
Json* any_at(Json& j, const char* key, Random& r) { return j.is_object() && j.contains(key) ? any(j[key], r) : nullptr; }

class Model {
 public:
  Model(Json& model, Random& random) : m_(model), r_(random), graph_(model["graph_module"]["graph"]) {}

  void change() {
    using Change = void (Model::*)();
    static constexpr Change kChanges[] = {
        &Model::dim,    &Model::dim,    &Model::dim,      &Model::rank,        &Model::dtype, &Model::dtype,  &Model::stride,
        &Model::number, &Model::number, &Model::number,   &Model::arg,         &Model::arity, &Model::target, &Model::results,
        &Model::nodes,  &Model::range,  &Model::sym_size, &Model::tensor_name, &Model::guard, &Model::spec,   &Model::outputs};
    (this->*pick(kChanges, r_))();
  }

 private:
  std::string with_symbol(std::string text) {
    std::string name = "s0";
    if (m_.contains("range_constraints") && !m_["range_constraints"].empty()) {
      auto it = m_["range_constraints"].begin();
      std::advance(it, static_cast<int64_t>(r_() % m_["range_constraints"].size()));
      name = it.key();
    }
    for (size_t at = text.find('@'); at != std::string::npos; at = text.find('@')) text.replace(at, 1, name);
    return text;
  }
  Json size() {
    if (r_() % 3) return {{"as_int", pick(kInts, r_)}};
    return {{"as_expr", {{"expr_str", with_symbol(pick(kSizes, r_))}, {"hint", nullptr}}}};
  }
  Json* tensor() { return any_at(graph_, "tensor_values", r_); }
  Json* node() { return any_at(graph_, "nodes", r_); }
  std::string tensor_of_graph() {
    if (!graph_.contains("tensor_values") || graph_["tensor_values"].empty()) return "x";
    auto it = graph_["tensor_values"].begin();
    std::advance(it, static_cast<int64_t>(r_() % graph_["tensor_values"].size()));
    return it.key();
  }

  void dim() {
    Json* t = tensor();
    if (Json* d = t ? any_at(*t, "sizes", r_) : nullptr) *d = size();
  }
  void rank() {
    Json* t = tensor();
    if (!t || !t->contains("sizes")) return;
    for (const char* key : {"sizes", "strides"}) {
      Json& list = (*t)[key];
      if (r_() % 2)
        list.push_back({{"as_int", 1}});
      else if (!list.empty())
        list.erase(list.begin());
      if (r_() % 8 == 0) break;
    }
  }
  void dtype() {
    if (Json* t = tensor()) (*t)["dtype"] = static_cast<int64_t>(r_() % 16);
  }
  void stride() {
    Json* t = tensor();
    if (!t) return;
    if (r_() % 2)
      (*t)["storage_offset"] = size();
    else if (Json* d = any_at(*t, "strides", r_))
      *d = size();
  }

  /// One number somewhere below.
  void number_in(Json& j) {
    Json* at = &j;
    for (int depth = 0; depth < 12 && at; ++depth) {
      if (at->is_number_integer()) {
        *at = pick(kInts, r_);
        return;
      }
      if (at->is_number_float()) {
        *at = pick(kReals, r_);
        return;
      }
      if (at->is_boolean()) {
        *at = !at->get<bool>();
        return;
      }
      at = any(*at, r_);
    }
  }
  void number() {
    Json* n = node();
    Json* in = n ? any_at(*n, "inputs", r_) : nullptr;
    if (in && in->contains("arg")) number_in((*in)["arg"]);
  }
  void arg() {
    Json* n = node();
    Json* in = n ? any_at(*n, "inputs", r_) : nullptr;
    if (!in) return;
    Json& to = (*in)["arg"];
    switch (r_() % 10) {
      case 0: to = {{"as_none", true}}; break;
      case 1: to = {{"as_int", pick(kInts, r_)}}; break;
      case 2: to = {{"as_float", pick(kReals, r_)}}; break;
      case 3: to = {{"as_bool", true}}; break;
      case 4: to = {{"as_ints", {pick(kInts, r_), pick(kInts, r_)}}}; break;
      case 5: to = {{"as_ints", Json::array()}}; break;
      case 6: to = {{"as_string", "reflect"}}; break;
      case 7: to = {{"as_tensor", {{"name", tensor_of_graph()}}}}; break;
      case 8: to = {{"as_tensors", Json::array({{{"name", tensor_of_graph()}}, {{"name", tensor_of_graph()}}})}}; break;
      default: {
        Json* other = node();
        Json* from = other ? any_at(*other, "inputs", r_) : nullptr;
        if (from && from->contains("arg")) to = Json((*from)["arg"]);
      }
    }
  }
  void arity() {
    Json* n = node();
    if (!n || !n->contains("inputs")) return;
    Json& in = (*n)["inputs"];
    if (r_() % 2 && !in.empty())
      in.erase(r_() % in.size());
    else if (!in.empty())
      in.push_back(Json(in[r_() % in.size()]));
  }
  void target() {
    Json *a = node(), *b = node();
    if (!a || !b) return;
    (*a)["target"] = Json((*b)["target"]);
    if (r_() % 2) (*a)["inputs"] = Json((*b)["inputs"]);
  }
  void results() {
    Json* n = node();
    if (!n || !n->contains("outputs")) return;
    Json& out = (*n)["outputs"];
    switch (r_() % 4) {
      case 0:
        if (!out.empty()) out.erase(out.begin());
        break;
      case 1:
        if (!out.empty()) out.push_back(Json(out[0]));
        break;
      case 2: out.push_back({{"as_tensor", {{"name", tensor_of_graph()}}}}); break;
      default:
        if (!out.empty()) out[0] = {{"as_tensor", {{"name", tensor_of_graph()}}}};
    }
  }
  void nodes() {
    if (!graph_.contains("nodes") || graph_["nodes"].empty()) return;
    Json& all = graph_["nodes"];
    const size_t i = r_() % all.size(), k = r_() % all.size();
    if (r_() % 3 == 0)
      all.erase(i);
    else if (r_() % 2)
      std::swap(all[i], all[k]);
    else
      all.push_back(Json(all[i]));
  }
  void tensor_name() {
    Json* n = node();
    Json* at = n ? any_at(*n, "inputs", r_) : nullptr;
    for (int depth = 0; depth < 8 && at; ++depth) {
      if (at->is_object() && at->contains("name") && !at->contains("arg")) {
        (*at)["name"] = tensor_of_graph();
        return;
      }
      at = at->is_object() && at->contains("arg") ? &(*at)["arg"] : any(*at, r_);
    }
  }
  void range() {
    Json* c = any_at(m_, "range_constraints", r_);
    if (c) (*c)[r_() % 2 ? "min_val" : "max_val"] = r_() % 8 ? Json(pick(kInts, r_)) : Json(nullptr);
  }
  void sym_size() {
    if (Json* v = any_at(graph_, "sym_int_values", r_)) *v = size();
  }
  void guard() {
    std::string text = pick(kGuards, r_);
    const std::string source =
        r_() % 4 ? "L['" + tensor_of_graph() + "'].size()[" + std::to_string(r_() % 3) + "]" : "L['nothing'].size()[0]";
    for (size_t at = text.find('@'); at != std::string::npos; at = text.find('@')) text.replace(at, 1, source);
    if (!m_.contains("guards_code") || !m_["guards_code"].is_array()) m_["guards_code"] = Json::array();
    m_["guards_code"].push_back(text);
  }
  void spec() {
    Json& signature = m_["graph_module"]["signature"];
    const char* key = r_() % 2 ? "input_specs" : "output_specs";
    if (!signature.contains(key) || signature[key].empty()) return;
    Json& all = signature[key];
    const size_t i = r_() % all.size(), k = r_() % all.size();
    if (r_() % 3 == 0)
      all.erase(i);
    else
      std::swap(all[i], all[k]);
  }
  void outputs() {
    if (Json* o = any_at(graph_, r_() % 2 ? "outputs" : "inputs", r_)) {
      if (r_() % 2)
        *o = {{"as_tensor", {{"name", tensor_of_graph()}}}};
      else
        number_in(*o);
    }
  }

  Json& m_;
  Random& r_;
  Json& graph_;
};

}  // namespace

std::string mutate_model(const std::string& json, Random& random) {
  Json model = Json::parse(json, nullptr, false);
  if (model.is_discarded() || !model.is_object()) return json;
  try {
    for (uint64_t n = 1 + random() % 3; n > 0; --n) Model(model, random).change();
  } catch (const Json::exception&) {}  // an earlier change left nothing of this kind
  return model.dump();
}

}  // namespace aotc::fuzz
