#include "search/json.h"

#include "aotc/detail/library_abi.h"

namespace aotc::search {

using nlohmann::json;

namespace {

/// Reads members; remembers the first fault.
struct Reader {
  const json& j;
  std::string fault;
  void fail(const std::string& name, const char* what) {
    if (fault.empty()) fault = fmt::format("$.{}: {}", name, what);
  }
  const json* member(const char* name) {
    if (!j.is_object() || !j.contains(name)) {
      fail(name, "missing");
      return nullptr;
    }
    return &j.at(name);
  }
  template <class T>
  void integer(const char* name, T& out, int64_t min, int64_t max = INT32_MAX) {
    const json* m = member(name);
    if (!m) return;
    if (!m->is_number_integer() || m->get<int64_t>() < min || m->get<int64_t>() > max) return fail(name, "out of range");
    out = static_cast<T>(m->get<int64_t>());
  }
  void boolean(const char* name, bool& out) {
    const json* m = member(name);
    if (!m) return;
    if (!m->is_boolean()) return fail(name, "must be true or false");
    out = m->get<bool>();
  }
  void dtype(DType& out) {
    const json* m = member("dtype");
    if (!m) return;
    const auto t = m->is_string() ? parse_dtype(m->get_ref<const std::string&>()) : std::nullopt;
    if (!t) return fail("dtype", "is no element type");
    out = *t;
  }
  void triple(const char* name, std::array<int64_t, 3>& out, int64_t min) {
    const json* m = member(name);
    if (!m) return;
    if (!m->is_array() || m->size() != 3) return fail(name, "must be three integers");
    for (size_t i = 0; i < 3; ++i) {
      if (!m->at(i).is_number_integer() || m->at(i).get<int64_t>() < min) return fail(name, "out of range");
      out[i] = m->at(i).get<int64_t>();
    }
  }
  std::string kind() {
    const json* m = member("kind");
    if (m && m->is_string()) return m->get<std::string>();
    fail("kind", "must be a string");
    return "";
  }
};

constexpr int64_t kHuge = int64_t{1} << 40;

struct Write {
  json operator()(const GemmContract& c) const {
    return {{"kind", "gemm"},
            {"dtype", dtype_name(c.dtype)},
            {"batch", c.batch},
            {"m", c.m},
            {"n", c.n},
            {"k", c.k},
            {"segments", c.segments},
            {"weight", c.b_constant},
            {"a_rows", c.a_rows_contiguous},
            {"b_rows", c.b_rows_contiguous}};
  }
  json operator()(const ConvContract& c) const {
    return {{"kind", "conv"},
            {"dtype", dtype_name(c.dtype)},
            {"n", c.n},
            {"c", c.c},
            {"co", c.co},
            {"groups", c.groups},
            {"in", c.in},
            {"out", c.out},
            {"kernel", c.kernel},
            {"stride", c.stride},
            {"pad", c.pad},
            {"dilation", c.dilation},
            {"transposed", c.transposed},
            {"weight", c.w_constant}};
  }
  json operator()(const AttnContract& c) const {
    return {{"kind", "attention"}, {"dtype", dtype_name(c.dtype)}, {"batch", c.batch}, {"heads", c.heads}, {"kv_heads", c.kv_heads},
            {"q_len", c.q_len},    {"kv_len", c.kv_len},           {"e", c.e},         {"ev", c.ev},       {"masked", c.masked},
            {"causal", c.causal}};
  }
  json operator()(std::monostate) const { return {{"kind", "none"}}; }
  json operator()(const plan::GemmChoice& c) const {
    return {{"kind", "gemm"}, {"mr", c.mr}, {"nv", c.nv},         {"mc", c.mc},        {"nc", c.nc},
            {"kc", c.kc},     {"kp", c.kp}, {"pack_a", c.pack_a}, {"pack_b", c.pack_b}};
  }
  json operator()(const plan::ConvChoice& c) const {
    return {{"kind", "conv"}, {"algo", c.algo}, {"mc", c.mc}, {"nc", c.nc}, {"kc", c.kc}, {"kp", c.kp}, {"pack_w", c.pack_w}};
  }
  json operator()(const plan::AttnChoice& c) const { return {{"kind", "attention"}, {"q_block", c.q_block}, {"kv_block", c.kv_block}}; }
};

void check_panels(Reader& r, int kc, int kp) {
  if (kc % 2 || (kc > 0 && kp % kc)) r.fail("kp", "kc must be even and kp a multiple of it");
}

}  // namespace

json to_json(const Contract& c) { return std::visit(Write{}, c); }
json to_json(const plan::Choice& c) { return std::visit(Write{}, c); }

Result<Contract> contract_from(const json& j) {
  Reader r{j, {}};
  const std::string kind = r.kind();
  Contract out;
  if (kind == "gemm") {
    GemmContract c;
    r.dtype(c.dtype);
    r.integer("batch", c.batch, 0, kHuge), r.integer("m", c.m, 0, kHuge), r.integer("n", c.n, 0, kHuge), r.integer("k", c.k, 0, kHuge);
    r.integer("segments", c.segments, 1, 1024);
    r.boolean("weight", c.b_constant), r.boolean("a_rows", c.a_rows_contiguous), r.boolean("b_rows", c.b_rows_contiguous);
    out = c;
  } else if (kind == "conv") {
    ConvContract c;
    r.dtype(c.dtype);
    r.integer("n", c.n, 0, kHuge), r.integer("c", c.c, 0, kHuge), r.integer("co", c.co, 0, kHuge), r.integer("groups", c.groups, 1, kHuge);
    r.triple("in", c.in, 0), r.triple("out", c.out, 0), r.triple("kernel", c.kernel, 1), r.triple("stride", c.stride, 1);
    r.triple("pad", c.pad, 0), r.triple("dilation", c.dilation, 1);
    r.boolean("transposed", c.transposed), r.boolean("weight", c.w_constant);
    out = c;
  } else if (kind == "attention") {
    AttnContract c;
    r.dtype(c.dtype);
    r.integer("batch", c.batch, 0, kHuge), r.integer("heads", c.heads, 1, kHuge), r.integer("kv_heads", c.kv_heads, 1, kHuge);
    r.integer("q_len", c.q_len, 0, kHuge), r.integer("kv_len", c.kv_len, 0, kHuge), r.integer("e", c.e, 0, kHuge),
        r.integer("ev", c.ev, 0, kHuge);
    r.boolean("masked", c.masked), r.boolean("causal", c.causal);
    out = c;
  } else {
    r.fail("kind", "must be gemm, conv or attention");
  }
  if (!r.fault.empty()) return Result<Contract>::fail(r.fault);
  return out;
}

Result<plan::Choice> choice_from(const json& j) {
  Reader r{j, {}};
  const std::string kind = r.kind();
  plan::Choice out;
  if (kind == "gemm") {
    plan::GemmChoice c;
    r.integer("mr", c.mr, 1), r.integer("nv", c.nv, 1), r.integer("mc", c.mc, 1), r.integer("nc", c.nc, 1), r.integer("kc", c.kc, 2);
    r.integer("kp", c.kp, 2), r.boolean("pack_a", c.pack_a), r.boolean("pack_b", c.pack_b);
    if (c.nc % AOTC_PANEL_N) r.fail("nc", "must be a multiple of the panel width");
    check_panels(r, c.kc, c.kp);
    out = c;
  } else if (kind == "conv") {
    plan::ConvChoice c;
    r.integer("algo", c.algo, AOTC_CONV_GEMM, AOTC_CONV_PHASES);
    r.integer("mc", c.mc, 1), r.integer("nc", c.nc, 1), r.integer("kc", c.kc, 2), r.integer("kp", c.kp, 2), r.boolean("pack_w", c.pack_w);
    check_panels(r, c.kc, c.kp);
    out = c;
  } else if (kind == "attention") {
    plan::AttnChoice c;
    r.integer("q_block", c.q_block, 1), r.integer("kv_block", c.kv_block, 1);
    if (c.kv_block % AOTC_PANEL_N) r.fail("kv_block", "must be a multiple of the panel width");
    out = c;
  } else {
    r.fail("kind", "must be gemm, conv or attention");
  }
  if (!r.fault.empty()) return Result<plan::Choice>::fail(r.fault);
  return out;
}

}  // namespace aotc::search
