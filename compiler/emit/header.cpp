#include "emit/header.h"

#include <algorithm>
#include <map>
#include <set>

#include "emit/c_names.h"
#include "emit/c_string.h"
#include "emit/embedded.h"
#include "sym/c_text.h"

namespace aotc::emit {
namespace {

/// The C type of an element and the note that says what it holds where C has no such type.
const char* element_type(DType t) {
  switch (t) {
    case DType::boolean: return "uint8_t";
    case DType::u8:
    case DType::f8e4m3fn:
    case DType::f8e5m2: return "uint8_t";
    case DType::i8: return "int8_t";
    case DType::i16: return "int16_t";
    case DType::i32: return "int32_t";
    case DType::i64: return "int64_t";
    case DType::f16:
    case DType::bf16: return "uint16_t";
    case DType::f32:
    case DType::c64: return "float";
    case DType::f64:
    case DType::c128: return "double";
  }
  return "void";
}

/// An embedded public header without its includes of other public headers (they are part of the same file).
std::string public_header(const char* name) {
  std::string out;
  std::string_view text = embedded(name).text();
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.rfind("#include \"aotc/", 0) != 0) out += std::string(line) + "\n";
  }
  return out;
}

constexpr const char* kPublic[] = {"include/aotc/dtype.h", "include/aotc/aotc.h", "include/aotc/detail/blob_hash.h", "include/aotc/seal.h",
                                   "include/aotc/loader.h"};
constexpr size_t kLinked = 2;  ///< those of them that a model in a program needs

/// What a header says of one method.
class MethodText {
 public:
  /// prefix: of the artifact's names. number: the method's among several, or -1. taken: names of functions that the header has.
  MethodText(const HeaderMethod& method, const std::string& prefix, int number, std::set<std::string>& taken)
      : g_(method.graph),
        prefix_(prefix),
        own_(number < 0 ? prefix : prefix + "_" + method.name),
        name_(method.name),
        number_(number),
        taken_(taken) {
    collect_symbols();
    name_all();
    run_ = function("_run");
    sizes_ = function("_sizes");
  }

  std::string functions() { return sizes() + element_counts() + gradients() + run() + found_sizes(); }
  const std::string& run_function() const { return run_; }

  std::string describe() const {
    std::string out = number_ < 0 ? std::string() : fmt::format(" *\n * method {}: {} ({})\n", number_, name_, run_);
    auto rows = [&](const char* what, const std::vector<Arg>& args) {
      for (size_t i = 0; i < args.size(); ++i)
        out += fmt::format(" * {} {}: \"{}\" {}\n", what, i, c_comment(args[i].declared), shape(args[i].type));
    };
    rows("input", inputs_);
    rows("output", outputs_);
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (!g_.outputs[i].gradient_of.empty())
        out += fmt::format(" * output {} is the loss's gradient of \"{}\"\n", i, c_comment(g_.outputs[i].gradient_of));
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (const Exprs found = g_.found(g_.outputs[i]); !g_.outputs[i].found.empty())
        out +=
            fmt::format(" * output {}: a run finds its sizes in the data, [{}]; above is the most that they can be: the buffer's shape\n",
                        i, c_comment(dims_text(found)));
    for (const StateInfo& s : g_.states)
      out += fmt::format(" * state: \"{}\" {} (kept in the context; state_reset, state_read, state_write{})\n", c_comment(s.name),
                         shape(s.type), s.updated == kNone<ValueId> ? "; only the caller writes it" : "");
    for (SymId s : symbols_) out += fmt::format(" * {}: {}\n", c_comment(g_.syms[s].name), range(g_.syms[s]));
    return out;
  }

 private:
  struct Arg {
    std::string name;
    TensorType type;
    std::string declared;
  };

  /// A name that the header has not: names of methods and tensors may meet.
  std::string function(const std::string& rest) {
    std::string name = own_ + rest;
    while (!taken_.insert(name).second) name += "_";
    return name;
  }

  void collect_symbols() {
    std::set<SymId> used;
    for (const InputInfo& i : g_.inputs)
      for (const Expr& d : g_.type(i.value).dims) used.merge(d.symbols());
    symbols_.assign(used.begin(), used.end());
  }

