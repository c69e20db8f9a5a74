#include "telemetry/metrics.h"

#include <mutex>
#include <utility>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace hocket::telemetry {
namespace {

class CounterImpl final : public Counter {
 public:
  explicit CounterImpl(prometheus::Counter& metric) : metric_(metric) {}
  void add(double value) override { metric_.Increment(value); }
  double value() const override { return metric_.Value(); }

 private:
  prometheus::Counter& metric_;
};

class GaugeImpl final : public Gauge {
 public:
  explicit GaugeImpl(prometheus::Gauge& metric) : metric_(metric) {}
  void set(double value) override { metric_.Set(value); }
  double value() const override { return metric_.Value(); }

 private:
  prometheus::Gauge& metric_;
};

class HistogramImpl final : public Histogram {
 public:
  explicit HistogramImpl(prometheus::Histogram& metric) : metric_(metric) {}
  void observe(double value) override { metric_.Observe(value); }

 private:
  prometheus::Histogram& metric_;
};

template <class T>
using Table = std::map<std::pair<std::string, Labels>, T>;

/// The entry of (name, labels), made on first use. An entry whose making throws is not kept.
template <class T, class Make>
T& obtain(Table<T>& table, const std::string& name, const Labels& labels, const Make& make) {
  const auto key = std::make_pair(name, labels);
  const auto found = table.find(key);
  if (found != table.end()) return found->second;
  return table.emplace(key, T(make())).first->second;
}

}  // namespace

struct Metrics::State {
  std::mutex mutex;  // guards the tables; the registry has its own
  // A second registration of a name joins its family, whatever its help text.
  prometheus::Registry registry{prometheus::Registry::InsertBehavior::Merge};
  Table<CounterImpl> counters;
  Table<GaugeImpl> gauges;
  Table<HistogramImpl> histograms;
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

Counter& Metrics::counter(const std::string& name, const std::string& help, const Labels& labels) {
  const std::lock_guard lock(state_->mutex);
  return obtain(state_->counters, name, labels, [&]() -> prometheus::Counter& {
    return prometheus::BuildCounter().Name(name).Help(help).Register(state_->registry).Add(labels);
  });
}

Gauge& Metrics::gauge(const std::string& name, const std::string& help, const Labels& labels) {
  const std::lock_guard lock(state_->mutex);
  return obtain(state_->gauges, name, labels, [&]() -> prometheus::Gauge& {
    return prometheus::BuildGauge().Name(name).Help(help).Register(state_->registry).Add(labels);
  });
}

Histogram& Metrics::histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                              const Labels& labels) {
  const std::lock_guard lock(state_->mutex);
  return obtain(state_->histograms, name, labels, [&]() -> prometheus::Histogram& {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(state_->registry).Add(labels, bounds);
  });
}

std::string Metrics::prometheus_text() const {
  return prometheus::TextSerializer().Serialize(state_->registry.Collect());
}

}  // namespace hocket::telemetry
