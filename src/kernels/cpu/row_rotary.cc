#include "kernels/cpu/row_rotary.h"

#include <bit>

namespace hocket::kernels {
namespace {

// In f64 throughout: both results are rounded to f32 once. Polynomials of fdlibm's __kernel_sin and
// __kernel_cos on
// [-pi/4, pi/4], cut where the next term is below 2^-33 of the result.
double sine(double r) {
  const double z = r * r;
  const double p = -1.66666666666666324348e-01 +
                   z * (8.33333333332248946124e-03 +
                        z * (-1.98412698298579493134e-04 +
                             z * (2.75573137070700676789e-06 + z * -2.50507602534068634195e-08)));
  return r + r * z * p;
}
double cosine(double r) {
  const double z = r * r;
  const double p = 4.16666666666666019037e-02 +
                   z * (-1.38888888888741095749e-03 +
                        z * (2.48015872894767294178e-05 + z * -2.75573143513906633035e-07));
  return 1.0 - 0.5 * z + z * z * p;
}

}  // namespace

void rotary_table(int64_t count, float position, const float* inv_freq, float* cos, float* sin) {
  for (int64_t i = 0; i < count; ++i) {
    const double angle = position * inv_freq[i];  // the f32 product, as the models were trained
    const double shifted =
        angle * 0x1.45f306dc9c883p-1 + 0x1.8p52;  // 2 / pi; rounds to the nearest quadrant
    const double n = shifted - 0x1.8p52;
    // pi / 2 in two parts; the first has 33 bits, so that n times it is exact.
    const double r = (angle - n * 1.57079632673412561417e+00) - n * 6.07710050650619224932e-11;
    const uint64_t quadrant = std::bit_cast<uint64_t>(shifted);
    const double s = sine(r), c = cosine(r);
    const bool swapped = (quadrant & 1) != 0;
    const double sin_size = swapped ? c : s, cos_size = swapped ? s : c;
    sin[i] = static_cast<float>((quadrant & 2) != 0 ? -sin_size : sin_size);
    cos[i] = static_cast<float>(((quadrant + 1) & 2) != 0 ? -cos_size : cos_size);
  }
}

}  // namespace hocket::kernels
