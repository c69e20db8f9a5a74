#include "model/layers/moe.h"

#include "dbo/exchange.h"

namespace hocket::model {

dbo::Task MoeLayer::forward(dbo::Ubatch& ub, const Buffers& b, comm::AllToAll& a2a) const {
  const comm::Routing routing = route(ub, b);
  comm::Round round(a2a, ub);  // left unfinished by a throw, it aborts the group
  ub.stage = "dispatch";
  dbo::Exchange out(ub, round.dispatch(b.normed, routing));
  co_await out;
  const ops::TensorView rows = run_experts(ub, b, round.received());
  ub.stage = "combine";
  dbo::Exchange back(ub, round.combine(rows));
  co_await back;
  round.finish(b.routed);
  ops::add(ub.lane(), b.x, b.routed);
}

comm::Routing MoeLayer::route(dbo::Ubatch& ub, const Buffers& b) const {
  ub.stage = "router";
  ops::rms_norm(ub.lane(), b.normed, b.x, weights_.norm, eps_);
  ops::router(ub.lane(), b.expert, b.expert_weight, b.normed, weights_.gate, normalize_);
  return {b.expert, b.expert_weight};
}

ops::TensorView MoeLayer::run_experts(dbo::Ubatch& ub, const Buffers& b, const comm::Received& received) const {
  ub.stage = "experts";
  const ops::TensorView rows = b.expert_rows.slice(0, received.rows.rows());
  ops::experts(ub.lane(), rows, {received.rows, received.scales}, received.counts, received.offsets,
               {weights_.gate_up, weights_.down}, b.expert_scratch);
  return rows;
}

}  // namespace hocket::model