  void name_all() {
    // what the functions themselves call things
    std::set<std::string> locals = {"api", "context", "sizes", "in", "out"};
    for (size_t i = 0; i < g_.inputs.size(); ++i) locals.insert(fmt::format("dims_in{}", i));
    for (size_t o = 0; o < g_.results(); ++o) locals.insert(fmt::format("dims_out{}", o));
    CNames names(std::move(locals)), fields;
    for (const InputInfo& i : g_.inputs) inputs_.push_back({names.add(i.name), g_.type(i), i.name});
    for (const OutputInfo& o : g_.outputs)
      if (o.role == OutputRole::result) outputs_.push_back({names.add(o.name), g_.type(o), o.name});
    for (SymId s : symbols_) fields_[s] = fields.add(g_.syms[s].name);
  }

  /// "1 to 64, multiples of 2"
  static std::string range(const SymInfo& i) {
    return fmt::format("{} to {}{}", i.min, i.max == kInf ? "any size" : std::to_string(i.max),
                       i.multiple_of > 1 ? fmt::format(", multiples of {}", i.multiple_of) : "");
  }

  std::string shape(const TensorType& t) const { return fmt::format("{}[{}]", dtype_name(t.dtype), c_comment(dims_text(t.dims))); }
  std::string dims_text(const Exprs& es) const {
    std::string dims;
    for (const Expr& d : es) dims += (dims.empty() ? "" : ", ") + d.str(g_.syms);
    return dims;
  }

  std::string c_expr(const Expr& e) const {
    const std::string f = prefix_ + "_floordiv", m = prefix_ + "_floormod", lo = prefix_ + "_min", hi = prefix_ + "_max";
    return c_text(e, g_.syms, {f.c_str(), m.c_str(), lo.c_str(), hi.c_str()}, [&](SymId s) { return "sizes->" + fields_.at(s); });
  }

  std::string sizes() const {
    std::string out = fmt::format("/* The dimensions that vary{}. */\ntypedef struct {} {{\n", of_method(), sizes_);
    for (SymId s : symbols_)
      out += fmt::format("  int64_t {}; /* {}: {} */\n", fields_.at(s), c_comment(g_.syms[s].name), range(g_.syms[s]));
    if (symbols_.empty()) out += "  int64_t none; /* all shapes are fixed; pass NULL */\n";
    return out + fmt::format("}} {};\n\n", sizes_);
  }

  std::string of_method() const { return number_ < 0 ? std::string() : fmt::format(" in method '{}'", name_); }

  std::string element_counts() {
    std::string out = fmt::format("/* Elements to allocate{}; of complex tensors two for each number. */\n", of_method());
    for (const auto* args : {&inputs_, &outputs_})
      for (const Arg& a : *args)
        out += fmt::format("static inline int64_t {}(const {}* sizes) {{ (void)sizes; return {}; }}\n", function("_" + a.name + "_elems"),
                           sizes_, c_expr(a.type.elems() * (is_complex(a.type.dtype) ? 2 : 1)));
    return out + "\n";
  }

  /// Which output is whose gradient.
  std::string gradients() {
    std::string cases;
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (!g_.outputs[i].gradient_of.empty()) cases += fmt::format("    case {}: return {};\n", i, c_string(g_.outputs[i].gradient_of));
    if (cases.empty()) return {};
    return fmt::format(
        "/* The parameter or input that output i is the loss's gradient of; NULL: i is no gradient. */\n"
        "static inline const char* {}(int32_t i) {{\n  switch (i) {{\n{}    default: return NULL;\n  }}\n}}\n\n",
        function("_gradient_of"), cases);
  }

  /// "const int64_t dims_in0[] = {..};" and the tensor's initialiser.
  std::string tensor(const Arg& a, const char* side, size_t n) const {
    const std::string dims = fmt::format("dims_{}{}", side, n);
    std::string list;
    for (const Expr& d : a.type.dims) list += (list.empty() ? "" : ", ") + c_expr(d);
    return fmt::format("  int64_t {0}[] = {{{1}}};\n  {2}[{3}] = aotc_host_tensor((void*){4}, {0}, {5}, {6}u, (uint64_t)({7}) * {8}u);\n",
                       dims, list.empty() ? "0" : list, side, n, a.name, a.type.rank(), static_cast<uint32_t>(a.type.dtype),
                       c_expr(a.type.elems()), dtype_bytes(a.type.dtype));
  }

