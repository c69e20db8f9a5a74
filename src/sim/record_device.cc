#include "sim/record_device.h"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::sim {
namespace {

// "After these nodes."
struct Recorded final : device::Event::State {
  explicit Recorded(std::vector<NodeId> after) : nodes(std::move(after)) {}
  bool done() const override { return true; }
  bool failed() const override { return false; }
  bool wait_until(device::Clock::time_point) const override { return true; }
  std::string describe() const override { return "a recorded event"; }
  const std::vector<NodeId> nodes;
};

device::Event event_of(std::vector<NodeId> nodes) {
  return device::Event(std::make_shared<Recorded>(std::move(nodes)));
}

void add(std::vector<NodeId>& all, const std::vector<NodeId>& more) {
  for (const NodeId id : more) {
    if (std::find(all.begin(), all.end(), id) == all.end()) all.push_back(id);
  }
}

std::vector<NodeId> nodes_of(const device::Event& event) {
  if (event.state() == nullptr) return {};
  const auto* recorded = dynamic_cast<const Recorded*>(event.state());
  if (recorded == nullptr)
    throw InvariantError("a recorded stream waits for " + event.state()->describe());
  return recorded->nodes;
}

}  // namespace

std::string describe(const Graph& graph, NodeId id) {
  const Node& node = graph.nodes[static_cast<size_t>(id)];
  return fmt::format("rank {} {}", node.rank, node.label.str());
}

void RecordStream::launch(device::Work work) {
  device_.launched();
  Node node{.rank = device_.rank_, .lane = lane_, .label = work.label, .after = tail_};
  node.price = device_.pricer_(work.label, work.cost);
  add(node.after, device_.host_);
  tail_ = {device_.append(std::move(node))};
}

device::Event RecordStream::record() { return event_of(tail_); }

void RecordStream::wait(const device::Event& event) { add(tail_, nodes_of(event)); }

void RecordStream::synchronize() { add(device_.host_, tail_); }

device::Device& RecordStream::device() { return device_; }

device::Event RecordStream::exchange(const device::Label& label, ExchangeNode exchange) {
  tail_ = {append(lane_, label, std::move(exchange))};
  return record();
}

device::Event RecordStream::post(const device::Label& label, ExchangeNode exchange) {
  return event_of({append(Lane::link, label, std::move(exchange))});
}

NodeId RecordStream::append(Lane lane, const device::Label& label, ExchangeNode exchange) {
  device_.launched();
  Node node{.rank = device_.rank_, .lane = lane, .label = label, .after = tail_};
  node.exchange = static_cast<int>(device_.graph_.exchanges.size());
  device_.graph_.exchanges.push_back(std::move(exchange));
  add(node.after, device_.host_);
  return device_.append(std::move(node));
}

std::unique_ptr<device::Stream> RecordDevice::make_stream(std::string_view lane) {
  return std::make_unique<RecordStream>(*this, lane == "comm" ? Lane::comm : Lane::compute);
}

NodeId RecordDevice::append(Node node) {
  graph_.nodes.push_back(std::move(node));
  return static_cast<NodeId>(graph_.nodes.size() - 1);
}

void RecordDevice::launched() {
  if (launch_ > Nanos(0)) spend("launch", launch_);
}

void RecordDevice::spend(const char* stage, Nanos time) {
  Node node{.rank = rank_, .lane = Lane::host, .label = {stage, 0, -1}, .after = host_};
  node.price.fixed = static_cast<double>(time.count());
  host_ = {append(std::move(node))};
}

void RecordDevice::host_wait(const device::Event& event) { add(host_, nodes_of(event)); }

}  // namespace hocket::sim
