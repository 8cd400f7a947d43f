#include "emit/cuda/epilogue.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "emit/cuda/code.h"
#include "emit/cuda/launch.h"
#include "loop/cost.h"

namespace aotc::emit::cuda {

using loop::Inst;
using loop::InstId;
using loop::InstKind;
using loop::LoopKernel;
using loop::MatmulKernel;
using loop::ParamId;
using loop::ParamRole;

namespace {

constexpr int kRun = 8;  // elements of run()

class Emitter {
 public:
  Emitter(const LoopKernel& epilogue, const std::vector<SymId>& symbols) : e_(epilogue), symbols_(symbols), names_(epilogue, symbols) {
    for (const Inst& i : e_.insts)
      if (i.kind == InstKind::store) written_.insert(i.param);
  }

  std::string point() const {
    std::string out = fmt::format("  __device__ void operator()(const float acc, {}const i64 row, const i64 column) const {{\n",
                                  sums() > 1 ? "const float twin, " : "") +
                      begin();
    out += fmt::format("    const i64 {} = column;\n", last());
    AccessRules r = rules("acc", "twin");
    for (const loop::Block& b : e_.blocks) out += code_of(b.insts, names_, r, 4);
    return out + "  }\n";
  }

  std::string aligned() const {
    std::set<ParamId> params;
    for (uint32_t i = 0; i < e_.insts.size(); ++i)
      if (wide(static_cast<InstId>(i))) params.insert(e_.insts[static_cast<InstId>(i)].param);
    std::string all;
    for (ParamId p : params) all += fmt::format("{}aligned16(a.ptr[{}])", all.empty() ? "" : " && ", idx(p));
    return fmt::format("  __device__ bool aligned() const {{ return {}; }}\n", all.empty() ? "false" : all);
  }

  /// Loads, load(), finish(), finish_one_by_one().
  std::string run() const {
    std::string members, loads, before, after, insts;
    int registers = 0;
    AccessRules r = rules("acc[e]", "");
    r.wide = [this](InstId id) { return held(id); };
    r.op = [this](InstId id) { return shorter(id); };
    for (const loop::Block& b : e_.blocks) {
      for (InstId id : b.insts) {
        if (held(id).empty()) continue;
        const Inst& i = e_.insts[id];
        const int bytes = static_cast<int>(dtype_bytes(i.dtype));
        const std::string element(c_type(i.dtype)), type = wide(id) ? fmt::format("Run8<{}>", element) : element;
        if (i.kind == InstKind::load) {
          const char* kind = wide(id) ? "run" : "one";
          members += fmt::format(" {}<{}> w{};", wide(id) ? "RunWords" : "OneWord", element, idx(id));
          loads += fmt::format("    load_{}(l.w{}, {}, on);\n", kind, idx(id), at(i));
          before += fmt::format("    const {} w{} = {}_of(l.w{});\n", type, idx(id), kind, idx(id));
          registers += std::max(1, (wide(id) ? kRun : 1) * bytes / 4);
        } else {
          before += fmt::format("    {} w{};\n", type, idx(id));
          after += fmt::format("    *reinterpret_cast<{}*>{} = w{};\n", type, at(i), idx(id));
        }
      }
      insts += code_of(b.insts, names_, r, 6);
    }
    std::string out = fmt::format("  static constexpr int load_registers = {};\n  struct Loads {{{} }};\n", registers, members);
    const std::string from = fmt::format("    i64 {} = column;\n", last());
    out += "  __device__ __forceinline__ void load(Loads& l, const i64 row, const i64 column, const bool on) const {\n" + begin() + from +
           loads + "  }\n";
    out += fmt::format(
        "  __device__ __forceinline__ void finish(const float (&acc)[{}], const Loads& l, const i64 row, const i64 column) const {{\n",
        kRun);
    out += begin() + from + before;
    out += fmt::format("#pragma unroll\n    for (int e = 0; e < {}; ++e, ++{}) {{\n{}    }}\n", kRun, last(), insts);
    out += fmt::format("    {} = column;\n{}  }}\n", last(), after);
    out += fmt::format(
        "  __device__ __forceinline__ void finish_one_by_one(const float (&acc)[{0}], const i64 row, const i64 column, const i64 n) const "
        "{{\n"
        "    float rest[{0}];\n#pragma unroll\n    for (int e = 0; e < {0}; ++e) rest[e] = acc[e];\n"
        "#pragma unroll 1\n    for (int e = 0; e < {0} && column + e < n; ++e) (*this)(rest[e], row, column + e);\n  }}\n",
        kRun);
    return out;
  }

