#include "import/metadata.h"

#include <algorithm>

#include "base/json_depth.h"

namespace aotc::import {
namespace {

std::string_view strip(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\r')) s.remove_suffix(1);
  return s;
}

struct Frame {
  std::string_view file, line, function, code;
  bool own() const {
    return file.find("/site-packages/torch/") != std::string_view::npos || file.substr(0, 6) == "torch/" || file.substr(0, 1) == "<";
  }
};

/// 'File "x.py", line 3, in f'
bool parse_frame(std::string_view text, Frame& f) {
  text = strip(text);
  if (text.substr(0, 6) != "File \"") return false;
  text.remove_prefix(6);
  const size_t quote = text.find("\", line ");
  if (quote == std::string_view::npos) return false;
  f.file = text.substr(0, quote);
  text.remove_prefix(quote + 8);
  const size_t comma = text.find(", in ");
  f.line = text.substr(0, comma);
  f.function = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 5);
  f.code = {};
  return true;
}

/// A text of the archive within its JSON; discarded where it is none. Throws Diagnostic where it nests deeper than any tree of arguments.
Json parsed(const std::string& text, const Loc& where) {
  if (nests_too_deep(text)) throw Diagnostic(where, fmt::format("the tree of arguments nests deeper than {}", kMostJsonDepth));
  return Json::parse(text, nullptr, false);
}

/// Leaves of one node of the spec; false when it has a form that is not known.
bool add_paths(const Json& node, const std::string& at, bool call, int depth, const Loc& where, std::vector<std::string>& out) {
  if (depth > 64 || !node.is_object() || !node.contains("type") || !node.contains("children_spec")) return false;
  if (node["type"].is_null()) {
    out.push_back(at);
    return true;
  }
  const Json& children = node["children_spec"];
  if (!children.is_array()) return false;
  std::vector<std::string> keys;
  if (node.contains("context") && node["context"].is_string()) {
    const Json context = parsed(node["context"].get_ref<const std::string&>(), where);
    // A dict has its keys; a dataclass the names of its fields and of those that were None; a defaultdict tells its factory, too.
    const Json* names = &context;
    if (context.is_array() && context.size() == 2 && context[0].is_array() && context[1].is_array() && context[0].size() == children.size())
      names = &context[0];
    if (context.is_object() && context.contains("dict_context")) names = &context["dict_context"];
    if (names->is_array() && names->size() == children.size())
      for (const Json& k : *names)
        if (k.is_primitive()) keys.push_back(k.is_string() ? fmt::format("['{}']", k.get<std::string>()) : fmt::format("[{}]", k.dump()));
  }
  const std::string type = node["type"].is_string() ? node["type"].get<std::string>() : "";
  if (type == "builtins.tuple" || type == "builtins.list" || keys.size() != children.size()) keys.clear();
  for (size_t i = 0; i < children.size(); ++i) {
    std::string path = at + (keys.empty() ? fmt::format("[{}]", i) : keys[i]);
    if (call && depth == 0) path = i == 0 ? "args" : "kwargs";
    if (!add_paths(children[i], path, call, depth + 1, where, out)) return false;
  }
  return true;
}

/// The innermost frame that is not PyTorch's own, else the innermost; without a file where there is none.
Frame user_frame(const std::string& stack_trace) {
  Frame best, frame;
  bool found = false, in_frame = false;
  for (size_t i = 0; i < stack_trace.size();) {
    const size_t end = std::min(stack_trace.find('\n', i), stack_trace.size());
    const std::string_view line(stack_trace.data() + i, end - i);
    i = end + 1;
    if (parse_frame(line, frame)) {
      in_frame = !frame.own() || !found || best.own();
      if (in_frame) {
        best = frame;
        found = true;
      }
    } else if (in_frame && best.code.empty()) {
      best.code = strip(line);
    }
  }
  return best;
}

}  // namespace

std::string source_place(const std::string& stack_trace) {
  const Frame best = user_frame(stack_trace);
  return best.file.empty() ? std::string() : fmt::format("{}:{}", best.file, best.line);
}

std::string source_line(const std::string& stack_trace) {
  const Frame best = user_frame(stack_trace);
  if (best.file.empty()) return {};
  const std::string_view base = best.file.substr(best.file.rfind('/') == std::string_view::npos ? 0 : best.file.rfind('/') + 1);
  std::string out = fmt::format("{}:{}", base, best.line);
  if (!best.function.empty()) out += fmt::format(" in {}", best.function);
  if (!best.code.empty()) out += fmt::format(": {}", best.code);
  return out;
}

std::string module_path(const std::string& nn_module_stack) {
  const size_t last = nn_module_stack.rfind(';');
  const std::string_view entry = std::string_view(nn_module_stack).substr(last == std::string::npos ? 0 : last + 1);
  const size_t a = entry.find(','), b = entry.rfind(',');
  if (a == std::string_view::npos || b <= a) return {};
  const std::string_view path = entry.substr(a + 1, b - a - 1);
  return path.substr(0, 6) == "_empty" ? std::string() : std::string(path);
}

std::vector<std::string> tree_paths(const std::string& spec, bool call, const Loc& where) {
  const Json j = parsed(spec, where);
  std::vector<std::string> out;
  if (!j.is_array() || j.size() != 2 || !add_paths(j[1], "", call, 0, where, out)) return {};
  return out;
}

}  // namespace aotc::import
