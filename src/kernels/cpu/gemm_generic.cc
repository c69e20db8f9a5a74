// The portable path, and the place where a vector's members are explained.
#include <cmath>
#include <cstring>

#include "kernels/cpu/gemm_impl.h"
#include "kernels/cpu/gemm_tables.h"
#include "quant/fp8.h"

namespace hocket::kernels {
namespace {

struct Generic {
  using Unit = float;           ///< what a row's panel holds: one value, or one pair of bf16
  static constexpr int kSteps = 2;  ///< multiplies per pair, odd element first; unit `kSteps - 1 - s` goes with step s
  static constexpr int kColumns = 256;         ///< of K in one panel of bf16 rows
  static constexpr int kPanelPairBytes = 128;  ///< of one pair of 16 outputs in a widened tile
  static constexpr int kPrefetchRows = 0;      ///< up to so many rows the loop asks for weights ahead
  static constexpr int kDirectTiles = 4;       ///< tiles that are read side by side without a panel
  struct Vec {
    float lane[16];
  };

  static constexpr int rows(Source) { return 4; }                  ///< most rows of a register block
  static constexpr int tiles(Source, int) { return 1; }            ///< tiles of a register block of so many rows
  static constexpr int panel_rows(Source) { return 4; }            ///< from so many rows a tile is widened first
  static constexpr int panel_tiles() { return 1; }                 ///< tiles that are widened together

  static Vec zero() { return {}; }
  static Vec load(const float* from) {
    Vec v;
    std::memcpy(v.lane, from, sizeof v.lane);
    return v;
  }
  static void store(float* to, const Vec& v) { std::memcpy(to, v.lane, sizeof v.lane); }
  static void put(std::byte* to, const Vec& v) { std::memcpy(to, v.lane, sizeof v.lane); }
  static void prefetch(const std::byte*) {}
  /// Step s of the pair of 16 outputs at `w`.
  template <Source S>
  static Vec fetch(const std::byte* w, int s) {
    Vec v;
    if constexpr (S == Source::panel) {
      std::memcpy(v.lane, w + s * 64, sizeof v.lane);
    } else if constexpr (S == Source::bf16) {
      quant::Bf16 pairs[32];
      std::memcpy(pairs, w, sizeof pairs);
      for (int n = 0; n < 16; ++n) v.lane[n] = quant::to_float(pairs[2 * n + 1 - s]);
    } else {
      quant::E4m3 pairs[32];
      std::memcpy(pairs, w, sizeof pairs);
      for (int n = 0; n < 16; ++n) v.lane[n] = quant::to_float(pairs[2 * n + 1 - s]);
    }
    return v;
  }
  /// What fetch<S>() gave without the power of two that widen<fp8>() makes up for; here there is none.
  template <Source>
  static Vec exact(const Vec& v) {
    return v;
  }
  static Vec fma(const float* x, const Vec& w, const Vec& acc) { return scale(*x, w, acc); }
  /// by * v + to
  static Vec scale(float by, const Vec& v, const Vec& to) {
    Vec out;
    for (int n = 0; n < 16; ++n) out.lane[n] = std::fma(by, v.lane[n], to.lane[n]);
    return out;
  }
  /// `count` elements of a row, padded with zero to a whole pair.
  template <Source>
  static void widen(const quant::Bf16* from, int count, float* to) {
    for (int k = 0; k < count; ++k) to[k] = quant::to_float(from[k]);
    if (count % 2 != 0) to[count] = 0;
  }
};

}  // namespace

const GemmKernels kGemmGeneric = {Gemm<Generic, Source::bf16>::block, Gemm<Generic, Source::fp8>::block};

}  // namespace hocket::kernels
