#include "emit/cpu/custom_call.h"

#include <cmath>

#include "emit/c_string.h"
#include "graph/custom_op.h"

namespace aotc::emit {
namespace {

using Kind = CustomNumber::Kind;

std::string integer_text(int64_t v) { return v == INT64_MIN ? "(-9223372036854775807LL - 1)" : fmt::format("{}LL", v); }
std::string real_text(double v) {
  if (std::isnan(v)) return "(0.0 / 0.0)";
  if (std::isinf(v)) return v < 0 ? "(-1.0 / 0.0)" : "(1.0 / 0.0)";
  const std::string s = fmt::format("{:.17g}", v);
  return s.find_first_of(".e") == std::string::npos ? s + ".0" : s;
}
template <class V, class F>
std::string list(const V& values, F&& text) {
  std::string s;
  for (const auto& v : values) s += (s.empty() ? "" : ", ") + text(v);
  return s;
}

}  // namespace

std::string custom_arguments(const loop::LibraryKernel& k, const CustomCallWords& w) {
  const Ints& ranks = std::get<Ints>(k.attrs.at(Attr::ranks));
  const Ints& places = std::get<Ints>(k.attrs.at(Attr::places));
  const std::vector<CustomNumber> numbers = parse_custom_numbers(std::get<std::string>(k.attrs.at(Attr::numbers)));
  AOTC_CHECK(ranks.size() == k.params.size(), "{}: {} ranks for {} parameters", k.name, ranks.size(), k.params.size());
  std::vector<std::string> param_rows;
  size_t at = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto dtype = static_cast<uint32_t>(k.params[static_cast<loop::ParamId>(i)].dtype);
    param_rows.push_back(fmt::format("{{{}[{}], {} + {}, {}, {}u}}", w.pointers, i, w.sizes, at, ranks[i], dtype));
    at += static_cast<size_t>(ranks[i]);
  }
  std::vector<std::string> rows;
  for (const int64_t p : places) rows.push_back(p < 0 ? "{0, 0, 0, 0u}" : param_rows.at(static_cast<size_t>(p)));
  const size_t n_in = rows.size();
  size_t outputs = 0;
  for (const loop::Param& p : k.params) outputs += p.role == loop::ParamRole::output;
  rows.insert(rows.end(), param_rows.end() - static_cast<std::ptrdiff_t>(outputs), param_rows.end());
  std::string text = fmt::format("  const aotc_op_tensor tensors[] = {{{}}};\n", list(rows, [](const std::string& r) { return r; }));
  text += fmt::format("  aotc_op_attr attr[{}];\n", std::max<size_t>(numbers.size(), 1));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const CustomNumber& n = numbers[i];
    const auto set = [&](const char* kind, size_t count, const char* member, const std::string& value) {
      text += fmt::format("  attr[{0}].kind = {1}, attr[{0}].count = {2}, attr[{0}].value.{3} = {4};\n", i, kind, count, member, value);
    };
    const std::string place = fmt::format("{}[{}]", w.sizes, at + static_cast<size_t>(std::max(n.first_size, 0)));
    switch (n.kind) {
      case Kind::none: set("AOTC_OP_NONE", 0, "i", "0"); break;
      case Kind::integer: set("AOTC_OP_INT", 1, "i", n.first_size >= 0 ? place : integer_text(n.integers.at(0))); break;
      case Kind::real: set("AOTC_OP_REAL", 1, "f", real_text(n.reals.at(0))); break;
      case Kind::text: set("AOTC_OP_TEXT", n.text.size(), "text", c_string(n.text)); break;
      case Kind::integers:
        if (n.first_size < 0)
          text +=
              fmt::format("  {} {} list{}[] = {{{}}};\n", w.table, w.int64, i, n.integers.empty() ? "0" : list(n.integers, integer_text));
        set("AOTC_OP_INTS", n.first_size < 0 ? n.integers.size() : static_cast<size_t>(n.sizes), "ints",
            n.first_size < 0 ? fmt::format("list{}", i) : "&" + place);
        break;
      case Kind::reals:
        text += fmt::format("  {} double list{}[] = {{{}}};\n", w.table, i, n.reals.empty() ? "0" : list(n.reals, real_text));
        set("AOTC_OP_REALS", n.reals.size(), "reals", fmt::format("list{}", i));
        break;
    }
  }
  text += "  aotc_op_args args_of_op;\n";
  text += fmt::format("  args_of_op.in = tensors, args_of_op.out = tensors + {}, args_of_op.attr = attr;\n", n_in);
  text += fmt::format("  args_of_op.n_in = {}, args_of_op.n_out = {}, args_of_op.n_attr = {};\n", n_in, outputs, numbers.size());
  return text;
}

namespace cpu {

std::string emit_custom_call(const loop::LibraryKernel& k, Isa isa, const std::string& symbol) {
  std::string function = std::get<std::string>(k.attrs.at(Attr::function));
  if (function.ends_with('_')) function += isa_name(isa);
  std::string text = fmt::format("extern \"C\" void {}(const aotc_op_args*, int64_t, int64_t);\n", function);
  text += fmt::format("extern \"C\" void {}(const aotc_kargs* args, int64_t begin, int64_t end) {{\n", symbol);
  text += custom_arguments(k, {"args->ptr", "args->size", "static const"});
  text += "  args_of_op.thread = args->thread, args_of_op.threads = args->threads;\n";
  text += "  args_of_op.scratch = args->scratch, args_of_op.fault = args->fault;\n";
  return text + fmt::format("  {}(&args_of_op, begin, end);\n}}\n", function);
}

std::string custom_unit_source(const std::vector<std::string>& functions) {
  std::string s = "#include \"aotc/detail/kernel_abi.h\"\n#include \"aotc/own_kernel.h\"\n";
  for (const std::string& f : functions) s += "\n" + f;
  return s;
}

}  // namespace cpu
}  // namespace aotc::emit
