// A device that writes down what it is asked to do. No clock is read: control flow never depends on
// time, turns are round robin and agreement uses counts only, so the graph is the same at any
// speed.
#pragma once
#include <functional>
#include <optional>

#include "device/stream.h"
#include "sim/graph.h"

namespace hocket::sim {

/// What a launch costs on the machine that is simulated.
using Pricer = std::function<Price(const device::Label&, const device::Cost&)>;

class RecordDevice;

/// Appends nodes in stream order. Takes events of recorded streams only, which never fail.
class RecordStream final : public device::Stream {
 public:
  RecordStream(RecordDevice& device, Lane lane) : device_(device), lane_(lane) {}
  void launch(device::Work work) override;
  device::Event record() override;
  void wait(const device::Event& event) override;
  void synchronize() override;  ///< what the host does later starts after this stream
  void clear_failure() override {}
  device::Device& device() override;
  /// High throughput: the exchange holds this stream until it has ended on this rank.
  device::Event exchange(const device::Label& label, ExchangeNode exchange);
  /// Low latency: the exchange is on the link, this stream goes on.
  device::Event post(const device::Label& label, ExchangeNode exchange);

 private:
  NodeId append(Lane lane, const device::Label& label, ExchangeNode exchange);
  RecordDevice& device_;
  Lane lane_;
  std::vector<NodeId> tail_{};  // what the next node starts after
};

/// One rank of a shared graph. Bodies are dropped. Used from one thread.
class RecordDevice final : public device::Device {
 public:
  /// `launch`: what the host spends on one launch. `graph` outlives the device.
  RecordDevice(Graph& graph, int rank, Pricer pricer, Nanos launch = Nanos(0))
      : graph_(graph), rank_(rank), pricer_(std::move(pricer)), launch_(launch) {}
  std::unique_ptr<device::Stream> make_stream(std::string_view lane) override;
  Isa isa() const override { return Isa::generic; }
  int rank() const { return rank_; }
  int ranks() const { return graph_.ranks; }
  /// The host is busy: hand-overs, launches that are not modelled one by one.
  void spend(const char* stage, Nanos time);
  /// The host sleeps until the event: counts, sampled tokens.
  void host_wait(const device::Event& event);

 private:
  friend class RecordStream;
  NodeId append(Node node);
  void launched();
  Graph& graph_;
  int rank_;
  Pricer pricer_;
  Nanos launch_;
  std::vector<NodeId> host_{};  // the host's last node, and what it sleeps for
};

}  // namespace hocket::sim
