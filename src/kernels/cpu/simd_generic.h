// 16 lanes of f32 in plain C++: the definition that the AVX2 and AVX-512 lanes must equal bit for
// bit. Every set of lanes has the same static functions; the algorithms are templates over the set.
#pragma once
#include <bit>
#include <cstdint>

#include "quant/bf16.h"

namespace hocket::kernels {

struct GenericLanes {
  struct F {
    float lane[16];
  };
  static constexpr int kAccumulators = 6;  ///< how many F an inner loop may keep in registers

  template <class Function>
  static F each(Function function) {
    F out;
    for (int i = 0; i < 16; ++i) out.lane[i] = function(i);
    return out;
  }
  static F all(float value) {
    return each([=](int) { return value; });
  }
  static F load(const float* from) {
    return each([=](int i) { return from[i]; });
  }
  /// The first `n` lanes from memory, the others `rest`.
  static F load_first(const float* from, int64_t n, float rest) {
    return each([=](int i) { return i < n ? from[i] : rest; });
  }
  static F load(const quant::Bf16* from) {
    return each([=](int i) { return quant::to_float(from[i]); });
  }
  static F load_first(const quant::Bf16* from, int64_t n, float rest) {
    return each([=](int i) { return i < n ? quant::to_float(from[i]) : rest; });
  }
  /// As load(), in an order of lanes that is cheap to make; join() and split() turn it into
  /// ascending order and back.
  static F load_split(const quant::Bf16* from) { return load(from); }
  static F join(const F& a) { return a; }
  static F split(const F& a) { return a; }
  static void store(float* to, const F& a) { store_first(to, a, 16); }
  static void store_first(float* to, const F& a, int64_t n) {
    for (int i = 0; i < 16 && i < n; ++i) to[i] = a.lane[i];
  }
  /// Rounded to bf16.
  static void store(quant::Bf16* to, const F& a) { store_first(to, a, 16); }
  static void store_first(quant::Bf16* to, const F& a, int64_t n) {
    for (int i = 0; i < 16 && i < n; ++i) to[i] = quant::to_bf16(a.lane[i]);
  }
  static F add(const F& a, const F& b) {
    return each([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  static F sub(const F& a, const F& b) {
    return each([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  static F mul(const F& a, const F& b) {
    return each([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  static F div(const F& a, const F& b) {
    return each([&](int i) { return a.lane[i] / b.lane[i]; });
  }
  /// a * b + c, one rounding.
  static F fma(const F& a, const F& b, const F& c) {
    return each([&](int i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
  }
  /// c - a * b, one rounding.
  static F fnma(const F& a, const F& b, const F& c) {
    return each([&](int i) { return __builtin_fmaf(-a.lane[i], b.lane[i], c.lane[i]); });
  }
  /// a > b ? a : b, the rule of maxps.
  static F max(const F& a, const F& b) {
    return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  /// a < b ? a : b, the rule of minps.
  static F min(const F& a, const F& b) {
    return each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static F abs(const F& a) {
    return each([&](int i) { return std::bit_cast<float>(bits(a, i) & 0x7FFFFFFF); });
  }
  /// x < limit ? a : b; b where x is NaN.
  static F if_less(const F& x, float limit, const F& a, const F& b) {
    return each([&](int i) { return x.lane[i] < limit ? a.lane[i] : b.lane[i]; });
  }
  /// a * 2^n, where the low bits of `shifted` hold the integer n; as integers, no check of the
  /// range.
  static F times_power(const F& a, const F& shifted) {
    return each([&](int i) { return std::bit_cast<float>(bits(a, i) + (bits(shifted, i) << 23)); });
  }
  /// a rounded to three bits after the leading one, nearest even, as integers.
  static F round_to_four_bits(const F& a) {
    return each([&](int i) {
      const uint32_t rounded = bits(a, i) + 0x7FFFF + (bits(a, i) >> 20 & 1);
      return std::bit_cast<float>(rounded & 0xFFF00000);
    });
  }
  /// |magnitude| with the sign of `sign`.
  static F with_sign(const F& magnitude, const F& sign) {
    return each([&](int i) {
      return std::bit_cast<float>((bits(magnitude, i) & 0x7FFFFFFF) | (bits(sign, i) & 0x80000000));
    });
  }
  /// ((l0+l8) + (l4+l12)) + ... : halves are added until one lane is left.
  static float sum(F a) {
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) a.lane[i] += a.lane[i + half];
    }
    return a.lane[0];
  }
  static float largest(F a) {
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i)
        a.lane[i] = a.lane[i] > a.lane[i + half] ? a.lane[i] : a.lane[i + half];
    }
    return a.lane[0];
  }

 private:
  static uint32_t bits(const F& a, int i) { return std::bit_cast<uint32_t>(a.lane[i]); }
};

}  // namespace hocket::kernels
