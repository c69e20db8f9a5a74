// What the server knows about requests, as metrics. Source of names and buckets: vLLM; docs/metrics.md.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "telemetry/metrics.h"

namespace hocket::server {

class ServerMetrics {
 public:
  using Seconds = std::chrono::duration<double>;
  ServerMetrics(telemetry::Metrics& metrics, const std::string& model_name);

  void count_response(std::string_view handler, std::string_view method, int status);
  void set_connections(int64_t open) { connections_.set(static_cast<double>(open)); }
  void first_token(Seconds since_request) { time_to_first_token_.observe(since_request.count()); }
  void next_token(Seconds since_last) { inter_token_latency_.observe(since_last.count()); }
  void generated(int64_t tokens) { generation_tokens_.add(static_cast<double>(tokens)); }
  void admitted(int64_t prompt_tokens) { prompt_tokens_.add(static_cast<double>(prompt_tokens)); }
  void finished(engine::FinishReason reason, Seconds since_request);
  std::string text() const { return metrics_.prometheus_text(); }

 private:
  telemetry::Metrics& metrics_;
  telemetry::Labels labels_;
  telemetry::Histogram &time_to_first_token_, &inter_token_latency_, &end_to_end_;
  telemetry::Counter &prompt_tokens_, &generation_tokens_;
  telemetry::Gauge& connections_;
};

}  // namespace hocket::server
