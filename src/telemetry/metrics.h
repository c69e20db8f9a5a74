// Counters, gauges and histograms by name, and their Prometheus text. Thread safe; counters are lock-free once obtained.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hocket::telemetry {

using Labels = std::map<std::string, std::string>;

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void add(double value) = 0;
  virtual double value() const = 0;
};
class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void set(double value) = 0;
  virtual double value() const = 0;
};
class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void observe(double value) = 0;
};

/// A registry. Asking twice for a name and labels gives the same metric. References live as long as the registry.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  Counter& counter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram& histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                       const Labels& labels = {});
  std::string prometheus_text() const;  ///< text/plain; version=0.0.4

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hocket::telemetry
