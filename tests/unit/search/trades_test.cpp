// Accuracy for time: which of the faster and less accurate choices are taken, and that the database repeats it.
#include "search/trades.h"

#include <unistd.h>
#include <catch2/catch.hpp>

#include <cmath>
#include <cstdio>
#include <filesystem>

namespace aotc::search {
namespace {

/// 3x3 convolutions of 64 and of 128 channels, the second one called three times.
loop::Module two_convolutions() {
  loop::Module module;
  for (int64_t c : {64, 128}) {
    loop::ConvKernel v;
    v.name = fmt::format("conv{}", c);
    v.x_dims = {1, c, 56, 56}, v.out_dims = {1, c, 56, 56};
    v.kernel = {3, 3}, v.stride = v.dilation = {1, 1}, v.padding = v.padding_hi = {1, 1};
    v.groups = 1, v.w_constant = true, v.channels_last = true;
    for (const char* name : {"x", "w"}) v.params.push({name, loop::ParamRole::input, DType::f32, {}});
    v.x = loop::ParamId{0}, v.w = loop::ParamId{1};
    const auto id = module.kernels.push(v);
    for (int64_t calls = c / 64 * 2 - 1; calls > 0; --calls) module.calls.push_back({id, {}, "call", {}});
  }
  return module;
}

int tile_of(const forms::Choice& c) {
  const auto fields = c.form->fields();
  for (size_t i = 0; i < fields.size(); ++i)
    if (c.form->name() == "conv_winograd" && fields[i].name == "kp") return c.values[i];
  return 0;
}

/// Products of 128 rows with weights of 768 columns and of 3072.
loop::Module two_products() {
  loop::Module module;
  for (int64_t n : {768, 3072}) {
    loop::MatmulKernel mm;
    mm.name = fmt::format("mm{}", n);
    mm.m = 128, mm.n = n, mm.k = 768;
    mm.a.row_stride = 768, mm.a.col_stride = 1, mm.b.row_stride = n, mm.b.col_stride = 1;
    mm.b_constant = true;
    for (const char* name : {"a", "b"}) mm.params.push({name, loop::ParamRole::input, DType::f32, {}});
    mm.a.param = loop::ParamId{0}, mm.b.param = loop::ParamId{1};
    mm.segments.push_back({0, n, {}});
    module.calls.push_back({module.kernels.push(mm), {}, "call", {}});
  }
  return module;
}

/// Whether the choice is one that only trades take.
bool traded(const forms::Choice& c) { return tile_of(c) == 4 || c.form->name() == "gemm_strassen"; }

/// Blocks of k of Strassen's products.
int block_of(const forms::Choice& c) {
  const auto fields = c.form->fields();
  for (size_t i = 0; i < fields.size(); ++i)
    if (c.form->name() == "gemm_strassen" && fields[i].name == "kc") return c.values[i];
  return 0;
}

/// F(4x4) and Strassen's products take `four_ns` of 100, those in long blocks 2 less; errors are 1e-7 and `adds` for each contract that
/// goes by them, in squares.
struct Scripted final : Measurer {
  double four_ns = 60, whole_ns = 700, whole_spread = 0;
  double longer = 1.5;                 ///< the error of long blocks by that of others
  std::map<std::string, double> adds;  ///< by the contract's first channels: "c64"
  double bound = 1e-6;
  std::string why;  ///< not empty: nobody judges
  size_t judged = 0, most_judged = 1000;
  int samples = 3;
  std::vector<Timing> measure(const Subject&, const std::vector<forms::Choice>& choices, double) override {
    std::vector<Timing> out;
    for (const forms::Choice& c : choices) out.push_back({traded(c) ? four_ns - (block_of(c) > 256 ? 2 : 0) : 100, 0.01, ""});
    return out;
  }
  std::vector<Timing> measure_whole(const SymTable&, const std::vector<Tuned>&, double) override {
    return {{1000, whole_spread, ""}, {whole_ns, 0, ""}};
  }
  Result<double> references(const SymTable&, double) override { return 0.0; }
  Result<std::vector<WholeError>> errors(const SymTable&, const std::vector<Tuned>& sets, double) override {
    if (!why.empty()) return Result<std::vector<WholeError>>::fail(why);
    std::vector<WholeError> out;
    for (const Tuned& t : sets) {
      if (judged >= most_judged && !out.empty()) return out;
      double squares = 1e-14;
      for (const auto& [contract, d] : t)
        for (const auto& [name, add] : adds)
          if (traded(d.choice) && contract.find(" " + name + " ") != std::string::npos)
            squares += add * add * (block_of(d.choice) > 256 ? longer * longer : 1);
      out.push_back({std::sqrt(squares), bound, samples});
      ++judged;
    }
    return out;
  }
};

struct Build {
  loop::Module module = two_convolutions();
  SymTable syms;
  TuneOptions options;
  Build(Measurer* m) {
    options.goal = {machine_of(Isa::avx512, 1), {}};
    options.measurer = m;
    options.budget_s = 1;
    options.program = "0123456789abcdef";
  }
  /// The tiles of the two, as "2 4".
  std::string tiles(const TuneResult& r) const {
    std::string text;
    for (const loop::Kernel& k : module.kernels.raw())
      text += fmt::format("{}{}", text.empty() ? "" : " ", tile_of(chooser(r.tuned)({k, syms, options.goal.machine, {}}).choice));
    return text;
  }
  TuneResult run(TuningDb& db) const { return tune(module, {syms}, options, db); }
};

}  // namespace

TEST_CASE("what is faster and less accurate is taken as far as the whole stays within the bound", "[search]") {
  Scripted m;
  const Build b(&m);
  const auto tiles = [&](double of_64, double of_128) {
    m.adds = {{"c64", of_64}, {"c128", of_128}};
    TuningDb db;
    const TuneResult r = b.run(db);
    CHECK(r.trades.tried.size() == 2);
    CHECK(r.trades.error <= 0.9 * r.trades.bound);
    for (const Trade& t : r.trades.tried) {
      CHECK(t.accurate_ns == 100);
      CHECK(t.ns == 60);
      if (b.tiles(r) != "4 4") CHECK(t.error == Approx(t.contract.find("c64 ") != std::string::npos ? of_64 : of_128));
      CHECK(!t.why.empty());
    }
    // The database gives the same without a measurement.
    Build again = b;
    again.options.measurer = nullptr;
    const TuneResult known = again.run(db);
    CHECK(again.tiles(known) == b.tiles(r));
    CHECK(known.trades.tried.size() == 2);
    CHECK(known.trades.error == r.trades.error);
    return b.tiles(r);
  };
  CHECK(tiles(2e-7, 2e-7) == "4 4");
  CHECK(tiles(7e-7, 7e-7) == "2 4");  // three calls gain more for the same error
  CHECK(tiles(2e-7, 8.8e-7) == "4 2");
  CHECK(tiles(2e-7, 2e-6) == "4 2");
  CHECK(tiles(2e-6, 2e-6) == "2 2");
}

TEST_CASE("products by seven multiplications for eight are traded alike, each only where the whole stays within the bound") {
  Scripted m;
  Build b(&m);
  b.module = two_products();
  const auto taken = [&](double of_768, double of_3072) {
    m.adds = {{"n768", of_768}, {"n3072", of_3072}};
    TuningDb db;
    const TuneResult r = b.run(db);
    CHECK(r.trades.tried.size() == 2);
    std::string text;
    for (const loop::Kernel& k : b.module.kernels.raw())
      text += traded(chooser(r.tuned)({k, b.syms, b.options.goal.machine, {}}).choice) ? "+" : "-";
    return text;
  };
  CHECK(taken(2e-7, 2e-7) == "++");
  CHECK(taken(2e-7, 1e-3) == "+-");  // a row that spoils its partner's
  CHECK(taken(1e-3, 2e-7) == "-+");
  CHECK(taken(1e-3, 1e-3) == "--");
}

TEST_CASE("where the fastest choices are too inaccurate together, milder ones are taken") {
  Scripted m;
  Build b(&m);
  b.module = two_products();
  const auto blocks = [&](double add) {
    m.adds = {{"n768", add}, {"n3072", add}};
    TuningDb db;
    const TuneResult r = b.run(db);
    std::string text;
    for (const loop::Kernel& k : b.module.kernels.raw())
      text += fmt::format("{} ", block_of(chooser(r.tuned)({k, b.syms, b.options.goal.machine, {}}).choice));
    Build again = b;
    again.options.measurer = nullptr;
    const TuneResult known = again.run(db);
    for (const loop::Kernel& k : b.module.kernels.raw()) {
      const forms::Site site{k, b.syms, b.options.goal.machine, {}};
      CHECK(chooser(known.tuned)(site).choice == chooser(r.tuned)(site).choice);
    }
    return text;
  };
  CHECK(blocks(4e-7) == "384 384 ");
  CHECK(blocks(5e-7) == "256 256 ");
  CHECK(blocks(7e-7) == "0 256 ");
  CHECK(blocks(1e-6) == "0 0 ");
}

TEST_CASE("accuracy is not traded for nothing", "[search]") {
  Scripted m;
  Build b(&m);
  TuningDb db;
  m.four_ns = 99;
  CHECK(b.tiles(b.run(db)) == "2 2");
  CHECK(m.judged == 0);
  m.four_ns = 60, m.whole_ns = 995, db = {};
  const TuneResult whole = b.run(db);
  CHECK(b.tiles(whole) == "2 2");
  CHECK(whole.trades.tried.at(0).why == "the whole is not faster with it");
  m.whole_spread = 0.3, db = {};
  CHECK(b.tiles(b.run(db)) == "4 4");  // the whole cannot tell: each won by itself
  m.whole_ns = 1200, db = {};
  CHECK(b.tiles(b.run(db)) == "2 2");
  m.whole_spread = 0, m.whole_ns = 700, m.why = "no LibTorch", db = {};
  const TuneResult nobody = b.run(db);
  CHECK(b.tiles(nobody) == "2 2");
  CHECK(nobody.trades.tried.at(0).why == "not judged: no LibTorch");
  m.why.clear();
  CHECK(b.tiles(b.run(db)) == "4 4");  // and is judged when somebody can
  b.options.program.clear();
  TuningDb other;
  CHECK(b.tiles(b.run(other)) == "2 2");
  b.options.program = "another", b.options.measurer = nullptr;
  CHECK(b.tiles(b.run(db)) == "2 2");  // a judgement is of one program
}

TEST_CASE("what was judged when the time ends is taken, and a build with more goes on", "[search]") {
  Scripted m;
  Build b(&m);
  m.adds = {{"c64", 7e-7}, {"c128", 7e-7}};
  m.most_judged = 3;  // none, all, and the one that gains most
  TuningDb db;
  const TuneResult some = b.run(db);
  CHECK(b.tiles(some) == "2 4");
  CHECK(!some.trades.complete);
  const auto why = [](const TuneResult& r, const std::string& channels) {
    for (const Trade& t : r.trades.tried)
      if (t.contract.find(channels) != std::string::npos) return t.why;
    return std::string("not tried");
  };
  CHECK(why(some, " c64 ") == "not judged: the time ran out");
  Build again = b;
  again.options.measurer = nullptr;
  CHECK(again.tiles(again.run(db)) == "2 4");
  m.judged = 0, m.most_judged = 1000;
  const TuneResult all = b.run(db);
  CHECK(b.tiles(all) == "2 4");
  CHECK(all.trades.complete);
  CHECK(why(all, " c64 ") == "faster, but the error would come too near the bound");
  const size_t judged = m.judged;
  CHECK(b.tiles(b.run(db)) == "2 4");
  CHECK(m.judged == judged);

  m.most_judged = 0;  // of none and all, none alone
  TuningDb none;
  CHECK(why(b.run(none), " c64 ") == "not judged: the time ran out");
}

TEST_CASE("fewer samples leave more of the bound to other inputs", "[search]") {
  Scripted m;
  const Build b(&m);
  m.adds = {{"c64", 1e-7}, {"c128", 7.5e-7}};
  for (const auto& [samples, tiles] : std::map<int, std::string>{{1, "4 2"}, {2, "4 4"}, {3, "4 4"}}) {
    m.samples = samples;
    TuningDb db;
    CHECK(b.tiles(b.run(db)) == tiles);
  }
}

TEST_CASE("the tuning database keeps trades and gives the same bytes", "[search]") {
  const std::string path = (std::filesystem::temp_directory_path() / fmt::format("aotc-trades{}.json", getpid())).string();
  Scripted m;
  const Build b(&m);
  TuningDb db;
  const TuneResult r = b.run(db);
  CHECK(b.tiles(r) == "4 4");
  db.save(path);
  TuningDb read = TuningDb::load(path), merged;
  merged.merge(read);
  Build again = b;
  again.options.measurer = nullptr;
  CHECK(again.tiles(again.run(merged)) == "4 4");
  std::remove(path.c_str());
}

}  // namespace aotc::search
