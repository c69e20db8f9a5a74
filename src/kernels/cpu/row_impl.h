// The row kernels, written once over 16 lanes. Included by one file per instruction set.
#pragma once
#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/simd_math.h"

namespace hocket::kernels {

template <class V>
struct Rows {
  using F = typename V::F;
  using Bf16 = quant::Bf16;

  /// Calls step(i, n) for each 16 elements from i; n < 16 only in the last call.
  template <class Step>
  static void for_lanes(int64_t count, Step step) {
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) step(i, 16);
    if (i < count) step(i, count - i);
  }
  template <class T>
  static F get(const T* from, int64_t n, float rest = 0.0F) {
    return n == 16 ? V::load(from) : V::load_first(from, n, rest);
  }
  template <class T>
  static void put(T* to, F a, int64_t n) {
    if (n == 16) {
      V::store(to, a);
    } else {
      V::store_first(to, a, n);
    }
  }

  static void silu_mul(int64_t intermediate, const float* gate, const float* up, Bf16* out) {
    for_lanes(intermediate, [=](int64_t i, int64_t n) {
      const F z = get(gate + i, n);
      const F e = exp_any<V>(V::sub(V::all(0.0F), z));
      put(out + i, V::mul(V::div(z, V::add(V::all(1.0F), e)), get(up + i, n)), n);
    });
  }

  /// e4m3(y) as f32, by the steps of quant::to_e4m3.
  static F round_e4m3(F y) {
    const F size = V::abs(y);
    const F clamped = V::min(V::all(448.0F), size);
    const F step =
        V::all(0x1.0p14F);  // adding it makes the unit in the last place 2^-9, the subnormal step
    const F small = V::sub(V::add(clamped, step), step);
    const F rounded = V::if_less(clamped, 0x1.0p-6F, small, V::round_to_four_bits(clamped));
    return V::with_sign(V::max(rounded, V::mul(size, V::all(0.0F))), y);  // max: a NaN stays one
  }

  static void quantize_group(int64_t count, const Bf16* x, Bf16* codes, float* scale) {
    F most = V::all(0.0F);
    for_lanes(count, [&](int64_t i, int64_t n) { most = V::max(most, V::abs(get(x + i, n))); });
    const float largest = V::largest(most);
    *scale = (largest > 1e-10F ? largest : 1e-10F) / 448.0F;
    const F divisor = V::all(*scale);
    for_lanes(count, [=](int64_t i, int64_t n) {
      put(codes + i, round_e4m3(V::div(get(x + i, n), divisor)), n);
    });
  }
  static void quantize(int64_t k, const Bf16* x, Bf16* codes, float* scales) {
    for (int64_t i = 0; i < k; i += 128) {
      quantize_group(k - i < 128 ? k - i : 128, x + i, codes + i, scales + i / 128);
    }
  }

  static float inverse_rms(int64_t count, float eps, const float* x) {
    F squares = V::all(0.0F);
    for_lanes(count, [&](int64_t i, int64_t n) {
      const F a = get(x + i, n);
      squares = V::fma(a, a, squares);
    });
    return 1.0F / __builtin_sqrtf(V::sum(squares) / static_cast<float>(count) + eps);
  }
  static void rms_norm(int64_t hidden, float eps, const float* x, const float* w, Bf16* out) {
    const F scale = V::all(inverse_rms(hidden, eps, x));
    for_lanes(hidden, [=](int64_t i, int64_t n) {
      put(out + i, V::mul(get(w + i, n), V::mul(get(x + i, n), scale)), n);
    });
  }
  static void norm_rope(const NormRope& head, const float* x, float* out) {
    const F scale = V::all(inverse_rms(head.dim, head.eps, x));
    const int64_t half = head.dim / 2;
    for_lanes(half, [&](int64_t i, int64_t n) {
      const F a = V::mul(get(head.w + i, n), V::mul(get(x + i, n), scale));
      const F b = V::mul(get(head.w + half + i, n), V::mul(get(x + half + i, n), scale));
      const F cos = get(head.cos + i, n), sin = get(head.sin + i, n);
      put(out + i, V::fnma(b, sin, V::mul(a, cos)), n);
      put(out + half + i, V::fma(a, sin, V::mul(b, cos)), n);
    });
  }