  /// in_place and what belongs to it, where the epilogue can be computed as the instruction leaves its sums.
  std::string in_place() const {
    const std::optional<InPlace> parts = parts_in_place();
    if (!parts) return "  static constexpr bool in_place = false, in_place_down = false;\n";
    std::string columns, rows, load_columns, load_column, load_rows;
    int column_registers = 0, row_registers = 0;
    for (InstId id : parts->columns) {
      const Inst& i = e_.insts[id];
      const int words = static_cast<int>(dtype_bytes(i.dtype)) * 2 / 4;
      column_registers += words;
      columns += fmt::format(" u32 w{}[{}];", idx(id), words);
      load_columns += words == 1 ? fmt::format("    load_word(l.w{0}[0], {1}, on);\n", idx(id), at(i))
                                 : fmt::format("    load_2_words(l.w{0}[0], l.w{0}[1], {1}, on);\n", idx(id), at(i));
      load_column += fmt::format("    load_{}(l.w{}[0], {}, on);\n", words == 1 ? "half" : "word", idx(id), at(i));
    }
    for (InstId id : parts->rows) {
      const Inst& i = e_.insts[id];
      row_registers += std::max(1, static_cast<int>(dtype_bytes(i.dtype)) / 4);
      rows += fmt::format(" OneWord<{}> w{};", c_type(i.dtype), idx(id));
      load_rows += fmt::format("    load_one(l.w{}, {}, on);\n", idx(id), at(i));
    }
    const bool down = parts->rows.empty() && sums() == 1;
    const std::string head = "  __device__ __forceinline__ ", from = fmt::format("    i64 {} = column;\n", last());
    std::string out = fmt::format(
        "  static constexpr bool in_place = true, has_tile = {}, in_place_down = {};\n  static constexpr int column_registers = {}, "
        "row_registers = {};\n  struct Columns {{{} }};\n  struct Rows {{{} }};\n",
        !parts->tile.empty(), down, column_registers, row_registers, columns, rows);
    const auto load = [&](const char* name, const char* to, const std::string& text) {
      out += fmt::format("{}void {}({} l, const i64 row, const i64 column, const bool on) const {{\n{}{}{}  }}\n", head, name, to, begin(),
                         from, text);
    };
    load("load_columns", "Columns&", load_columns);
    load("load_column", "Columns&", load_column);
    load("load_rows", "Rows&", load_rows);
    out += head + "void load_tile(u32 (&w)[4], const i64 row, const i64 column, const bool on) const {\n" + begin() + from;
    if (!parts->tile.empty()) out += fmt::format("    load_4_words(w[0], w[1], w[2], w[3], {}, on);\n", at(e_.insts[parts->tile.front()]));
    out += "  }\n" + pair(*parts, false);
    if (down) out += pair(*parts, true);
    out += head + "void store_tile(const u32 (&w)[4], const i64 row, const i64 column) const {\n" + begin() + from;
    return out + fmt::format("    store_words<false>({}, w);\n  }}\n", at(e_.insts[parts->store]));
  }

