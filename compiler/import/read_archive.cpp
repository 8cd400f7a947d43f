#include "import/read_archive.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

#include "aotc/detail/blob_hash.h"
#include "graph/guard.h"
#include "import/graph_reader.h"
#include "import/json.h"
#include "import/misstated.h"
#include "import/names.h"
#include "import/operators.h"
#include "import/payload.h"
#include "import/pickle.h"
#include "import/random_numbers.h"
#include "import/save_archive.h"
#include "import/scalar_inputs.h"
#include "import/shared_storage.h"
#include "import/signature.h"
#include "import/size_conditions.h"
#include "import/torch_versions.h"
#include "import/zip.h"

namespace aotc::import {
namespace {

constexpr int kSchemaMajor = 8;
constexpr int64_t kUnbounded = int64_t{1} << 62;  ///< older archives write a number near 2^63 for "no limit"
constexpr size_t kMaxJsonBytes = 512u << 20;
constexpr size_t kMostValues = 1u << 20;  ///< of example inputs

std::string_view text_of(Bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

bool starts_with(std::string_view s, std::string_view prefix) { return s.substr(0, prefix.size()) == prefix; }

/// One archive: the zip, and where its parts are in either layout.
class Archive {
 public:
  explicit Archive(const std::string& path) : file_(MappedFile::open(path)), zip_(file_->bytes(), path), payloads_(file_, budget_) {
    find_layout();
  }

  std::vector<std::string> programs() const {
    std::vector<std::string> names;
    for (const ZipEntry* e : models_) names.push_back(program_name(e));
    if (names.empty()) names.emplace_back("model");
    std::sort(names.begin(), names.end());
    return names;
  }

  Json model(const std::string& program) {
    if (!models_.empty()) choose(program);
    return json(model_);
  }

  Program read(const std::string& program) {
    if (!models_.empty()) choose(program);
    p_.file = zip_.what();
    p_.source_id = source_id();
    const Json model = json(model_);
    const JsonRef m(model, name_of(model_));
    check_version(m);
    read_ranges(m);
    const JsonRef gm = m["graph_module"];
    OpTable ops;
    GraphReader reader(p_, symbols_, ops, [&](const std::string& name) { return whole_constant(gm, name); });
    reader.read(gm["graph"]);
    read_signature(gm, reader, p_);
    read_guards_code(m, gm, symbols_.table(), p_);
    read_weights();
    read_samples(keyword_order(gm));
    finish();
    return std::move(p_);
  }

 private:
  Diagnostic fail(std::string why) const { return {Loc{.file = zip_.what()}, std::move(why)}; }
  std::string name_of(const ZipEntry* e) const { return zip_.what() + ": " + e->name; }
  Json json(const ZipEntry* e) const {
    if (e->bytes > kMaxJsonBytes) throw fail(fmt::format("{} has {} bytes; at most {} are read", e->name, e->bytes, kMaxJsonBytes));
    return parse_json(text_of(zip_.read(*e)), name_of(e));
  }

  /// From the names, sizes and CRCs of the records, and from the graph itself (a torch can be told to leave the CRCs out).
  std::string source_id() const {
    std::set<std::string> lines;
    for (const ZipEntry& e : zip_.entries()) {
      const std::string name = e.name.substr(root_.size());
      for (const char* kind :
           {"data/weights/", "data/constants/", "models/", "serialized_state", "serialized_constants", "serialized_exported"})
        if (starts_with(name, kind)) lines.insert(fmt::format("{} {} {:08x}\n", name, e.bytes, e.crc));
    }
    std::string text;
    for (const std::string& line : lines) text += line;
    text += text_of(zip_.read(*model_));
    return fmt::format("{:016x}", aotc_blob_hash(text.data(), text.size()));
  }

  void find_layout() {
    if (const ZipEntry* e = zip_.find("serialized_exported_program.json")) {  // torch.export.save before 2.8
      model_ = e;
      state_ = zip_.find("serialized_state_dict.pt");
      constants_ = zip_.find("serialized_constants.pt");
      samples_ = zip_.find("serialized_example_inputs.pt");
      if (!state_ || !constants_) throw fail("no weights: serialized_state_dict.pt or serialized_constants.pt is missing");
      return;
    }
    for (const ZipEntry& e : zip_.entries()) {
      const size_t slash = e.name.find('/');
      if (slash != std::string::npos && e.name.substr(slash) == "/archive_format") root_ = e.name.substr(0, slash + 1);
    }
    if (root_.empty() || text_of(zip_.read(*zip_.find(root_ + "archive_format"))) != "pt2")
      throw fail("not an archive of torch.export.save")
          .note(
              "neither archive_format nor serialized_exported_program.json is in the zip; torch.save and torch.jit.save write other "
              "archives")
          .note("torch.export.save(torch.export.export(model.eval(), (example,)), \"model.pt2\") makes one");
    for (const ZipEntry& e : zip_.entries())
      if (!starts_with(e.name, root_))
        throw fail(fmt::format("zip refused: '{}' lies outside of the folder {} that holds the archive", e.name, root_));
    if (const ZipEntry* order = zip_.find(root_ + "byteorder"); order && text_of(zip_.read(*order)) != "little")
      throw fail("saved on a big-endian machine, which is not supported");
    for (const ZipEntry& e : zip_.entries())
      if (starts_with(e.name, root_ + "models/") && e.name.size() > 5 && e.name.substr(e.name.size() - 5) == ".json") models_.push_back(&e);
    if (models_.empty())
      throw fail("the archive holds no exported program")
          .note("a package of AOTInductor holds machine code only; save the program with torch.export.save");
  }

  std::string program_name(const ZipEntry* model) const {
    return model->name.substr(root_.size() + 7, model->name.size() - root_.size() - 12);
  }

  /// Its graph, weights, constants and sample inputs.
  void choose(const std::string& program) {
    std::string names;
    for (const std::string& name : programs()) names += (names.empty() ? "" : ", ") + name;
    for (const ZipEntry* e : models_)
      if (program.empty() || program_name(e) == program) model_ = e;
    if (program.empty() && models_.size() > 1)
      throw fail(fmt::format("the archive holds {} programs, one is expected: {}", models_.size(), names))
          .note("aotc build takes all of them as methods of one artifact, or one by its name: aotc build NAME=" + zip_.what());
    if (!model_) throw fail(fmt::format("the archive holds no program '{}', but {}", program, names));
    const std::string name = program_name(model_);
    state_ = zip_.find(root_ + "data/weights/" + name + ".pt");
    constants_ = zip_.find(root_ + "data/constants/" + name + ".pt");
    weights_config_ = zip_.find(root_ + "data/weights/" + name + "_weights_config.json");
    constants_config_ = zip_.find(root_ + "data/constants/" + name + "_constants_config.json");
    samples_ = zip_.find(root_ + "data/sample_inputs/" + name + ".pt");
  }

  void check_version(const JsonRef& m) {
    const JsonRef v = m["schema_version"];
    p_.schema_major = static_cast<int>(v["major"].integer());
    p_.schema_minor = static_cast<int>(v["minor"].integer());
    if (m.has("torch_version")) p_.torch_version = m["torch_version"].text();
    if (p_.schema_major != kSchemaMajor)
      throw Diagnostic(v.fault("").loc(),
                       fmt::format("schema version {}.{} of torch {} is not supported", p_.schema_major, p_.schema_minor, p_.torch_version))
          .note(fmt::format("supported: schema version {}.x, which torch 2.5 to {} write", kSchemaMajor, newest_torch().str()));
  }

  /// The texts of the sizes that inputs have.
  static std::set<std::string> sizes_of_inputs(const JsonRef& graph) {
    std::set<std::string> texts;
    const JsonRef inputs = graph["inputs"], tensors = graph["tensor_values"];
    for (size_t i = 0, n = inputs.size(); i < n; ++i) {
      const auto [tag, v] = inputs.at(i).tagged();
      if (tag != "as_tensor" || !tensors.has(v["name"].text())) continue;
      const JsonRef sizes = tensors[v["name"].text()]["sizes"];
      for (size_t d = 0, rank = sizes.size(); d < rank; ++d)
        if (const auto [kind, size] = sizes.at(d).tagged(); kind == "as_expr") texts.insert(size["expr_str"].text());
    }
    return texts;
  }

  /// A symbol that is no input's size by itself begins where a dimension a * s + b that it makes does: what the archive says of the symbol
  /// is what export takes any size for (2 at least), which nobody asked for and ep.module() does not check.
  void widen_below(const Expr& e, int64_t min, const std::set<std::string>& own) {
    const std::set<SymId> in = e.symbols();
    if (in.size() != 1) return;
    const SymId s = *in.begin();
    SymTable& syms = symbols_.table();
    const auto b = e.substitute({{s, Expr(0)}}).as_const(), first = e.substitute({{s, Expr(1)}}).as_const();
    if (own.count(syms[s].name) || !b || !first || e != Expr::symbol(s) * (e - *b).substitute({{s, Expr(1)}}) + *b) return;
    const __int128 step = static_cast<__int128>(*first) - *b, over = static_cast<__int128>(min) - *b;
    if (step <= 0) return;
    const __int128 least = over <= 0 ? 0 : (over + step - 1) / step;
    if (least < syms[s].min) syms.edit(s).min = static_cast<int64_t>(least);
  }

  void read_ranges(const JsonRef& m) {
    const JsonRef ranges = m["range_constraints"];
    std::vector<std::tuple<std::string, int64_t, int64_t>> derived;
    for (const auto& [text, value] : ranges.object().items()) {
      const JsonRef r = ranges.member(text, value);
      const int64_t min = r.has("min_val") ? r["min_val"].nearest_integer() : 0;
      int64_t max = r.has("max_val") ? r["max_val"].nearest_integer() : kInf;
      if (max >= kUnbounded) max = kInf;
      if (min > max) throw r.fault(fmt::format("an empty range, {} to {}", min, max));
      if (text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos) {
        symbols_.set_range(text, std::max<int64_t>(min, 0), max);
        if (!r.has("min_val") || min < 0) p_.least[*symbols_.of(text).as_symbol()] = r.has("min_val") ? min : INT64_MIN;
      } else {
        derived.emplace_back(text, min, max);  // a dimension such as 2*s0; its symbol has a range of its own
      }
    }
    const std::set<std::string> own = sizes_of_inputs(m["graph_module"]["graph"]);
    for (const auto& [text, min, max] : derived) {
      const Expr e = symbols_.parse(text, ranges);
      widen_below(e, min, own);
      p_.guards.push_back({ShapeGuard::Kind::le, min, e, "the range of " + text});
      if (max != kInf) p_.guards.push_back({ShapeGuard::Kind::le, e, max, "the range of " + text});
    }
  }

  // Weights, buffers and constants.
  using Stored = std::map<std::string, StoredTensor>;

  void read_config(const ZipEntry* config, const std::string& folder, Stored& out) {
    const Json j = json(config);
    const JsonRef entries = JsonRef(j, name_of(config))["config"];
    for (const auto& [target, value] : entries.object().items()) {
      const JsonRef e = entries.member(target, value);
      const std::string path = folder + e["path_name"].text();
      const ZipEntry* record = zip_.find(path);
      if (!record) throw e.fault(fmt::format("the record {} is missing", path));
      if (!e.has("tensor_meta")) {
        others_.emplace(target, "a custom object");
        continue;
      }
      if (e.has("use_pickle") && e["use_pickle"].boolean()) {
        const PickleValue v = read_torch_save(bytes_of(record), name_of(record));
        const StoredTensor* t = v.as<StoredTensor>();
        if (!t) throw e.fault("the record does not hold a tensor");
        out[target] = *t;
        continue;
      }
      const TensorMeta meta = read_tensor_meta(e["tensor_meta"], symbols_);
      StoredTensor t{.dtype = meta.dtype, .storage = bytes_of(record)};
      for (const Expr& s : meta.sizes) t.sizes.push_back(constant(s, e));
      for (const Expr& s : meta.strides) t.strides.push_back(constant(s, e));
      t.offset = constant(meta.storage_offset, e);
      if (t.storage.empty() && std::find(t.sizes.begin(), t.sizes.end(), 0) == t.sizes.end())
        throw e.fault("the archive was saved without the bytes of this tensor")
            .note("export the model with real weights, not under FakeTensorMode");
      out[target] = std::move(t);
    }
  }
  static int64_t constant(const Expr& e, const JsonRef& where) {
    const auto c = e.as_const();
    if (!c) throw where.fault("a weight of symbolic size");
    return *c;
  }
  Bytes bytes_of(const ZipEntry* e) {
    auto it = checked_.find(e->name);
    if (it == checked_.end()) it = checked_.emplace(e->name, zip_.read(*e)).first;
    return it->second;
  }

  void read_pickled(const ZipEntry* file, Stored& out) {
    if (file->bytes == 0) return;
    const PickleValue v = read_torch_save(bytes_of(file), name_of(file));
    const PickleValue::Dict* d = v.dict();
    if (!d) throw Diagnostic(Loc{.file = name_of(file)}, "not a dictionary of tensors");
    for (const auto& [key, value] : d->items) {
      const std::string* name = key.as<std::string>();
      const StoredTensor* t = value.as<StoredTensor>();
      if (!name) throw Diagnostic(Loc{.file = name_of(file)}, "a key that is not a text");
      if (t)
        out[*name] = *t;
      else
        others_.emplace(*name, "a value that is not a tensor");
    }
  }

  const Stored& constants() {
    if (!constants_read_) {
      constants_read_.emplace();
      if (constants_)
        read_pickled(constants_, *constants_read_);
      else if (constants_config_)
        read_config(constants_config_, root_ + "data/constants/", *constants_read_);
    }
    return *constants_read_;
  }

  /// The integer that a constant tensor of rank 0 holds, by its name in the graph.
  std::optional<int64_t> whole_constant(const JsonRef& graph_module, const std::string& name) {
    const JsonRef specs = graph_module["signature"]["input_specs"];
    for (size_t i = 0, n = specs.size(); i < n; ++i) {
      const auto [kind, spec] = specs.at(i).tagged();
      if (kind != "tensor_constant" || spec["arg"]["name"].text() != name) continue;
      const auto it = constants().find(spec["tensor_constant_name"].text());
      if (it == constants().end() || it->second.dtype != DType::i64 || !it->second.sizes.empty()) return std::nullopt;
      const ConstData data = payloads_.dense(it->first, it->second, Loc{.file = zip_.what()});
      int64_t value = 0;
      std::memcpy(&value, data.data, sizeof value);
      return value;
    }
    return std::nullopt;
  }

  void read_weights() {
    Stored state;
    const Stored& constants = this->constants();
    if (state_)
      read_pickled(state_, state);
    else if (weights_config_)
      read_config(weights_config_, root_ + "data/weights/", state);

    std::vector<std::pair<StoredTensor, std::vector<std::string>>> storages;  ///< one of the tensors in each, and the names of all
    std::map<const std::byte*, size_t> storage_at;
    for (const ProgramInput& in : p_.inputs) {
      if (in.kind == InputKind::user || in.kind == InputKind::user_scalar || p_.data.count(in.target)) continue;
      const Stored& first = in.kind == InputKind::constant_tensor || !in.persistent ? constants : state;
      const Stored& second = &first == &state ? constants : state;
      auto it = first.find(in.target);
      if (it == first.end()) it = second.find(in.target);
      if (it == first.end() || it == second.end()) {
        const auto o = others_.find(in.target);
        throw fail(fmt::format("the archive has no data for '{}'{}", in.target, o == others_.end() ? "" : ", it is " + o->second));
      }
      const StoredTensor& t = it->second;
      const TensorMeta& meta = p_.tensors.at(in.name);
      bool same = meta.dtype == t.dtype && meta.sizes.size() == t.sizes.size();
      for (size_t i = 0; same && i < t.sizes.size(); ++i) same = meta.sizes[i].is(t.sizes[i]);
      if (!same) throw fail(fmt::format("the data of '{}' has another type or other sizes than the graph says", in.target));
      p_.data.emplace(in.target, payloads_.dense(in.target, t, Loc{.file = zip_.what()}));
      p_.data_meta.emplace(in.target, meta_of(t));
      if (t.storage.empty()) continue;
      const auto [at, fresh] = storage_at.emplace(t.storage.data(), storages.size());
      if (fresh) storages.push_back({t, {}});
      storages[at->second].second.push_back(in.target);
    }
    for (const auto& [t, targets] : storages) {
      if (targets.size() < 2) continue;
      StoredTensor flat{.dtype = t.dtype, .strides = {1}, .storage = t.storage};
      flat.sizes = {static_cast<int64_t>(t.storage.size()) / dtype_bytes(t.dtype)};
      p_.storages.push_back({payloads_.dense(targets[0], flat, Loc{.file = zip_.what()}), targets, {}});
    }
  }

  /// Example inputs are a convenience: whatever is not plain tensors is left out.
  void read_samples(const std::vector<std::string>& keywords) {
    if (!samples_ || samples_->bytes == 0) return;
    std::vector<const PickleValue*> leaves;
    size_t expected = 0, seen = 0;
    for (const ProgramInput& in : p_.inputs) expected += in.kind == InputKind::user || in.kind == InputKind::user_scalar;
    std::function<void(const PickleValue&)> flatten = [&](const PickleValue& v) {
      // Tuples that are empty, or shared, are no leaves, but there may be more of them than anyone can visit.
      if (leaves.size() > expected || ++seen > kMostValues) return;
      if (const auto* s = v.sequence()) {
        for (const PickleValue& i : s->items) flatten(i);
      } else if (const auto* d = v.dict()) {
        for (const auto& [k, i] : d->items) flatten(i);
      } else {
        leaves.push_back(&v);
      }
    };
    try {
      const PickleValue v = read_torch_save(bytes_of(samples_), name_of(samples_));
      const auto* call = v.sequence();
      if (!call || call->items.size() != 2 || !call->items[1].dict()) return;
      flatten(call->items[0]);
      for (const std::string& k : keywords)
        for (const auto& [key, value] : call->items[1].dict()->items)
          if (const std::string* name = key.as<std::string>(); name && *name == k) flatten(value);
      if (leaves.size() != expected || seen > kMostValues) return;
      size_t leaf = 0;
      std::map<size_t, ConstData> samples;
      for (size_t i = 0; i < p_.inputs.size(); ++i) {
        const ProgramInput& in = p_.inputs[i];
        if (in.kind != InputKind::user && in.kind != InputKind::user_scalar) continue;
        const PickleValue& value = *leaves[leaf++];
        if (in.kind != InputKind::user) {
          if (const auto* number = value.as<int64_t>()) samples.emplace(i, scalar_sample(in.name, *number));
          continue;
        }
        const StoredTensor* t = value.as<StoredTensor>();
        if (!t || t->dtype != p_.tensors.at(in.name).dtype) return;
        samples.emplace(i, payloads_.dense(in.name, *t, Loc{.file = name_of(samples_)}));
      }
      samples_read_ = std::move(samples);
    } catch (const Diagnostic&) {}
  }

  void finish() {
    drop_unused_scalar_nodes(p_);
    p_.syms = symbols_.table();
    name_parts(p_);
    read_scalar_inputs(p_);
    for (size_t i = 0; i < p_.inputs.size(); ++i)
      if (const auto it = samples_read_.find(i); it != samples_read_.end() && p_.inputs[i].kind == InputKind::user)
        p_.sample_inputs.push_back(std::move(it->second));
    // Conditions are on symbols that are known when a run starts, those of the inputs, or that it finds in data.
    std::set<SymId> known;
    for (size_t i = 0; i < p_.syms.size(); ++i)
      if (const auto s = static_cast<SymId>(i); is_unbacked(p_.syms[s].name)) known.insert(s);
    for (const PNode& n : p_.nodes)
      if (n.target == "aten.item.default")
        for (const Arg& a : n.results)
          if (const Expr* e = std::get_if<Expr>(&a)) known.merge(e->symbols());
    for (const ProgramInput& in : p_.inputs) {
      if (in.kind == InputKind::user)
        for (const Expr& e : p_.tensors.at(in.name).sizes) known.merge(e.symbols());
      if (const Expr* e = std::get_if<Expr>(&in.constant)) known.merge(e->symbols());
    }
    const auto is_known = [&](const Expr& e) {
      const std::set<SymId> symbols = e.symbols();
      return std::includes(known.begin(), known.end(), symbols.begin(), symbols.end());
    };
    std::erase_if(p_.open_conditions, [&](const OpenCondition& c) {
      return !std::all_of(c.sizes.begin(), c.sizes.end(), [&](const auto& size) { return is_known(size.second); });
    });
    std::erase_if(p_.guards, [&](const ShapeGuard& g) { return !is_known(g.a) || !is_known(g.b); });
    std::erase_if(p_.branch_guards, [&](const BranchGuard& b) { return !is_known(b.guard.a) || !is_known(b.guard.b); });
    narrow_multiples(p_.syms, p_.guards);
    std::erase_if(p_.guards, [&](const ShapeGuard& g) {
      if (may_be_negative(p_, g)) return false;
      const std::optional<bool> holds = decided(g, p_.syms);
      if (holds == false) throw fail(fmt::format("a condition on sizes is never met: {}", guard_text(g, p_.syms))).note(g.why);
      return holds == true;
    });
    std::function<void(Program&)> share = [&](Program& p) {
      for (Program& s : p.subgraphs) {
        s.syms = p_.syms;
        s.torch_version = p_.torch_version;
        s.schema_major = p_.schema_major;
        s.schema_minor = p_.schema_minor;
        share(s);
      }
    };
    share(p_);
    correct_misstated(p_);
    share_states(p_);
  }

  std::shared_ptr<const MappedFile> file_;
  Zip zip_;
  Budget budget_;
  Payloads payloads_;
  std::optional<Stored> constants_read_;
  Program p_;
  std::map<size_t, ConstData> samples_read_;  ///< example inputs, by their place in p_.inputs
  Symbols symbols_{budget_};
  std::string root_;
  std::vector<const ZipEntry*> models_;  ///< of all programs; empty in archives of torch before 2.8
  const ZipEntry *model_ = nullptr, *state_ = nullptr, *constants_ = nullptr, *weights_config_ = nullptr, *constants_config_ = nullptr,
                 *samples_ = nullptr;
  std::map<std::string, Bytes> checked_;
  std::map<std::string, std::string> others_;
};

}  // namespace

std::vector<std::string> programs_of(const std::string& path) { return Archive(path).programs(); }

Json model_json(const std::string& path, const std::string& program) { return Archive(path).model(program); }

Program read_archive(const std::string& path, const std::string& program) {
  Program p = Archive(path).read(program);
  draw_numbers(p);
  return p;
}

}  // namespace aotc::import