  std::string run() const {
    std::string out = number_ < 0 ? "/* Runs once on host memory: dense row-major tensors. Errors: aotc_api.run. */\n"
                                  : fmt::format(
                                        "/* Runs method '{}' once on host memory: dense row-major tensors. Errors: "
                                        "aotc_api.run_method. */\n",
                                        name_);
    out += fmt::format("static inline aotc_status {}(const aotc_api* api, aotc_context* context, const {}* sizes", run_, sizes_);
    for (const Arg& a : inputs_) out += fmt::format(",\n    const {}* {} /* {} */", element_type(a.type.dtype), a.name, shape(a.type));
    for (const Arg& a : outputs_) out += fmt::format(",\n    {}* {} /* out: {} */", element_type(a.type.dtype), a.name, shape(a.type));
    out += fmt::format(") {{\n  aotc_tensor in[{}], out[{}];\n", std::max<size_t>(inputs_.size(), 1), std::max<size_t>(outputs_.size(), 1));
    for (size_t i = 0; i < inputs_.size(); ++i) out += tensor(inputs_[i], "in", i);
    for (size_t i = 0; i < outputs_.size(); ++i) out += tensor(outputs_[i], "out", i);
    out += "  (void)sizes;\n";
    if (number_ >= 0)
      return out + fmt::format("  return api->run_method(context, {}, in, {}, out, {});\n}}\n\n", number_, inputs_.size(), outputs_.size());
    return out + fmt::format("  return api->run(context, in, {}, out, {});\n}}\n\n", inputs_.size(), outputs_.size());
  }

  /// The shapes of outputs whose sizes a run finds.
  std::string found_sizes() {
    std::string out;
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (!g_.outputs[i].found.empty())
        out += fmt::format(
            "/* The shape that \"{1}\" has after the latest run: [{2}]. Its elements come first in each dimension (aotc_api.output_sizes). "
            "*/\n"
            "static inline aotc_status {0}(const aotc_api* api, aotc_context* context, int64_t sizes[{3}]) {{\n"
            "  return api->output_sizes(context, {4}, sizes);\n}}\n\n",
            function("_" + outputs_[i].name + "_sizes"), c_comment(outputs_[i].declared), c_comment(dims_text(g_.found(g_.outputs[i]))),
            outputs_[i].type.rank(), i);
    return out;
  }

  const Graph& g_;
  const std::string &prefix_, own_, name_;
  const int number_;
  std::set<std::string>& taken_;
  std::string run_, sizes_;
  std::vector<SymId> symbols_;
  std::vector<Arg> inputs_, outputs_;
  std::map<SymId, std::string> fields_;  ///< of the struct of sizes
};

std::string helpers(const std::string& prefix) {
  return fmt::format(
      "static inline int64_t {0}_floordiv(int64_t a, int64_t b) {{ return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }}\n"
      "static inline int64_t {0}_floormod(int64_t a, int64_t b) {{ return a - {0}_floordiv(a, b) * b; }}\n"
      "static inline int64_t {0}_min(int64_t a, int64_t b) {{ return a < b ? a : b; }}\n"
      "static inline int64_t {0}_max(int64_t a, int64_t b) {{ return a > b ? a : b; }}\n\n",
      prefix);
}