  struct InPlace {
    std::vector<InstId> columns, rows, tile;  ///< loads: of neighbours that all rows share; one of a row; neighbours of a row
    InstId store = kNone<InstId>;
  };
  /// Loads of at most one operand of 16 bits that lies as the output does, others that all rows or all columns of a tile share; one store
  /// of 16 bits; few operations, since their code is repeated for every sum that a thread holds.
  std::optional<InPlace> parts_in_place() const {
    constexpr int kMostCost = 40;
    InPlace parts;
    int cost = 0;
    const SymId row = e_.outer.back().sym;
    for (const loop::Block& b : e_.blocks)
      for (InstId id : b.insts) {
        const Inst& i = e_.insts[id];
        if (i.kind == InstKind::check || i.kind == InstKind::reduce || i.kind == InstKind::scan) return std::nullopt;
        if (i.kind == InstKind::op) cost += shorter(id).empty() ? loop::op_cost(i.op, i.dtype) : 8;
        if ((i.kind != InstKind::load && i.kind != InstKind::store) || !loop::takes_argument(e_.params[i.param].role)) continue;
        if (of_row(id)) {
          parts.rows.push_back(id);
          continue;
        }
        if (!wide(id)) return std::nullopt;
        const auto symbols = e_.syms.simplify(i.index).symbols();
        if (i.kind == InstKind::store) {
          if (!is_half(i.dtype) || parts.store != kNone<InstId>) return std::nullopt;
          parts.store = id;
        } else if (std::find(symbols.begin(), symbols.end(), row) == symbols.end()) {
          if (dtype_bytes(i.dtype) != 2 && dtype_bytes(i.dtype) != 4) return std::nullopt;
          parts.columns.push_back(id);
        } else {
          if (!is_half(i.dtype) || !parts.tile.empty()) return std::nullopt;
          parts.tile.push_back(id);
        }
      }
    if (parts.store == kNone<InstId> || cost > kMostCost) return std::nullopt;
    return parts;
  }
  int sums() const {
    return static_cast<int>(
        std::count_if(e_.params.begin(), e_.params.end(), [](const loop::Param& p) { return p.role == ParamRole::acc; }));
  }

 private:
  /// pair(), of neighbours of a row, or pair_down(), of neighbours of a column, which has no rows.
  std::string pair(const InPlace& parts, bool down) const {
    std::string before;
    for (InstId id : parts.columns) {
      std::string words = fmt::format("columns.w{}", idx(id));
      if (down && dtype_bytes(e_.insts[id].dtype) == 2) {
        before += fmt::format("    const u32 both{0} = {1}[0] * 0x10001u;\n", idx(id), words);
        words = fmt::format("both{}", idx(id));
      } else if (down) {
        before += fmt::format("    const u32 both{0}[2] = {{{1}[0], {1}[0]}};\n", idx(id), words);
        words = fmt::format("both{}", idx(id));
      }
      before += pair_of(id, words);
    }
    for (InstId id : parts.rows)
      before += fmt::format("    const {} w{} = one_of(rows.w{});\n", c_type(e_.insts[id].dtype), idx(id), idx(id));
    for (InstId id : parts.tile) before += pair_of(id, "tile");
    const Inst& store = e_.insts[parts.store];
    AccessRules r = down ? rules("acc[e]", "") : rules("acc[0][e]", "acc[1][e]");
    r.wide = [&](InstId id) { return id == parts.store ? std::string("out[e]") : of_row(id) ? fmt::format("w{}", idx(id)) : held(id); };
    std::set<InstId> together;  // roundings to 16 bits that were made for both neighbours
    r.op = [&](InstId id) {
      const bool known = e_.insts[id].op == Op::cast && together.count(e_.insts[id].args.at(0));
      return known ? fmt::format("rounded{}[e]", idx(e_.insts[id].args[0])) : shorter(id);
    };
    const auto body = [&](InstId last_of) {
      std::string text;
      for (const loop::Block& b : e_.blocks) {
        std::vector<InstId> some;
        std::copy_if(b.insts.begin(), b.insts.end(), std::back_inserter(some), [&](InstId id) { return id <= last_of; });
        text += code_of(some, names_, r, 6);
      }
      return text;
    };
    const std::string moving = down ? names_.symbol(e_.outer.back().sym) : last();
    const auto loop = [&](const std::string& text) {
      return fmt::format("#pragma unroll\n    for (int e = 0; e < 2; ++e, ++{0}) {{\n{1}    }}\n    {0} = {2};\n", moving, text,
                         down ? "row" : "column");
    };
    std::string roundings;
    for (InstId id : rounded_between()) {
      const std::string name = fmt::format("rounded{}", idx(id));
      const InstId wide = e_.insts[id].args.at(0);
      roundings += fmt::format("    float {}[2];\n", name) + loop(body(wide) + fmt::format("      {}[e] = {};\n", name, names_.inst(wide)));
      roundings += fmt::format("    round_pair<{}>({});\n", c_type(e_.insts[id].dtype), name);
      together.insert(id);
    }
    std::string insts = body(parts.store);
    const PairEnd end = end_of_pair(store);
    insts += end.insts;
    return fmt::format(
        "  __device__ __forceinline__ u32 pair{}(const float (&acc){}[2], const Columns& columns,{} const u32 tile, const i64 row, const "
        "i64 column) const {{\n{}    i64 {} = column;\n{}    {} out[2];\n{}{}{}    return {};\n  }}\n",
        down ? "_down" : "", down ? "" : fmt::format("[{}]", sums()), down ? "" : " const Rows& rows,", begin(down), last(), before,
        c_type(store.dtype), end.declared, roundings, loop(insts), end.result);
  }
  /// Where a load or store begins.
  std::string at(const Inst& i) const { return fmt::format("({} + ({}))", names_.param(i.param), names_.expr(i.index)); }
  /// Two neighbours, from the words that hold them.
  std::string pair_of(InstId id, const std::string& words) const {
    const std::string_view type = c_type(e_.insts[id].dtype);
    return fmt::format("    struct Pair{0} {{ {1} v[2]; }} w{0};\n    memcpy(&w{0}, &{2}, sizeof w{0});\n", idx(id), type, words);
  }

