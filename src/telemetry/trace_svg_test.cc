#include "telemetry/trace_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hocket::telemetry {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<TraceSpan> two_steps() {
  return {{0, "host", "step 1", 0, 100, {}},
          {0, "compute", "u0/L0/attention", 10, 90, {}},
          {0, "host", "step 2", 200, 300, {}},
          {0, "compute", "u0/L0/<experts>", 210, 230, {}},
          {0, "comm", "u1/L0/dispatch", 220, 290, {}}};
}

TEST(TraceSvg, ShowsTheSpansOfOneStep) {
  const std::string svg = trace_svg(two_steps(), "step 2");
  EXPECT_THAT(svg, HasSubstr("u0/L0/&lt;experts&gt;"));
  EXPECT_THAT(svg, HasSubstr("u1/L0/dispatch"));
  EXPECT_THAT(svg, HasSubstr("rank 0  comm"));
  EXPECT_THAT(svg, HasSubstr("url(#d1)"));
  EXPECT_THAT(svg, Not(HasSubstr("attention")));
  EXPECT_THAT(trace_svg(two_steps(), ""), HasSubstr("attention"));
  EXPECT_THAT(trace_svg({}, ""), HasSubstr("</svg>"));
}

TEST(TraceSvg, TheSteadyStepHasTheMostSpans) {
  EXPECT_EQ(steady_step(two_steps()), "step 2");
  EXPECT_EQ(steady_step({}), "");
}

}  // namespace
}  // namespace hocket::telemetry