  static void widen(int64_t count, const Bf16* in, float* out) {
    for_lanes(count, [=](int64_t i, int64_t n) { put(out + i, get(in + i, n), n); });
  }
  static void narrow(int64_t count, const float* in, Bf16* out) {
    for_lanes(count, [=](int64_t i, int64_t n) { put(out + i, get(in + i, n), n); });
  }
  static void add(int64_t count, float* x, const float* y) {
    for_lanes(count,
              [=](int64_t i, int64_t n) { put(x + i, V::add(get(x + i, n), get(y + i, n)), n); });
  }
  static void exp(int64_t count, const float* in, float* out) {
    for_lanes(count, [=](int64_t i, int64_t n) { put(out + i, exp_any<V>(get(in + i, n)), n); });
  }

  /// Logits of T tokens and E experts at once: each row of x and of the gate is loaded once for E,
  /// for T sums.
  template <int T, int E>
  static void logits_block(const RouterRows& rows, const float* x, const float* gate,
                           float* logits) {
    F sums[T][E];
    for (auto& token : sums) {
      for (F& sum : token) sum = V::all(0.0F);
    }
    for_lanes(rows.hidden, [&](int64_t i, int64_t n) {
      F a[T];
      for (int t = 0; t < T; ++t) a[t] = get(x + t * rows.hidden + i, n);
      for (int e = 0; e < E; ++e) {
        const F g = get(gate + e * rows.hidden + i, n);
        for (int t = 0; t < T; ++t) sums[t][e] = V::fma(a[t], g, sums[t][e]);
      }
    });
    for (int t = 0; t < T; ++t) {
      for (int e = 0; e < E; ++e) logits[t * rows.experts + e] = V::sum(sums[t][e]);
    }
  }
  template <int E>
  static void logits_of_experts(const RouterRows& rows, const float* x, const float* gate,
                                float* logits) {
    int64_t t = 0;
    for (; t + 2 <= rows.tokens; t += 2) {
      logits_block<2, E>(rows, x + t * rows.hidden, gate, logits + t * rows.experts);
    }
    if (t < rows.tokens)
      logits_block<1, E>(rows, x + t * rows.hidden, gate, logits + t * rows.experts);
  }
  static void router_logits(const RouterRows& rows, const float* x, float* logits) {
    int64_t e = 0;
    for (; e + 3 <= rows.experts; e += 3) {
      logits_of_experts<3>(rows, x, rows.gate + e * rows.hidden, logits + e);
    }
    for (; e < rows.experts; ++e)
      logits_of_experts<1>(rows, x, rows.gate + e * rows.hidden, logits + e);
  }

  static void softmax(int64_t count, float* x) {
    const float lowest = -__builtin_inff();
    F most = V::all(lowest);
    for_lanes(count, [&](int64_t i, int64_t n) { most = V::max(most, get(x + i, n, lowest)); });
    const F maximum = V::all(V::largest(most));
    F sums = V::all(0.0F);
    for_lanes(count, [&](int64_t i, int64_t n) {
      const F p = exp_nonpositive<V>(V::sub(get(x + i, n, lowest), maximum));
      sums = V::add(sums, p);
      put(x + i, p, n);
    });
    const F total = V::all(V::sum(sums));
    for_lanes(count, [=](int64_t i, int64_t n) { put(x + i, V::div(get(x + i, n), total), n); });
  }

  static constexpr RowKernels kTable{silu_mul, quantize, rms_norm,      norm_rope, widen,
                                     narrow,   add,      router_logits, softmax,   exp};
};

}  // namespace hocket::kernels
