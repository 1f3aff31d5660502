// Connecting queue pairs.
#include "transports/ibverbs/hello.hpp"

#include <algorithm>
#include <cerrno>
#include <random>

namespace tutti::ibverbs {
namespace {

constexpr std::uint32_t packet_numbers = 1u << 24;
constexpr std::uint8_t hops = 64;

ibv_mtu mtu_of(int bytes) {
  int value = IBV_MTU_256;
  while (value < IBV_MTU_4096 && 128 << (value + 1) <= bytes) ++value;
  return static_cast<ibv_mtu>(value);
}

int to_receive(ibv_qp* pair, const Ends& ends) noexcept {
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_RTR;
  state.path_mtu = mtu_of(std::min(ends.own.mtu, ends.its.mtu));
  state.dest_qp_num = ends.its_queue_pair;
  state.rq_psn = ends.its_first_packet;
  state.max_dest_rd_atomic = 1;
  state.min_rnr_timer = 12;
  state.ah_attr.port_num = static_cast<std::uint8_t>(ends.own.port);
  state.ah_attr.dlid = static_cast<std::uint16_t>(ends.its.lid);
  if (ends.own.fabric != Fabric::infiniband) {
    state.ah_attr.is_global = 1;
    gid_of(ends.its.address, state.ah_attr.grh.dgid.raw);
    state.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(ends.own.gid_index);
    state.ah_attr.grh.hop_limit = hops;
  }
  return ibv_modify_qp(pair, &state,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

}  // namespace

std::uint32_t random_packet() noexcept { return std::random_device{}() % packet_numbers; }

int prepare(ibv_qp* pair, const Endpoint& own, int access) noexcept {
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_INIT;
  state.port_num = static_cast<std::uint8_t>(own.port);
  state.qp_access_flags = static_cast<unsigned>(access);
  return ibv_modify_qp(pair, &state, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int bring_up(ibv_qp* pair, const Ends& ends, Seconds silence) noexcept {
  // The kernel resolves the neighbour's address in this transition and gives up after a second, for example after a
  // lost packet; so retry.
  constexpr int tries = 4;
  int error = ETIMEDOUT;
  for (int i = 0; i < tries && error == ETIMEDOUT; ++i) error = to_receive(pair, ends);
  if (error != 0) return error;
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_RTS;
  state.sq_psn = ends.first_packet;
  state.timeout = static_cast<std::uint8_t>(ack_exponent(silence));
  state.retry_cnt = ack_retries;
  state.rnr_retry = 0;  // there is always a posted receive; a missing one is a bug
  state.max_rd_atomic = 1;
  return ibv_modify_qp(
      pair, &state,
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

}  // namespace tutti::ibverbs