  bool wide(InstId id) const {
    const Inst& i = e_.insts[id];
    if ((i.kind != InstKind::load && i.kind != InstKind::store) || i.mask != kNone<InstId>) return false;
    return loop::takes_argument(e_.params[i.param].role) && (is_wide(e_, id, e_.inner.at(0).sym, kRun) || is_apart(i));
  }
  /// Runs from multiples of kRun on are neighbours in memory, though the places of runs are quotients and remainders of columns.
  bool is_apart(const Inst& i) const {
    const SymId column = e_.inner[0].sym;
    SymTable syms = e_.syms;
    const auto loop = [&](const char* name, const Expr& extent) {
      SymInfo info;
      info.name = name;
      info.kind = SymKind::loop;
      info.extent = extent;
      return syms.add(info);
    };
    const SymId run = loop("run", ceildiv(e_.inner[0].extent, kRun)), at = loop("at", kRun);
    const Expr index = syms.simplify(i.index.substitute({{column, Expr::symbol(run) * kRun + Expr::symbol(at)}}));
    for (SymId s : index.symbols())
      if (syms[s].kind == SymKind::value) return false;
    const auto step = index.linear_coefficient(at);
    return step && step->is(1) && syms.proves_divisible(index.substitute({{at, Expr(0)}}), kRun);
  }
  /// A load that is one for all neighbours of a row and depends on nothing that the epilogue computes.
  bool of_row(InstId id) const {
    const Inst& i = e_.insts[id];
    if (i.kind != InstKind::load || i.mask != kNone<InstId> || !loop::takes_argument(e_.params[i.param].role)) return false;
    for (SymId s : e_.syms.simplify(i.index).symbols())
      if (s == e_.inner.at(0).sym || e_.syms[s].kind == SymKind::value) return false;
    return true;
  }
  /// The element of what load() read or finish() will write; empty: the instruction goes to memory itself.
  std::string held(InstId id) const {
    return wide(id) ? fmt::format("w{}.v[e]", idx(id)) : of_row(id) ? fmt::format("w{}", idx(id)) : std::string();
  }

