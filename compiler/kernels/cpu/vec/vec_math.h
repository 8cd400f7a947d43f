#pragma once
// Transcendental functions of f32 vectors as polynomials, about 1-2 ulp over the whole range, NaN and infinities as in C. Range reductions
// are those of Cody and Waite ("Software Manual for the Elementary Functions", 1980); polynomials of exp and tanh are those of Moshier's
// Cephes library (single precision), log's a minimax one, sin, cos and (of 8 lanes) erf minimax polynomials published by N. Juffa.
#include "vec_ops.h"

namespace {

/// One instruction, under -ffp-contract=fast by the compiler's own choice.
AOTC_I f32v fma(f32v a, f32v b, f32v c) {
#if !defined(AOTC_SAME_BITS)
  return a * b + c;
#elif defined(__clang__)
  return __builtin_elementwise_fma(a, b, c);
#elif AOTC_L == 16
  return __builtin_ia32_vfmaddps512_mask(a, b, c, static_cast<uint16_t>(-1), 4);
#else
  return __builtin_ia32_vfmaddps256(a, b, c);
#endif
}
AOTC_I f32v fma(f32v a, f32v b, float c) { return fma(a, b, kf(c)); }

/// x * 2^n for integral n within [-300, 300]; rounds once where the result is subnormal.
AOTC_I f32v scale2(f32v x, f32v n) {
#if AOTC_L == 16 && !defined(__clang__)
  return __builtin_ia32_scalefps512_mask(x, n, x, static_cast<uint16_t>(-1), 4);
#else
  const i32v i = to_i32(n), h = i >> 1;
  const f32v a = as_f32((h + 127) << 23), b = as_f32((i - h + 127) << 23);
  return x * a * b;
#endif
}
AOTC_I f32v clamp_keep_nan(f32v x, float lo, float hi) { return least_or_b(kf(hi), greatest_or_b(kf(lo), x)); }
/// x * 2^n for x in [0.5, 2] and integral n from -152 on; `tiny`: lanes whose result is below the least normal number. Processors take some
/// 300 cycles for a product that underflows (softmax over masked numbers, Gaussians far out): such a lane's is made 2^64 times as large,
/// the sum with a number whose last bit is that of the least one rounds it, and the sum's bits above that number's are the result's.
AOTC_I f32v scale2_to_tiny(f32v x, f32v n, i32v tiny) {
  if (__builtin_expect(!any(tiny), 1)) return scale2(x, n);
  constexpr int32_t kLarge = (127 - 62) << 23;
  const f32v y = scale2(x, n + (tiny ? kf(64.0f) : kf(0.0f)));
  return tiny ? as_f32(bits(y + as_f32(ki(kLarge))) - kLarge) : y;
}

// Polynomials go by pairs of coefficients: few steps wait for each other, and processors look ahead some 60 instructions that wait.
/// exp(r) - 1 - r over z = r*r for |r| <= ln(2)/2.
AOTC_I f32v exp_tail(f32v r, f32v z) {
  const f32v a = fma(r, kf(1.6666665459e-1f), 5.0000001201e-1f), b = fma(r, kf(8.3334519073e-3f), 4.1665795894e-2f),
             c = fma(r, kf(1.9875691500e-4f), 1.3981999507e-3f);
  return fma(fma(c, z, b), z, a);
}
/// exp(r) - 1.
AOTC_I f32v exp_less_1(f32v r) {
  const f32v z = r * r;
  return fma(exp_tail(r, z), z, r);
}
/// exp(x) = m * 2^n, for |x| <= 106.
struct ExpParts {
  f32v m, n;
};
AOTC_I ExpParts exp_parts(f32v x) {
  const f32v n = rnd_even(x * 1.44269504088896341f);
  f32v r = fma(n, kf(-0.693359375f), x);
  r = fma(n, kf(2.12194440e-4f), r);
  return {exp_less_1(r) + 1.0f, n};
}
AOTC_I f32v v_exp(f32v x) {
  const ExpParts e = exp_parts(clamp_keep_nan(x, -106.0f, 90.0f));
  return scale2_to_tiny(e.m, e.n, x < kf(-87.33655f));  // a little below log(2^-126)
}
AOTC_I f32v v_exp2(f32v x) {
  const f32v c = clamp_keep_nan(x, -152.0f, 130.0f);
  const f32v n = rnd_even(c), f = c - n;
  const f32v hi = f * 0.693359375f, r = fma(f, kf(-2.12194440e-4f), hi);
  return scale2_to_tiny(exp_less_1(r) + 1.0f, n, x < kf(-126.0f));
}
AOTC_I f32v v_expm1(f32v x) {
  const f32v c = clamp_keep_nan(x, -30.0f, 88.8f);
  const f32v n = rnd_even(c * 1.44269504088896341f);
  f32v r = fma(n, kf(-0.693359375f), c);
  r = fma(n, kf(2.12194440e-4f), r);
  const f32v e = exp_less_1(r);
  const f32v s = scale2(kf(0.5f), n), y = fma(e, s, s - 0.5f);  // half of the result: 2^n may overflow alone
  return sel(x == 0.0f, x, y + y);
}

/// log(1 + f) = f + tail for f = m - 1, m in [3/4, 3/2).
AOTC_I f32v log_tail(f32v f) {
  const f32v z = f * f, a = fma(f, kf(-2.5000163913e-1f), 3.3333340287e-1f), b = fma(f, kf(-1.6655318439e-1f), 1.9999581575e-1f),
             c = fma(f, kf(-1.2728206813e-1f), 1.4276702702e-1f), d = fma(f, kf(-9.1091021895e-2f), 1.1697753519e-1f);
  const f32v p = fma(fma(fma(fma(z, kf(3.7626542151e-2f), d), z, c), z, b), z, a);
  return fma(z, p * f, z * -0.5f);
}
constexpr float kLn2High = 0.693145751953125f, kLn2Low = 1.42860677e-6f;  // of so few digits that e * kLn2High is exact
#if AOTC_WIDE_MATH
/// x = m * 2^e with m in [3/4, 3/2), for finite x > 0; m is NaN below 0.
AOTC_I f32v split(f32v x, f32v* e) {
  constexpr uint16_t kAll = static_cast<uint16_t>(-1);
  constexpr int kAround1 = 3, kNaNBelow0 = 2 << 2, kRounding = 4;
  const f32v m = __builtin_ia32_getmantps512_mask(x, kAround1 | kNaNBelow0, x, kAll, kRounding);
  const f32v g = __builtin_ia32_getexpps512_mask(x, x, kAll, kRounding);
  *e = m < 1.0f ? g + 1.0f : g;
  return m;
}
/// What log gives at 0, negatives, +inf and NaN.
AOTC_I f32v log_edges(f32v x, f32v y) {
  // Four bits for each kind of x: quiet and signalling NaN: NaN; 0: -inf; 1: y; -inf: NaN; inf: inf; below 0: NaN; above: y.
  return __builtin_ia32_fixupimmps512_mask(y, x, ki(0x03530422), 0, static_cast<uint16_t>(-1), 4);
}
/// log1p for -1 < x < inf and |x| >= 1e-18, 0 included: 1 + x lies in [3/4, 3/2) * 2^-n, and f = (1 + x) 2^n - 1 is rounded once.
AOTC_I f32v log1p_within(f32v x, f32v u) {
  const f32v g = __builtin_ia32_getexpps512_mask(u * 0.66666663f, u, static_cast<uint16_t>(-1), 4), n = -1.0f - g;
  const f32v f = scale2(x, n) + (scale2(kf(1.0f), n) - 1.0f);
  return fma(n, kf(-kLn2High), f + fma(n, kf(-kLn2Low), log_tail(f)));
}
#else
AOTC_I f32v split(f32v x, f32v* e) {
  const i32v tiny = x < kf(1.17549435e-38f);
  x = tiny ? x * 8388608.0f : x;
  const i32v k = (bits(x) - 0x3f400000) >> 23;
  *e = to_f32(k - (tiny & 23));
  return as_f32(bits(x) - (k << 23));
}
AOTC_I f32v log_edges(f32v x, f32v y) {
  y = x == __builtin_inff() ? x : y;
  y = x == 0.0f ? kf(-__builtin_inff()) : y;
  y = x < 0.0f ? kf(__builtin_nanf("")) : y;
  return x != x ? x : y;
}
AOTC_I f32v log1p_within(f32v x, f32v u) {
  const i32v k = (bits(u) - 0x3f400000) >> 23, n = 127 - k;
  const f32v lost = x - (u - 1.0f), e = to_f32(k);  // what rounding 1 + x lost; nothing where 2^-k is no normal number
  const f32v f = (as_f32(bits(u) - (k << 23)) - 1.0f) + lost * as_f32((n > 0 ? n : 0) << 23);
  return fma(e, kf(kLn2High), f + fma(e, kf(kLn2Low), log_tail(f)));
}
#endif
AOTC_I f32v v_log(f32v x) {
  f32v e;
  const f32v f = split(x, &e) - 1.0f;
  return log_edges(x, fma(e, kf(kLn2High), f + fma(e, kf(kLn2Low), log_tail(f))));
}
AOTC_I f32v v_log2(f32v x) {
  f32v e;
  const f32v f = split(x, &e) - 1.0f, t = log_tail(f), m = f + t, rest = (f - m) + t;
  const f32v l = fma(m, kf(1.925963033500e-8f), rest * 1.4426950408889634f);
  return log_edges(x, fma(m, kf(1.4426950216293335f), l) + e);
}
AOTC_I f32v v_log10(f32v x) {
  f32v e;
  const f32v f = split(x, &e) - 1.0f, t = log_tail(f), m = f + t, rest = (f - m) + t;
  f32v l = fma(rest, kf(0.43429449200f), e * 4.6050389812e-6f);  // log10(2) = 0.301025390625 + 4.605038981e-6
  l = fma(m, kf(-1.0103050118e-8f), l);                          // log10(e) = 0.43429449200 - 1.01030501e-8
  return log_edges(x, fma(e, kf(0.301025390625f), fma(m, kf(0.43429449200f), l)));
}
AOTC_I f32v v_log1p(f32v x) {
  const i32v tiny = v_abs(x) < kf(5.9e-8f);  // is its own logarithm, and its square might underflow
  const f32v u = x + 1.0f;
  return tiny ? x : log_edges(u, log1p_within(tiny ? kf(0.0f) : x, u));
}

#if AOTC_WIDE_MATH
/// tanh near n * kTanhPiece, n = 0 .. 31, less kTanhNear: coefficients of polynomials in the distance, by least squares over Chebyshev
/// nodes, each rounded before the next. At most one ulp: sums of a short number and a small polynomial are rounded once.
constexpr float kTanhPiece = 0.2890625f;
constexpr f32v kTanhNear[2] = {
    {0, 0.28125f, 0.515625f, 0.703125f, 0.8125f, 0.890625f, 0.9375f, 0.96875f, 0.984375f, 0.984375f, 1, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
constexpr f32v kTanhPieces[7][2] = {
    {{0, 2.17095676e-05f, 0.00567630539f, -0.00318264868f, 0.00731401192f, 0.0041370932f, 0.00207082578f, -0.00310341804f, -0.00379195297f,
      0.00468645059f, -0.00615073973f, -0.00345491734f, -0.00193950394f, -0.00108842656f, -0.00061069784f, -0.000342616375f},
     {-0.000192204825f, -0.000107821688f, -6.04839188e-05f, -3.39288526e-05f, -1.90325027e-05f, -1.06763118e-05f, -5.98888209e-06f,
      -3.35946265e-06f, -1.88448917e-06f, -1.05710308e-06f, -5.92981223e-07f, -3.32632368e-07f, -1.86589858e-07f, -1.04667429e-07f,
      -5.87131055e-08f, -3.29350698e-08f}},
    {{1, 0.920886219f, 0.72824496f, 0.510080695f, 0.327904969f, 0.199400797f, 0.117206663f, 0.0675266758f, 0.038456887f, 0.0217574462f,
      0.0122636482f, 0.00689789793f, 0.00387524627f, 0.00217566849f, 0.0012210228f, 0.000685115403f},
     {0.000384372717f, 0.00021563175f, 0.000120964178f, 6.78565557e-05f, 3.80646452e-05f, 2.13525091e-05f, 1.19777278e-05f, 6.71891439e-06f,
      3.76897492e-06f, 2.11420502e-06f, 1.18596211e-06f, 6.65264622e-07f, 3.73179688e-07f, 2.09334843e-07f, 1.17426211e-07f,
      6.58701325e-08f}},
    {{-8.21851316e-08f, -0.259019136f, -0.379635185f, -0.357027143f, -0.268821061f, -0.178416222f, -0.110123925f, -0.0652069002f,
      -0.0377101675f, -0.0215193685f, -0.0121882046f, -0.00687403185f, -0.0038677277f, -0.002173285f, -0.00122028647f, -0.00068488525f},
     {-0.000384301151f, -0.000215608423f, -0.000120956203f, -6.78543947e-05f, -3.80641941e-05f, -2.13521198e-05f, -1.19776059e-05f,
      -6.7189203e-06f, -3.76897628e-06f, -2.11419842e-06f, -1.18595835e-06f, -6.65260757e-07f, -3.73178722e-07f, -2.09334388e-07f,
      -1.17426744e-07f, -6.58698482e-08f}},
    {{-0.333325356f, -0.234104991f, -0.0448527746f, 0.0798702762f, 0.111084878f, 0.093174018f, 0.064400889f, 0.040458519f, 0.0241591316f,
      0.0140316021f, 0.00802528299f, 0.00455102138f, 0.00256845844f, 0.00144568936f, 0.000812517072f, 0.000456269918f},
     {0.000256099942f, 0.000143707541f, 8.06275057e-05f, 4.52327768e-05f, 2.53747694e-05f, 1.42344525e-05f, 7.98501242e-06f,
      4.47917728e-06f, 2.51260985e-06f, 1.40945895e-06f, 7.90632441e-07f, 4.43504916e-07f, 2.48783522e-07f, 1.39556064e-07f,
      7.82836906e-08f, 4.39135377e-08f}},
    {{-0.000253454433f, 0.152166724f, 0.149943218f, 0.0631144419f, -0.00146160601f, -0.0239014681f, -0.0238046069f, -0.0173330959f,
      -0.0111203967f, -0.00671290699f, -0.00391448662f, -0.00224724668f, -0.00127448956f, -0.000721171382f, -0.00040436862f,
      -0.000227384531f},
     {-0.00012772996f, -7.1829978e-05f, -4.03669474e-05f, -2.25998956e-05f, -1.26601799e-05f, -7.13237978e-06f, -3.99722421e-06f,
      -2.23683219e-06f, -1.25548308e-06f, -7.05146419e-07f, -3.9560598e-07f, -2.22100823e-07f, -1.24477509e-07f, -6.98197624e-08f,
      -3.90902564e-08f, -2.19737171e-08f}},
    {{0.136866227f, 0.0554858558f, -0.046007473f, -0.0591414981f, -0.0287332647f, -0.00537677202f, 0.00343439821f, 0.00471798005f,
      0.00370006077f, 0.00243942812f, 0.00149180996f, 0.000873966666f, 0.000503491727f, 0.000286746799f, 0.000161911099f, 9.12265969e-05f},
     {5.12427468e-05f, 2.87841103e-05f, 1.617198e-05f, 9.07417871e-06f, 5.09242818e-06f, 2.8562622e-06f, 1.60032471e-06f, 8.99654879e-07f,
      5.04526554e-07f, 2.82745617e-07f, 1.58739297e-07f, 8.90499194e-08f, 4.99643242e-08f, 2.79893264e-08f, 1.57067745e-08f,
      8.80502515e-09f}},
    {{-0.0224951524f, -0.0707752481f, -0.0346114524f, 0.0120371962f, 0.0178937633f, 0.0088819135f, 0.00232956233f, -0.000232069578f,
      -0.000745797006f, -0.000436156814f, -0.000410746637f, -0.000183998593f, -0.000155731643f, -5.34784085e-05f, -7.79972397e-05f,
      -4.22024095e-05f},
     {-2.30906353e-05f, -9.38328321e-06f, -3.66427139e-06f, -3.38858854e-06f, -2.41573321e-06f, -5.28851672e-07f, -4.01482851e-07f,
      -3.7444093e-07f, -1.9042038e-07f, -8.27177828e-08f, -4.49784388e-08f, -2.01490895e-08f, -1.43069885e-08f, -8.18224333e-09f,
      -6.64489885e-09f, -2.61892241e-09f}},
};
AOTC_I f32v v_tanh(f32v x) {
  const f32v t = least_or_b(kf(9.1f), v_abs(x));            // tanh(9.1) is 1, NaN stays
  const f32v at = fma(t, kf(1 / kTanhPiece), 12582912.0f);  // 1.5 * 2^23: the sum's low bits are the rounded product
  const f32v d = fma(at - 12582912.0f, kf(-kTanhPiece), t);
  const auto of = [at](const f32v(&of_pieces)[2]) __attribute__((always_inline)) {
    return __builtin_shuffle(of_pieces[0], of_pieces[1], bits(at));
  };
  f32v p = of(kTanhPieces[6]);
  for (int i = 5; i >= 0; --i) p = fma(p, d, of(kTanhPieces[i]));
  return v_copysign(of(kTanhNear) + p, x);
}
#else
AOTC_I f32v v_tanh(f32v x) {
  const f32v a = v_abs(x), z = x * x;
  f32v p = kf(-5.70498872745e-3f);
  p = fma(p, z, 2.06390887954e-2f);
  p = fma(p, z, -5.37397155531e-2f);
  p = fma(p, z, 1.33314422036e-1f);
  p = fma(p, z, -3.33332819422e-1f);
  const f32v small = fma(p * z, x, x);
  const f32v c = a > 20.0f ? kf(20.0f) : a;
  const ExpParts e = exp_parts(c + c);
  const f32v large = 1.0f - 2.0f / (scale2(e.m, e.n) + 1.0f);
  return x != x ? x : v_copysign(a < 0.625f ? small : large, x);
}
#endif
AOTC_I f32v v_sigmoid(f32v x) {
  const ExpParts e = exp_parts(clamp_keep_nan(-x, -40.0f, 90.0f));  // 1 + exp(-40) is 1
  return 1.0f / (1.0f + scale2(e.m, e.n));
}

/// exp(x) for -80 <= x <= 0.
AOTC_I f32v exp_of_small_negative(f32v x) {
  const f32v t = fma(x, kf(1.44269504088896341f), 12582912.0f);  // 1.5 * 2^23: the sum's low bits are the rounded product
  const f32v n = t - 12582912.0f;
  f32v r = fma(n, kf(-0.693359375f), x);
  r = fma(n, kf(2.12194440e-4f), r);
  return as_f32(bits(exp_less_1(r) + 1.0f) + (bits(t) << 23));
}
#if AOTC_WIDE_MATH
/// erf near n * kErfPiece, n = 0 .. 15, less kErfNear: coefficients of polynomials in the distance, by least squares over Chebyshev nodes.
/// The first is odd. Sums of a short number and a small polynomial are rounded once: half an ulp from 1 on, where 1 + erf(-x) has few
/// digits left.
constexpr float kErfPiece = 0.265625f;
constexpr f32v kErfNear = {0, 0.296875f, 0.546875f, 0.734375f, 0.859375f, 0.9375f, 0.96875f, 0.984375f, 1, 1, 1, 1, 1, 1, 1, 1};
constexpr f32v kErfPieces[6] = {
    {0, -0.00405176636f, 0.000653437106f, 0.00586198037f, 0.00768327108f, 0.00215335726f, 0.00704772351f, 0.00707528926f, -0.00265402975f,
     -0.000722608995f, -0.000172303349f, -3.59379228e-05f, -6.55021086e-06f, -1.04244032e-06f, -1.44760932e-07f, -1.75313062e-08f},
    {1.12837911f, 1.05150831f, 0.850913882f, 0.59796232f, 0.364902914f, 0.193373099f, 0.088987723f, 0.0355614461f, 0.0123408195f,
     0.00371898082f, 0.000973238493f, 0.000221171984f, 4.36472146e-05f, 7.47995182e-06f, 1.11315887e-06f, 1.43857278e-07f},
    {0, -0.279299557f, -0.45203954f, -0.47649762f, -0.387711167f, -0.256827533f, -0.141826943f, -0.0661228895f, -0.0262239315f,
     -0.00889014918f, -0.00258479663f, -0.000646064698f, -0.000139063835f, -2.58115178e-05f, -4.13540101e-06f, -5.72369231e-07f},
    {-0.3761217f, -0.301038116f, -0.123539746f, 0.0538153648f, 0.15298973f, 0.162938148f, 0.121027246f, 0.070111379f, 0.0330379158f,
     0.0129298242f, 0.00425329618f, 0.00118496025f, 0.000281033164f, 5.69475123e-05f, 9.88619377e-06f, 1.47338005e-06f},
    {0, 0.131972462f, 0.182216793f, 0.136841878f, 0.0482385084f, -0.0220045578f, -0.0487514287f, -0.043015819f, -0.0264082681f,
     -0.012573312f, -0.00484292815f, -0.00154180569f, -0.000410858484f, -9.23921107e-05f, -1.76318699e-05f, -2.8671393e-06f},
    {0.112129904f, 0.0757131428f, -0.0016918662f, -0.0593556277f, -0.0658942163f, -0.0368685909f, -0.00514718704f, 0.0108949011f,
     0.0124375802f, 0.00807198137f, 0.00383163989f, 0.00143093406f, 0.000434371846f, 0.00010911862f, 2.29382458e-05f, 4.06526851e-06f},
};
AOTC_I f32v v_erf(f32v x) {
  const f32v t = least_or_b(kf(4.0f), v_abs(x));           // erf(4) is 1, NaN stays
  const f32v at = fma(t, kf(1 / kErfPiece), 12582912.0f);  // 1.5 * 2^23: the sum's low bits are the rounded product
  const f32v d = fma(at - 12582912.0f, kf(-kErfPiece), t);
  f32v p = __builtin_shuffle(kErfPieces[5], bits(at));
  for (int i = 4; i >= 0; --i) p = fma(p, d, __builtin_shuffle(kErfPieces[i], bits(at)));
  return v_copysign(__builtin_shuffle(kErfNear, bits(at)) + p, x);
}
#else
AOTC_I f32v v_erf(f32v x) {
  const f32v t = v_abs(x), s = x * x;
  f32v r = fma(kf(-1.72853470e-5f), t, 3.83197126e-4f);
  const f32v u = fma(kf(-3.88396438e-3f), t, 2.42546219e-2f);
  r = fma(r, s, u);
  r = fma(r, t, -1.06777877e-1f);
  r = fma(r, t, -6.34846687e-1f);
  r = fma(r, t, -1.28717512e-1f);
  r = fma(r, t, -t);
  // Beyond 4 the result is 1; the argument is kept there so that the polynomial does not turn around.
  const f32v large = v_copysign(t > 4.0f ? kf(1.0f) : 1.0f - exp_of_small_negative(r), x);
  f32v q = kf(-5.96761703e-4f);
  q = fma(q, s, 4.99119423e-3f);
  q = fma(q, s, -2.67681349e-2f);
  q = fma(q, s, 1.12819925e-1f);
  q = fma(q, s, -3.76125336e-1f);
  q = fma(q, s, 1.28379166e-1f);
  const f32v small = fma(q, x, x);
  return t > 0.927734375f ? large : (x != x ? x : small);
}
#endif

extern "C" float sinf(float) noexcept;
extern "C" float cosf(float) noexcept;
constexpr float kNearQuadrants = 48039.0f;
/// x - n * pi/2, for |x| <= kNearQuadrants.
AOTC_I f32v less_quadrants(f32v x, f32v n) {
  f32v r = fma(n, kf(-0x1.921fb0p+00f), x);
  r = fma(n, kf(-0x1.5110b4p-22f), r);
  return fma(n, kf(-0x1.846988p-48f), r);
}
/// sin(x) when quadrant_shift is 0, cos(x) when it is 1.
AOTC_I f32v sin_or_cos(f32v x, int quadrant_shift) {
  const f32v j = rnd_even(x * 0.636619747f), r = less_quadrants(x, j);
  const i32v q = to_i32(j) + quadrant_shift;
  const f32v s = r * r;
  f32v ps = kf(2.86567956e-6f);
  ps = fma(ps, s, -1.98559923e-4f);
  ps = fma(ps, s, 8.33338592e-3f);
  ps = fma(ps, s, -1.66666672e-1f);
  ps = fma(ps, s * r, r);
  f32v pc = kf(2.44677067e-5f);
  pc = fma(pc, s, -1.38877297e-3f);
  pc = fma(pc, s, 4.16666567e-2f);
  pc = fma(pc, s, -0.5f);
  pc = fma(pc, s, 1.0f);
  const f32v y = (q & 1) != 0 ? pc : ps;
  return as_f32(bits(y) ^ ((q & 2) << 30));
}
AOTC_F f32v far_lanes(f32v x, f32v y, i32v far, float (*f)(float)) {
  for (int l = 0; l < AOTC_L; ++l)
    if (far[l]) y[l] = f(x[l]);
  return y;
}
AOTC_I f32v v_sin(f32v x) {
  const f32v near = sin_or_cos(x, 0), y = x == 0.0f ? x : near;
  const i32v far = (v_abs(x) <= kNearQuadrants) == 0;
  if (__builtin_expect(any(far), 0)) return far_lanes(x, y, far, sinf);
  return y;
}
AOTC_I f32v v_cos(f32v x) {
  const f32v y = sin_or_cos(x, 1);
  const i32v far = (v_abs(x) <= kNearQuadrants) == 0;
  if (__builtin_expect(any(far), 0)) return far_lanes(x, y, far, cosf);
  return y;
}

/// In f64, which squares of f32 neither leave nor fall below; infinite beside a NaN, too, as in C.
AOTC_F f32v v_hypot(f32v x, f32v y) {
  const f64v a = to_f64(x), b = to_f64(y);
  const i32v infinite = (v_abs(x) == __builtin_inff()) | (v_abs(y) == __builtin_inff());
  return sel(infinite, kf(__builtin_inff()), to_f32(v_sqrt(v_add(v_mul(a, a), v_mul(b, b)))));
}

}  // namespace
