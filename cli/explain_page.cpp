#include "explain_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "text_file.h"

extern "C" {
extern const char aotc_page_html_begin[], aotc_page_html_end[], aotc_page_css_begin[], aotc_page_css_end[], aotc_page_js_begin[],
    aotc_page_js_end[];
}

namespace aotc::cli {
namespace {

using nlohmann::json;

/// Text of JSON that may stand in a script element: nothing in it ends the element or begins a comment.
std::string script_text(const json& j) {
  std::string out;
  for (const char c : j.dump(-1, ' ', false, json::error_handler_t::replace)) {
    if (c == '<' || c == '>' || c == '&')
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out += c;
  }
  return out;
}

/// Rows of objects as one list a key: null where a row lacks it.
json columns(const json& rows, std::initializer_list<const char*> keys) {
  json out = json::object();
  for (const char* key : keys) {
    json column = json::array();
    for (const json& row : rows) column.push_back(row.value(key, json()));
    out[key] = std::move(column);
  }
  out["count"] = rows.size();
  return out;
}

json page_variant(const json& v) {
  json out = v;
  out["buffers"] = columns(v.at("buffers"), {"name", "place", "dtype", "bytes", "offset", "begin", "end", "in_place_of"});
  out["demands"] = columns(v.value("demands", json::array()), {"operations", "products", "in", "read", "written"});
  return out;
}

json page_part(const PagePart& p) {
  json e = p.explain;
  for (json& v : e["variants"]) v = page_variant(v);
  e["steps"] = columns(e.at("steps"), {"kernel", "label", "ops", "lines"});
  return {{"method", p.method}, {"target", p.target}, {"explain", std::move(e)}, {"about", p.about_it}};
}

/// The data, where lists of a variant that equal those of one before it are that one's number.
json with_lists_once(json data) {
  for (json& part : data["parts"]) {
    json& variants = part["explain"]["variants"];
    for (size_t v = variants.size(); v-- > 1;)
      for (const char* of : {"/args", "/labels", "/kernels", "/buffers", "/demands"}) {
        const json::json_pointer at(of);
        if (!variants[v].contains(at)) continue;
        const auto share = [&](const json::json_pointer& list) {
          if (!variants[v][list].is_array()) return;
          for (size_t w = 0; w < v; ++w)
            if (variants[w].contains(list) && variants[w][list] == variants[v][list]) {
              variants[v][list] = w;
              return;
            }
        };
        if (variants[v][at].is_array()) {
          share(at);
        } else {
          std::vector<std::string> columns;
          for (const auto& [column, values] : variants[v][at].items()) columns.push_back(column);
          for (const std::string& column : columns) share(at / column);
        }
      }
  }
  return data;
}

void shorten(json& list, size_t most, json& others) {
  if (!list.is_array() || list.size() <= most) return;
  others = others.is_number() ? json(others.get<int64_t>() + static_cast<int64_t>(list.size() - most)) : json(list.size() - most);
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(most), list.end());
}

/// What is left out of large pages, a kind at a time, the least first. False where nothing is left to leave out.
bool leave_out(json& data, size_t round) {
  for (json& part : data["parts"]) {
    json& e = part["explain"];
    if (round == 0) {
      for (json& c : e["choices"]) shorten(c["candidates"], 4, c["others"]), shorten(c["refused"], 2, c["others_refused"]);
    } else if (round == 1) {
      const json& bench = data["bench"];
      const json measured = bench.is_object() ? bench.value("variant", json()) : json();
      json& variants = e["variants"];
      const bool any = std::any_of(variants.begin(), variants.end(), [&](const json& v) { return v["name"] == measured; });
      for (size_t v = 0; v < variants.size(); ++v)
        if (any ? variants[v]["name"] != measured : v > 0)
          for (const char* key : {"buffers", "demands", "args"}) variants[v].erase(key);
    } else if (round == 2) {
      for (const char* key : {"choices", "not_fused", "prologues"}) e[key] = json::array();
      for (json& k : e["kernels"]) k["nodes"] = json::array();
    } else if (round == 3) {
      e["steps"]["ops"] = json::array();
    } else {
      return false;
    }
  }
  static constexpr const char* kWhat[] = {"candidates behind the first four", "buffers and steps of all variants but one",
                                          "choices and fusion", "operators of steps"};
  data["left_out"].push_back(kWhat[round]);
  return true;
}

/// The template with texts for its marks; marks in these texts are none.
std::string filled(std::string_view page, std::initializer_list<std::pair<std::string_view, std::string_view>> texts) {
  std::string out;
  for (size_t at = 0; at < page.size();) {
    const auto mark = std::find_if(texts.begin(), texts.end(), [&](const auto& t) { return page.substr(at, t.first.size()) == t.first; });
    if (mark == texts.end()) {
      out += page[at++];
    } else {
      out += mark->second;
      at += mark->first.size();
    }
  }
  return out;
}

}  // namespace

std::string explain_page(const std::string& title, const json& about, const std::vector<PagePart>& parts, const json& bench) {
  json data = {{"title", title}, {"about", about}, {"parts", json::array()}, {"bench", bench}, {"left_out", json::array()}};
  for (const PagePart& p : parts) data["parts"].push_back(page_part(p));
  const std::string_view css(aotc_page_css_begin, static_cast<size_t>(aotc_page_css_end - aotc_page_css_begin));
  const std::string_view js(aotc_page_js_begin, static_cast<size_t>(aotc_page_js_end - aotc_page_js_begin));
  const std::string_view page(aotc_page_html_begin, static_cast<size_t>(aotc_page_html_end - aotc_page_html_begin));
  std::string text = script_text(with_lists_once(data));
  for (size_t round = 0; text.size() + css.size() + js.size() + page.size() > kMostPageBytes && leave_out(data, round); ++round)
    text = script_text(with_lists_once(data));
  return filled(page, {{"@TITLE@", xml_escaped(title)}, {"@CSS@", css}, {"@JS@", js}, {"@DATA@", text}});
}

}  // namespace aotc::cli
