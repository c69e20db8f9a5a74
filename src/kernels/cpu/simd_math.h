// exp on 16 lanes: one polynomial for every instruction set, so that every path gives the same
// bits.
#pragma once
namespace hocket::kernels {

inline constexpr float kExpLowest =
    -0x1.5d589ep+6F;  ///< ln 2^-126, rounded up: below, the result is not normal
inline constexpr float kExpHighest = 0x1.62e42ep+6F;  ///< ln FLT_MAX, rounded down

/// x = n ln 2 + r, |r| <= ln 2 / 2; exp r by the polynomial of Cephes expf, error below 1.1 units
/// in the last place. Valid where the result is a normal number; elsewhere callers replace it.
template <class V>
inline typename V::F exp_normal(typename V::F x) {
  const auto magic =
      V::all(0x1.8p23F);  // adding it rounds to an integer and leaves that integer in the low bits
  const auto shifted = V::fma(x, V::all(0x1.715476p0F), magic);
  const auto n = V::sub(shifted, magic);
  auto r = V::fnma(n, V::all(0x1.62e4p-1F),
                   x);  // ln 2 in two parts; the first has 15 bits: n * it is exact
  r = V::fnma(n, V::all(0x1.7f7d1cp-20F), r);
  auto p = V::all(1.9875691500E-4F);
  p = V::fma(p, r, V::all(1.3981999507E-3F));
  p = V::fma(p, r, V::all(8.3334519073E-3F));
  p = V::fma(p, r, V::all(4.1665795894E-2F));
  p = V::fma(p, r, V::all(1.6666665459E-1F));
  p = V::fma(p, r, V::all(5.0000001201E-1F));
  p = V::fma(p, r, V::all(1.0F));
  p = V::fma(p, r, V::all(1.0F));
  return V::times_power(p, shifted);
}

/// exp of x <= 0: 0 where the result would not be normal; minus infinity gives 0.
template <class V>
inline typename V::F exp_nonpositive(typename V::F x) {
  return V::if_less(x, kExpLowest, V::all(0.0F), exp_normal<V>(x));
}

/// As exp_nonpositive, and infinity where the result would exceed FLT_MAX.
template <class V>
inline typename V::F exp_any(typename V::F x) {
  const auto negated = V::sub(V::all(0.0F), x);
  return V::if_less(negated, -kExpHighest, V::all(__builtin_inff()), exp_nonpositive<V>(x));
}

}  // namespace hocket::kernels