  /// The constant that an operation is with, where the other operand is `other`.
  std::optional<double> with_constant(InstId id, Op op, InstId other) const {
    const Inst& i = e_.insts[id];
    if (i.kind != InstKind::op || i.op != op || (i.args[0] == other) == (i.args[1] == other)) return std::nullopt;
    const Inst& c = e_.insts[i.args[0] == other ? i.args[1] : i.args[0]];
    return c.kind == InstKind::constant ? std::optional(c.imm_f) : std::nullopt;
  }
  /// Roundings to 16 bits of what is computed on in float32.
  std::vector<InstId> rounded_between() const {
    std::vector<InstId> ids;
    for (const loop::Block& b : e_.blocks)
      for (InstId id : b.insts) {
        const Inst& i = e_.insts[id];
        if (i.kind != InstKind::op || i.op != Op::cast || i.dtype != DType::f32 || !is_half(e_.insts[i.args.at(0)].dtype)) continue;
        const InstId half = i.args[0];
        if (is_cast(half, DType::f32) && std::find(ids.begin(), ids.end(), half) == ids.end()) ids.push_back(half);
      }
    return ids;
  }
  bool is_cast(InstId id, DType from) const {
    const Inst& i = e_.insts[id];
    return i.kind == InstKind::op && i.op == Op::cast && e_.insts[i.args.at(0)].dtype == from;
  }
  /// How pair() ends: what stands before its loop over two neighbours, at the end of the loop's body, and its result, their word.
  struct PairEnd {
    std::string declared, insts, result;
  };
  PairEnd end_of_pair(const Inst& store) const {
    const std::string_view type = c_type(store.dtype);
    const InstId rounded = store.args.at(0);
    if (!is_cast(rounded, DType::f32)) return {"", "", "out[0].bits | static_cast<u32>(out[1].bits) << 16"};
    PairEnd end;
    auto keep = [&](const std::string& name, InstId value, std::string_view of) {
      end.declared += fmt::format("    {} {}[2];\n", of, name);
      end.insts += fmt::format("      {}[e] = {};\n", name, names_.inst(value));
    };
    const InstId wide = e_.insts[rounded].args.at(0);
    const Inst& sum = e_.insts[wide];
    const bool of_halves =
        sum.kind == InstKind::op && sum.op == Op::add && is_cast(sum.args[0], store.dtype) && is_cast(sum.args[1], store.dtype);
    if (!of_halves) {
      keep("wide_out", wide, "float");
      end.result = fmt::format("{}_pair(wide_out[0], wide_out[1])", type);
      return end;
    }
    // Two numbers of the type, whose sum is rounded to it: one instruction for both neighbours.
    std::string words[2];
    for (const int side : {0, 1}) {
      const InstId half = e_.insts[sum.args[side]].args.at(0);
      const std::string name = fmt::format("half{}", side);
      const bool from_f32 = is_cast(half, DType::f32);
      keep(name, from_f32 ? e_.insts[half].args.at(0) : half, from_f32 ? "float" : type);
      words[side] = from_f32 ? fmt::format("{}_pair({}[0], {}[1])", type, name, name)
                             : fmt::format("{}[0].bits | static_cast<u32>({}[1].bits) << 16", name, name);
    }
    end.result = fmt::format("{}_add_pair({}, {})", type, words[0], words[1]);
    return end;
  }
  bool all_stores_round() const {
    return std::all_of(e_.insts.begin(), e_.insts.end(), [](const Inst& i) { return i.kind != InstKind::store || is_half(i.dtype); });
  }

  /// x where an op is x / 2 * (1 + erf(x / sqrt(2))).
  std::optional<InstId> gelu_of(InstId id) const {
    const Inst& product = e_.insts[id];
    if (product.kind != InstKind::op || product.op != Op::mul || product.dtype != DType::f32) return std::nullopt;
    for (const int side : {0, 1}) {
      const InstId half = product.args[side], sum = product.args[1 - side];
      for (InstId erf : e_.insts[sum].args) {
        const Inst& e = e_.insts[erf];
        if (e.kind != InstKind::op || e.op != Op::erf || with_constant(sum, Op::add, erf) != 1) continue;
        for (InstId x : e_.insts[e.args[0]].args) {
          const auto by = with_constant(e.args[0], Op::mul, x);
          if (by && std::abs(*by - M_SQRT1_2) < 1e-6 && with_constant(half, Op::mul, x) == 0.5) return x;
        }
      }
    }
    return std::nullopt;
  }

