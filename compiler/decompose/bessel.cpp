// Bessel functions of either kind, modified ones, Airy's function, in float64: Chebyshev series near zero, and of what multiplies their
// waves or powers of e far from it.
#include <cmath>
#include <limits>

#include "decompose/families.h"
#include "decompose/series.h"

namespace aotc::decompose {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

// Up to 8, in x * x / 32 - 1: J0(x), J1(x) / x, Y0(x) - 2 / pi log(x) J0(x), (Y1(x) - 2 / pi (log(x) J1(x) - 1 / x)) / x.
constexpr double kJ0[] = {0.31545594294978024,    -0.0087234423528522213,  0.26517861320333681,    -0.37009499387264978,
                          0.15806710233209726,    -0.034893769411408885,   0.0048191800694676045,  -0.00046062616620627505,
                          3.2460328821005081e-5,  -1.7619469077621507e-6,  7.6081635924187819e-8,  -2.6792535305576729e-9,
                          7.8486963144794644e-11, -1.9438346867370166e-12, 4.1253205956343739e-14, -7.5885081254475463e-16,
                          1.2218515873961411e-17};
constexpr double kJ1[] = {0.16208969265131623,    -0.14897514506765211,    0.1609992623572097,     -0.082680491766817907,
                          0.022213639654966035,   -0.003646940600769276,   0.00040503377283548218, -3.2555548668572585e-5,
                          1.9858774049915167e-6,  -9.5219847567504362e-8,  3.6871337590971482e-9,  -1.1780266226958848e-10,
                          3.1601545803480033e-12, -7.2217552396517734e-14, 1.4232144003513942e-15, -2.4441972916190464e-17};
constexpr double kY0[] = {-0.066292226406569883,   -0.27447430552974527,   0.17903431407718266,     0.26156734625504664,
                          -0.17730201278114358,    0.047196689595763387,   -0.0072879624795520792,  0.00075311359325777423,
                          -5.632079141056987e-5,   3.206532537654801e-6,   -1.4407233274018699e-7,  5.2487947873305161e-9,
                          -1.5837552541812015e-10, 4.0263308183061208e-12, -8.7473412033107696e-14, 1.6434898714919469e-15,
                          -2.6977881152566836e-17};
constexpr double kY1[] = {0.0050760264714835635,   -0.01608717304766875,  -0.095912045360830742,   0.084451972596523458,
                          -0.028328123944594366,   0.005289897544167113,  -0.0006414551451326356,  5.5059828733387438e-5,
                          -3.5380800186893499e-6,  1.7707804556154403e-7, -7.1105500498992798e-9,  2.3443379059115164e-10,
                          -6.4651518414115942e-12, 1.51429151205002e-13,  -3.0511859694473253e-15, 5.3466803857286701e-17};
// Beyond, in 128 / (x * x) - 1: J = sqrt(2 / (pi x)) (P cos w - Q / x sin w), Y the same with sin w and -cos w, w = x - (2 n + 1) pi / 4.
constexpr double kP0[] = {1.9989206986950373,     -0.00053652204681321174, 3.0751847875194746e-6,  -5.1705945376060977e-8,
                          1.6306464635151383e-9,  -7.86409137723707e-11,   5.1682623873491925e-12, -4.3045788699253912e-13,
                          4.3265957431549406e-14, -5.0690340959352361e-15, 6.7480722157338737e-16, -1.0011513723467786e-16};
constexpr double kQ0[] = {-0.24889367368539215,    0.00054708159540893197, -5.9315987288485178e-6,  1.4377965798375193e-7,
                          -5.817532749493056e-9,   3.3760975237349908e-10, -2.5653979367973078e-11, 2.404916100281365e-12,
                          -2.6690625482579416e-13, 3.4041800321963689e-14, -4.87994410531204e-15,   7.7297031762426054e-16,
                          -1.3348852171502517e-16, 2.4865952389390515e-17};
constexpr double kP1[] = {2.0018060817200274,      0.00089898983308594086, -3.9872843004889085e-6,  6.1776339606442985e-8,
                          -1.8718907491063066e-9,  8.8168986595823389e-11, -5.7048636403956447e-12, 4.6991955152305424e-13,
                          -4.6842237839904892e-14, 5.4526748960447172e-15, -7.2211808422740179e-16, 1.0667689114335412e-16};
constexpr double kQ1[] = {0.7484445931125652,     -0.00077021788393256635, 7.3108922063643633e-6,  -1.6767825107266738e-7,
                          6.5833546621204433e-9,  -3.7490909505415562e-10, 2.8121750359748865e-11, -2.6114525394623199e-12,
                          2.8774212663332234e-13, -3.6490019160618378e-14, 5.2066263662267072e-15, -8.2153180254585943e-16,
                          1.4141084390211833e-16, -2.6267615898385292e-17};
// Up to 2, in x * x / 2 - 1: K0(x) + log(x / 2) I0(x), x (K1(x) - log(x / 2) I1(x)); beyond, in 4 / x - 1, times e^x sqrt(x).
constexpr double kK0[] = {-0.53532739323390277,   0.34428989992462849,   0.035979936515361502,  0.0012646154114469259,
                          2.2862121031194518e-5,  2.5347910790261495e-7, 1.9045163772202089e-9, 1.0349695257633625e-11,
                          4.2598161427910826e-14, 1.3744654358807509e-16};
constexpr double kK1[] = {1.5253002273389478,      -0.35315596077654488,   -0.12261118082265715,   -0.0069757238596398644,
                          -0.00017302889575130521, -2.4334061415659682e-6, -2.2133876307347259e-8, -1.4114883926335278e-10,
                          -6.666901694199329e-13,  -2.4274498505193659e-15};
constexpr double kKFar0[] = {2.4403030820659555,     -0.031448101311964501,   0.0015698838857300534,  -0.00012849549581627803,
                             1.3949813718876499e-5,  -1.8317555227191195e-6,  2.7668136394450151e-7,  -4.6604898976879477e-8,
                             8.5740340174142261e-9,  -1.6975345093890615e-9,  3.5773972814003284e-10, -7.957489244477397e-11,
                             1.8559491149549266e-11, -4.5145978833745192e-12, 1.1403405882073442e-12, -2.9800969231481784e-13,
                             8.0328907750683744e-14, -2.2275133267462964e-14, 6.340076476276646e-15,  -1.8485933779209072e-15,
                             5.5120559994043334e-16, -1.6782311257549006e-16, 5.2103917776435541e-17};
constexpr double kKFar1[] = {2.7206261904844427,      0.10392373657681724,    -0.0028578168596227794,  0.00019521551847135163,
                             -1.936197974166083e-5,   2.4064849478372171e-6,  -3.5019606030878125e-7,  5.7410841254500493e-8,
                             -1.0345762465678097e-8,  2.0150497551970346e-9,  -4.1903547593419256e-10, 9.2183151876053141e-11,
                             -2.129967838427791e-11,  5.1396396734823435e-12, -1.2891739609498229e-12, 3.3484196660522431e-13,
                             -8.9767051820101461e-14, 2.4771544242195987e-14, -7.0198370892147689e-15, 2.0387031662398609e-15,
                             -6.0570472706430178e-16, 1.8380935752430454e-16, -5.6894628491936484e-17};
// Airy's Ai from -4 to 2, in (x + 1) / 3; right of 2 what is left of e^-z / (2 sqrt(pi) x^(1/4)), z = 2/3 x^(3/2), in 2 z(2) / z - 1; left
// of -4 the factors of its waves, in 2 (z(4) / z)^2 - 1.
constexpr double kAiry[] = {0.12157051370159453,     0.18996030881729123,     -0.25092438703233601,   -0.095120140135030542,
                            0.20236324198370077,     -0.064187283063052498,   -0.026814703186039964,  0.024051904281273856,
                            -0.0041325916497489498,  -0.0020196817905494226,  0.0011250768750654559,  -0.00011697538709676606,
                            -7.1254992530606821e-5,  2.8167833107042442e-5,   -1.7594742389691562e-6, -1.4587201524168717e-6,
                            4.3887479584360327e-7,   -1.4627095866197507e-8,  -1.9495992841846797e-8, 4.660552774163884e-9,
                            -5.1062451179042338e-11, -1.8343326708789197e-10, 3.5857642041278925e-11, 2.6582413274795727e-13,
                            -1.2805447574198059e-12, 2.0885896604502407e-13,  4.8741837202287107e-15, -6.895080927885035e-15,
                            9.5196501457001707e-16,  3.5978991422145035e-17,  -2.9502705833721255e-17};
constexpr double kAiryRight[] = {1.9688106098343104,     -0.014792784850104199,   0.00073271774654267143, -6.1259542341782499e-5,
                                 6.8347669755726903e-6,  -9.2372297354039816e-7,  1.4362253404380519e-7,  -2.489319422322096e-8,
                                 4.7097934400543278e-9,  -9.5838637081127321e-10, 2.0745855483677592e-10, -4.737267332192277e-11,
                                 1.1336099808224235e-11, -2.8277067823193508e-12, 7.3207120951255976e-13, -1.9599793911089722e-13,
                                 5.4101162570683922e-14, -1.5356466802223836e-14, 4.4723403933000248e-15, -1.3338094674756682e-15,
                                 4.066582046456231e-16,  -1.265583225645289e-16,  4.0151263340158711e-17};
constexpr double kAiryP[] = {1.9987417781485557,     -0.00062168365843741161, 7.1811937743686449e-6,  -2.3162698135017581e-7,
                             1.3216283888528756e-8,  -1.0938736172758126e-9,  1.1794620737908534e-10, -1.5518841909929856e-11,
                             2.386927411492466e-12,  -4.16552889201035e-13,   8.0716781107414668e-14, -1.7087573211105669e-14,
                             3.9029451485408147e-15, -9.5239767849070646e-16, 2.4632810885752603e-16, -6.7090774634648578e-17};
constexpr double kAiryQ[] = {0.13764341112616002,    -0.0006089151840832694,  1.3174151014089972e-5,  -6.0140719129082979e-7,
                             4.3275373422984993e-8,  -4.2477317329547255e-9,  5.2322853768344937e-10, -7.6722909751150239e-11,
                             1.2923809452698711e-11, -2.43852975710829e-12,   5.0590472378720842e-13, -1.1378513792256328e-13,
                             2.7441377308322257e-14, -7.0344821126325795e-15, 1.9032114367198916e-15, -5.4030405414093074e-16,
                             1.6016711026585233e-16, -4.9375274403528067e-17, 1.5773435797781152e-17, -5.206129581838458e-18};

struct Waves {
  T p, q, sine, cosine;  ///< of w
};
template <int order>
Waves waves(const T& x) {
  const T at = 128.0 / (x * x) - 1.0;
  const T sine = unary(Op::sin, x), cosine = unary(Op::cos, x);
  const T sum = (sine + cosine) * M_SQRT1_2, difference = (sine - cosine) * M_SQRT1_2;
  if (order == 0) return {chebyshev(at, kP0), chebyshev(at, kQ0) / x, difference, sum};
  return {chebyshev(at, kP1), chebyshev(at, kQ1) / x, -sum, difference};
}
T amplitude(const T& x) { return sqrt((2 / M_PI) / x); }

template <int order>
T first_kind_near(const T& x) {
  const T at = x * x * (1.0 / 32) - 1.0;
  return order == 0 ? chebyshev(at, kJ0) : chebyshev(at, kJ1) * x;
}

template <int order>
T first_kind(const T& x) {
  const T a = abs(x);
  const Waves w = waves<order>(a);
  const T far = amplitude(a) * (w.p * w.cosine - w.q * w.sine);
  return where(a <= 8.0, first_kind_near<order>(x), order == 0 ? far : where(x < 0.0, -far, far));
}

template <int order>
T second_kind(const T& x) {
  const T at = x * x * (1.0 / 32) - 1.0, logarithm = log(x) * first_kind_near<order>(x) * (2 / M_PI);
  const T near = order == 0 ? logarithm + chebyshev(at, kY0) : logarithm - (2 / M_PI) / x + chebyshev(at, kY1) * x;
  const Waves w = waves<order>(x);
  const T y = where(x <= 8.0, near, amplitude(x) * (w.p * w.sine + w.q * w.cosine));
  return where(x == 0.0, -kInfinity, where(x < 0.0, kNan, y));
}

template <int order>
T modified_near(const T& x) {  // I of |x| up to 2
  const T q = x * x * 0.25;
  T term = order == 0 ? x.like(1.0) : x * 0.5, sum = term;
  for (int k = 1; k <= 16; ++k) {
    term = term * q / static_cast<double>(k * (k + order));
    sum = sum + term;
  }
  return sum;
}

template <int order, bool scaled>
T modified_second_kind(const T& x) {
  const T at = x * x * 0.5 - 1.0, logarithm = log(x * 0.5) * modified_near<order>(x);
  const T near = order == 0 ? chebyshev(at, kK0) - logarithm : chebyshev(at, kK1) / x + logarithm;
  const T beyond = 4.0 / x - 1.0, far = (order == 0 ? chebyshev(beyond, kKFar0) : chebyshev(beyond, kKFar1)) * rsqrt(x);
  const T y = where(x <= 2.0, scaled ? near * exp(x) : near, scaled ? far : far * exp(-x));
  return where(x == 0.0, kInfinity, where(x < 0.0, kNan, y));
}

T spherical(const T& x) {
  const T q = x * x;
  T near = x.like(1.0);
  for (int k = 7; k > 0; --k) near = 1.0 - q / static_cast<double>(2 * k * (2 * k + 1)) * near;
  return where(unary(Op::isinf, x), 0.0, where(abs(x) < 0.5, near, unary(Op::sin, x) / x));
}

T airy(const T& x) {
  const T a = abs(x), z = a * sqrt(a) * (2.0 / 3), root = sqrt(sqrt(a));
  const double z2 = 2.0 / 3 * std::pow(2.0, 1.5), z4 = 2.0 / 3 * 8.0;
  const T right = chebyshev(2 * z2 / z - 1.0, kAiryRight) * exp(-z) * (0.5 / std::sqrt(M_PI)) / root;
  const T q = z4 / z, at = q * q * 2.0 - 1.0;
  const T sine = unary(Op::sin, z), cosine = unary(Op::cos, z);
  const T left =
      ((sine + cosine) * chebyshev(at, kAiryP) - (cosine - sine) * chebyshev(at, kAiryQ) / z) * (M_SQRT1_2 / std::sqrt(M_PI)) / root;
  const T near = chebyshev((x + 1.0) * (1.0 / 3), kAiry);
  return where(unary(Op::isinf, x), kNan, where(x > 2.0, right, where(x < -4.0, left, near)));
}

/// The standard normal distribution's quantiles: by erf's inverse in the middle, in the tails by steps of Newton's on the logarithm.
T normal_quantile(const T& p) {
  const T left = p < 0.5, tail = where(left, p, 1.0 - p);
  const T z = sqrt(log(tail) * -2.0);
  T x = z - log(z) / z;
  for (int i = 0; i < 5; ++i) {
    const T ratio = scaled_erfc(x * M_SQRT1_2) * (std::sqrt(M_PI) / M_SQRT2);  // of the tail to the density
    x = x + ratio * (log(ratio) - x * x * 0.5 - std::log(std::sqrt(2 * M_PI)) - log(tail));
  }
  const T middle = unary(Op::erfinv, p * 2.0 - 1.0) * M_SQRT2;
  const T y = where(tail > 0.12, middle, where(left, -x, x));
  return where(p == 0.0, -kInfinity, where(p == 1.0, kInfinity, where((p < 0.0) | (p > 1.0), kNan, y)));
}

template <T (*function)(const T&)>
void in_f64(Rule& r) {
  const T x = tensor(r, r.has("self") ? "self" : "x");
  const DType out = r.meta_result().dtype;
  r.set(function(x.to(out).to(DType::f64)).to(out));
}

constexpr RuleRow kRows[] = {
    {"aten.special_bessel_j0.default", in_f64<first_kind<0>>},
    {"aten.special_bessel_j1.default", in_f64<first_kind<1>>},
    {"aten.special_bessel_y0.default", in_f64<second_kind<0>>},
    {"aten.special_bessel_y1.default", in_f64<second_kind<1>>},
    {"aten.special_modified_bessel_k0.default", in_f64<modified_second_kind<0, false>>},
    {"aten.special_modified_bessel_k1.default", in_f64<modified_second_kind<1, false>>},
    {"aten.special_scaled_modified_bessel_k0.default", in_f64<modified_second_kind<0, true>>},
    {"aten.special_scaled_modified_bessel_k1.default", in_f64<modified_second_kind<1, true>>},
    {"aten.special_spherical_bessel_j0.default", in_f64<spherical>},
    {"aten.special_airy_ai.default", in_f64<airy>},
    {"aten.special_ndtri.default", in_f64<normal_quantile>},
};
}  // namespace

RuleTable bessel_rules() { return kRows; }

}  // namespace aotc::decompose