std::string opening(const std::string& prefix, bool linked) {
  std::string out = linked
                        ? fmt::format(
                              "/* The model's functions, which are in the program. NULL: they are of an ABI older than min_version. */\n"
                              "const aotc_api* {}_get_api(uint32_t min_version);\n\n",
                              prefix)
                        : fmt::format(
                              "/* Opens the artifact (aotc_library_open). */\nstatic inline aotc_status {0}_library_open(const char* path, "
                              "aotc_library* lib) {{\n  return aotc_library_open(path, AOTC_DEVICE_DEFAULT, lib);\n}}\n\n",
                              prefix);
  out += fmt::format(
      "/* Makes a context (aotc_api.context_create). threads: 1, the calling thread only; n; -1, all that it may run on. flags: 0, or\n"
      " * AOTC_CONTEXT_FLUSH_DENORMALS: the run treats numbers too small for a full exponent as 0, which can make it hundreds of times\n"
      " * faster where inputs, weights or what lies between hold such numbers; other AOTC_CONTEXT_* flags. */\n"
      "static inline aotc_status {0}_context_create(const aotc_api* api, aotc_model* model, int32_t threads, uint32_t flags, "
      "aotc_context** "
      "context) {{\n"
      "  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;\n  options.num_threads = threads;\n  options.flags = flags;\n"
      "  return api->context_create(model, &options, context);\n}}\n\n",
      prefix);
  return out;
}

}  // namespace

std::string header_prefix(const std::string& stem) {
  const std::string name = c_identifier(stem);
  if (name != "aotc" && name.rfind("aotc_", 0) != 0) return name;
  const bool taken = std::any_of(std::begin(kPublic), std::end(kPublic),
                                 [&](const char* header) { return embedded(header).text().find(name + "_") != std::string_view::npos; });
  return taken ? "m_" + name : name;
}

std::string emit_header(const std::vector<HeaderMethod>& methods, const std::string& stem, const std::string& version,
                        const HeaderStyle& style) {
  const bool linked = style.linked;
  const std::string prefix = header_prefix(stem), guard = "AOTC_MODEL_" + prefix + "_H_";
  const bool several = methods.size() > 1;
  std::set<std::string> taken;  // what is the artifact's
  for (const char* name : {"_floordiv", "_floormod", "_min", "_max", linked ? "_get_api" : "_library_open", "_context_create"})
    taken.insert(prefix + name);
  std::vector<MethodText> texts;
  for (size_t m = 0; m < methods.size(); ++m) texts.emplace_back(methods[m], prefix, several ? static_cast<int>(m) : -1, taken);
  std::string out =
      fmt::format("/* {}, made by aotc {}. Generated: do not edit. C11 and C++17; needs only {}the C library{}.\n *\n",
                  linked ? "The model '" + prefix + "' as part of a program" : c_comment(stem) + ".so", version,
                  style.includes ? "the headers of that aotc and " : "", linked ? "" : " (and -ldl where dlopen lives there)");
  for (const MethodText& t : texts) out += t.describe();
  out +=
      " * Elements of float16 and bfloat16 are passed as their 16 bits, of bool as one byte (0 or 1), of complex types as two "
      "floats.\n";
  out += fmt::format(
      " *\n * Use: {0}{3}, model_create of its api, {0}_context_create once a thread, {1} once a request; see the "
      "functions at the\n * end.{2} */\n",
      prefix, texts.front().run_function(), several ? " All methods of a context share its states." : "",
      linked ? "_get_api(AOTC_ABI_VERSION)" : "_library_open");
  if (style.includes) out += fmt::format("#include \"aotc/{}.h\"\n\n", linked ? "aotc" : "loader");
  for (size_t i = 0; !style.includes && i < (linked ? kLinked : std::size(kPublic)); ++i) out += public_header(kPublic[i]) + "\n";
  out += fmt::format("#ifndef {0}\n#define {0}\n", guard);
  if (several || !linked)
    out += fmt::format("#ifndef AOTC_ABI_REVISION\n#error \"include {}.h before headers that an older aotc generated\"\n#endif\n",
                       c_identifier(stem));
  out += "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n" + helpers(prefix) + opening(prefix, linked);
  if (several) {
    std::string list;
    for (size_t m = 0; m < methods.size(); ++m)
      list += fmt::format("{}{}_method_{} = {}", list.empty() ? "" : ", ", prefix, methods[m].name, m);
    out += "/* Numbers of the methods, as aotc_api takes them. */\nenum { " + list + " };\n\n";
  }
  for (MethodText& t : texts) out += t.functions();
  return out + "#ifdef __cplusplus\n}\n#endif\n#endif\n";
}

}  // namespace aotc::emit
