// The declarations of NCCL used by this backend, so that building needs no NCCL headers. The values are those of NCCL
// 2.19 and later; a test compares them with the header if there is one.
#pragma once

#include <climits>
#include <cstddef>

namespace tutti::nccl {

/// The oldest supported version, as ncclGetVersion() returns it. NCCL 2.18 cannot abort a communicator while another
/// thread is in a call.
inline constexpr int oldest_version = 21900;

struct UniqueId {
  char bytes[128] = {};
};
struct CommObject;
using CommHandle = CommObject*;

enum Result : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

enum DataType : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9
};
enum RedOp : int { op_sum = 0, op_prod = 1, op_max = 2, op_min = 3, op_avg = 4 };
enum Residence : int { scalar_device = 0, scalar_host_immediate = 1 };

/// ncclConfig_t as of version 2.19, which later versions accept.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = oldest_version;
  int blocking = INT_MIN;  // undefined: NCCL's default
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};

/// cudaStream_t.
using StreamHandle = void*;

/// NCCL's functions, looked up at run time.
struct Api {
  Result (*get_version)(int*);
  Result (*get_unique_id)(UniqueId*);
  Result (*comm_init_rank_config)(CommHandle*, int, UniqueId, int, Config*);
  Result (*comm_finalize)(CommHandle);
  Result (*comm_destroy)(CommHandle);
  Result (*comm_abort)(CommHandle);
  Result (*comm_get_async_error)(CommHandle, Result*);
  Result (*comm_count)(CommHandle, int*);
  const char* (*get_error_string)(Result);
  const char* (*get_last_error)(CommHandle);
  Result (*red_op_create_pre_mul_sum)(RedOp*, void*, DataType, Residence, CommHandle);
  Result (*red_op_destroy)(RedOp, CommHandle);
  Result (*reduce)(const void*, void*, std::size_t, DataType, RedOp, int, CommHandle, StreamHandle);
  Result (*broadcast)(const void*, void*, std::size_t, DataType, int, CommHandle, StreamHandle);
  Result (*all_reduce)(const void*, void*, std::size_t, DataType, RedOp, CommHandle, StreamHandle);
  Result (*reduce_scatter)(const void*, void*, std::size_t, DataType, RedOp, CommHandle, StreamHandle);
  Result (*all_gather)(const void*, void*, std::size_t, DataType, CommHandle, StreamHandle);
  Result (*send)(const void*, std::size_t, DataType, int, CommHandle, StreamHandle);
  Result (*recv)(void*, std::size_t, DataType, int, CommHandle, StreamHandle);
  Result (*group_start)();
  Result (*group_end)();
};

}  // namespace tutti::nccl
