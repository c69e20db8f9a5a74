#include "device/sim/virtual_device.h"

#include <gtest/gtest.h>

#include "device/cpu/seeded.h"

namespace hocket::device::sim {
namespace {

Work work(const char* stage, Cost cost) {
  return Work{{stage, 0, 1}, cost, [](Parallel&) { FAIL() << "ran"; }};
}

TEST(VirtualDevice, PricesTheSlowestResource) {
  const Rates rates{.flops_per_ns = 10, .memory_bytes_per_ns = 2, .wire_bytes_per_ns = 0.5};
  EXPECT_EQ(price({.flops = 100, .memory_bytes = 10, .wire_bytes = 1}, rates), Nanos(10));
  EXPECT_EQ(price({.flops = 100, .memory_bytes = 40, .wire_bytes = 1}, rates), Nanos(20));
  EXPECT_EQ(price({.flops = 100, .memory_bytes = 40, .wire_bytes = 15}, rates), Nanos(30));
  EXPECT_EQ(price({}, rates), Nanos(0));
}

TEST(VirtualDevice, StreamsAreInOrderAndBesideEachOther) {
  VirtualDevice device({});
  const auto compute = device.make_stream("compute"), comm = device.make_stream("comm");
  compute->launch(work("a", {.flops = 100}));
  const Event ready = compute->record();
  compute->launch(work("b", {.flops = 50}));
  comm->wait(ready);
  comm->launch(work("c", {.wire_bytes = 30}));
  const Timeline& timeline = device.timeline();
  EXPECT_EQ(timeline.at("u0/L1/a").end, Nanos(100));
  EXPECT_EQ(timeline.at("u0/L1/b").begin, Nanos(100));
  EXPECT_EQ(timeline.at("u0/L1/c").begin, Nanos(100));
  EXPECT_EQ(timeline.at("u0/L1/c").lane, "comm");
  EXPECT_EQ(overlap(timeline.at("u0/L1/b"), timeline.at("u0/L1/c")), Nanos(30));
  EXPECT_EQ(overlap(timeline.at("u0/L1/a"), timeline.at("u0/L1/c")), Nanos(0));
  EXPECT_EQ(timeline.end(), Nanos(150));
  EXPECT_EQ(timeline.busy("compute"), Nanos(150));
  EXPECT_EQ(timeline.busy("comm"), Nanos(30));
  EXPECT_THROW(timeline.at("u0/L1/d"), InvariantError);
}

TEST(VirtualDevice, ADeviceCannotRunAheadOfItsHost) {
  VirtualDevice device({.launch = Nanos(40)});
  const auto compute = device.make_stream("compute");
  compute->launch(work("a", {.flops = 10}));  // launched at 40, ends at 50
  compute->launch(work("b", {.flops = 100}));
  compute->launch(work("c", {.flops = 10}));
  EXPECT_EQ(device.timeline().at("u0/L1/b").begin, Nanos(80));
  EXPECT_EQ(device.timeline().at("u0/L1/c").begin, Nanos(180));
  EXPECT_EQ(device.host(), Nanos(120));
  compute->synchronize();
  EXPECT_EQ(device.host(), Nanos(190));
  device.spend(Nanos(10));
  compute->launch(work("d", {.flops = 1}));
  EXPECT_EQ(device.timeline().at("u0/L1/d").begin, Nanos(240));
}

TEST(VirtualDevice, RefusesEventsOfOtherDevices) {
  VirtualDevice device({});
  cpu::SeededDevice other(0);
  const auto compute = device.make_stream("compute"), foreign = other.make_stream("comm");
  compute->wait(Event());
  EXPECT_THROW(compute->wait(foreign->record()), InvariantError);
}

}  // namespace
}  // namespace hocket::device::sim