  /// Another form of an op whose result is rounded to 16 bits in the end, where that cannot be told from the op itself.
  std::string shorter(InstId id) const {
    if (!all_stores_round()) return {};
    if (const auto x = gelu_of(id)) return fmt::format("gelu_to_round({})", names_.inst(*x));
    const Inst& i = e_.insts[id];
    if (i.kind != InstKind::op || i.dtype != DType::f32) return {};
    if (i.op == Op::sigmoid) return fmt::format("sigmoid_to_round({})", names_.inst(i.args[0]));
    if (i.op != Op::erf) return {};
    for (const Inst& user : e_.insts) {
      const auto at = std::find(user.args.begin(), user.args.end(), id);
      if (at == user.args.end()) continue;
      if (user.kind != InstKind::op || user.op != Op::add || user.args[0] == user.args[1]) return {};
      const Inst& other = e_.insts[user.args[0] == id ? user.args[1] : user.args[0]];
      if (other.kind != InstKind::constant || std::abs(other.imm_f) < 0.5 || std::abs(other.imm_f) > 2) return {};
    }
    return fmt::format("erf_to_add({})", names_.inst(i.args[0]));
  }

  std::string last() const { return names_.symbol(e_.inner.at(0).sym); }

  /// Sizes, the outer variables and the pointers. down: the row changes.
  std::string begin(bool down = false) const {
    std::string out = size_names(e_.syms, symbols_, 4);
    const size_t n_batch = e_.outer.size() - 1;
    for (size_t v = 0; v < e_.outer.size(); ++v)
      out += fmt::format("    {}i64 {} = {};\n", down && v == n_batch ? "" : "const ", names_.symbol(e_.outer[v].sym),
                         v == n_batch       ? "row"
                         : v + 1 == n_batch ? "b1"
                                            : "b0");
    for (uint32_t p = 0; p < e_.params.size(); ++p) {
      const ParamId id = static_cast<ParamId>(p);
      if (!loop::takes_argument(e_.params[id].role)) continue;
      out += fmt::format("    {0}{1}* const p{2} = static_cast<{0}{1}*>(a.ptr[{2}]);  // {3}\n", written_.count(id) ? "" : "const ",
                         c_type(e_.params[id].dtype), p, c_comment(e_.params[id].name));
    }
    return out;
  }

  /// second: of the twin.
  AccessRules rules(const std::string& first, const std::string& second) const {
    AccessRules r;
    r.place = [this, first, second](ParamId p, const Expr&) {
      if (e_.params[p].role != ParamRole::acc) return std::string();
      return idx(p) > 0 && e_.params[static_cast<ParamId>(idx(p) - 1)].role == ParamRole::acc ? second : first;
    };
    r.reduce = [](InstId) -> std::string { throw InternalError("an epilogue holds a reduction"); };
    return r;
  }

  const LoopKernel& e_;
  const std::vector<SymId>& symbols_;
  Names names_;
  std::set<ParamId> written_;
};

}  // namespace

bool finished_in_place(const LoopKernel& epilogue) { return Emitter(epilogue, {}).parts_in_place().has_value(); }

std::string size_names(const SymTable& syms, const std::vector<SymId>& symbols, int indent) {
  std::string out;
  for (size_t s = 0; s < symbols.size(); ++s)
    out += fmt::format("{}const i64 s{} = a.size[{}];  // {}\n", std::string(static_cast<size_t>(indent), ' '), idx(symbols[s]), s,
                       c_comment(syms[symbols[s]].name));
  return out;
}

std::string epilogue_struct(const LoopKernel& epilogue, const std::string& name, const std::string& args, const std::vector<SymId>& symbols,
                            bool runs) {
  const Emitter e(epilogue, symbols);
  std::string out = fmt::format("struct {} {{\n  const {}& a;\n  const i64 b0, b1;\n", name, args) + e.point();
  if (runs)
    out += fmt::format("  static constexpr int sums = {};\n", e.sums()) + e.aligned() + (e.sums() > 1 ? "" : e.run()) + e.in_place();
  return out + "};\n";
}

std::string epilogue_struct(const MatmulKernel& k, size_t number, const std::string& symbol, const std::vector<SymId>& symbols, bool runs) {
  return epilogue_struct(k.segments[number].epilogue, fmt::format("{}_epilogue{}", symbol, number), symbol + "_args", symbols, runs);
}

}  // namespace aotc::emit::cuda
