// NCCL's functions, by their own names.
#include "tests/support/fake_nccl/fake_nccl.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "tests/support/fake_nccl/comm.hpp"
#include "tutti/dtype.hpp"
#include "tutti/reduce.hpp"

namespace fake_nccl {
namespace {

using namespace tutti::nccl;
using tutti::DType;
using tutti::Fold;
using tutti::Op;

std::atomic<const Runtime*> used{nullptr};
std::mutex error_mutex;
std::string& last_error() {
  static auto& text = *new std::string;
  return text;
}

std::mutex comms_mutex;
std::map<CommHandle, std::shared_ptr<Comm>>& comms() {
  static auto& all = *new std::map<CommHandle, std::shared_ptr<Comm>>;
  return all;
}
std::map<std::pair<CommHandle, int>, double>& factors() {  // of premul-sum operators
  static auto& all = *new std::map<std::pair<CommHandle, int>, double>;
  return all;
}

std::shared_ptr<Comm> find(CommHandle handle) {
  const std::lock_guard lock(comms_mutex);
  const auto found = comms().find(handle);
  return found == comms().end() ? nullptr : found->second;
}

std::shared_ptr<Comm> take(CommHandle handle) {
  const std::lock_guard lock(comms_mutex);
  const auto found = comms().find(handle);
  if (found == comms().end()) return nullptr;
  auto comm = found->second;
  comms().erase(found);
  return comm;
}

Result open(CommHandle* into, std::shared_ptr<Comm> comm, const Config* config) {
  *into = reinterpret_cast<CommHandle>(comm.get());
  {
    const std::lock_guard lock(comms_mutex);
    comms()[*into] = comm;
  }
  const bool blocking = config == nullptr || config->blocking != 0;
  comm->begin(blocking);
  if (!blocking) return in_progress;
  while (comm->state() == in_progress) ::usleep(100);
  return comm->state();
}

DType dtype_of(DataType type) {
  switch (type) {
    case int8: return DType::i8;
    case uint8: return DType::u8;
    case int32: return DType::i32;
    case int64: return DType::i64;
    case uint32: return DType::u32;
    case uint64: return DType::u64;
    case float16: return DType::f16;
    case bfloat16: return DType::bf16;
    case float32: return DType::f32;
    default: return DType::f64;
  }
}

struct Operation {
  Fold fold;
  bool scaled = false;
  double factor = 1.0;
};

Operation operation_of(RedOp op, DataType type, const Comm& comm, CommHandle handle) {
  Operation made;
  made.fold = {dtype_of(type), Op::sum, 1.0};
  if (op == op_prod) made.fold.op = Op::prod;
  if (op == op_max) made.fold.op = Op::max;
  if (op == op_min) made.fold.op = Op::min;
  if (op == op_avg) made.fold.divisor = comm.size();
  const std::lock_guard lock(comms_mutex);
  if (const auto found = factors().find({handle, op}); found != factors().end()) {
    made.scaled = true;
    made.factor = found->second;
  }
  return made;
}

// ---- groups ------------------------------------------------------------------------------------

struct Pending {
  std::shared_ptr<Comm> comm;
  void* stream;
  Task task;
};
thread_local int depth = 0;
thread_local std::vector<Pending> pending;

Result launch_pending() {
  Result worst = success;
  for (Pending& one : pending)
    if (const Result result = one.comm->launch(std::move(one.task), one.stream); result != success) worst = result;
  pending.clear();
  return worst;
}

Result add(CommHandle handle, void* stream, const std::function<void(Comm&, Task&)>& fill) {
  const auto comm = find(handle);
  if (!comm || runtime() == nullptr) return say_error("no such communicator, or no runtime"), invalid_argument;
  auto there = std::ranges::find_if(pending, [&](const Pending& one) { return one.comm == comm; });
  if (there == pending.end()) there = pending.insert(pending.end(), Pending{comm, stream, {}});
  fill(*comm, there->task);
  return depth > 0 ? success : launch_pending();
}

std::uint64_t what(int kind, std::size_t bytes, int type, int op) {
  return ((std::uint64_t{bytes} * 31 + static_cast<unsigned>(kind)) * 31 + static_cast<unsigned>(type)) * 31 +
         static_cast<unsigned>(op);
}

// Returns the address of the data for the host; the caller's may be an address of a device.
std::byte* bytes_of(const void* memory) { return memory == nullptr ? nullptr : runtime()->seen(memory); }

/// The ranks' contributions, which are folded in the order of the ranks.
struct Contributions {
  std::vector<std::vector<std::byte>> parts;
  std::vector<std::byte> scaled;
};

struct Reducing {
  std::byte* from;      // this rank's data for rank 0
  std::size_t stride;   // bytes from there to the data for the next rank
  std::byte* into;      // null: this rank keeps no result
  std::size_t bytes;    // of one result
  std::vector<int> to;  // ranks that keep a result
  std::size_t whole;    // bytes at `from`
};

void fold_among(Comm& comm, Task& task, const Operation& operation, const Reducing& job, std::uint64_t name) {
  const auto held = std::make_shared<Contributions>();
  held->parts.resize(static_cast<std::size_t>(comm.size()));
  std::byte* from = job.from;
  if (operation.scaled) {
    held->scaled.resize(job.whole);
    from = held->scaled.data();
    task.begins.push_back([held, job, operation] {
      tutti::scale(operation.fold.dtype, held->scaled.data(), job.from, job.whole, operation.factor);
    });
  }
  const int me = comm.rank();
  for (const int to : job.to)
    if (to != me)
      task.transfers.push_back({to, true, from + static_cast<std::size_t>(to) * job.stride, job.bytes, name});
  if (std::ranges::count(job.to, me) == 0) return;
  for (int r = 0; r < comm.size(); ++r) {
    if (r == me) continue;
    auto& part = held->parts[static_cast<std::size_t>(r)];
    part.resize(job.bytes);
    task.transfers.push_back({r, false, part.data(), job.bytes, name});
  }
  const std::byte* const own = from + static_cast<std::size_t>(me) * job.stride;
  task.ends.push_back([held, job, operation, own, me] {
    std::vector<const std::byte*> sources;
    for (std::size_t r = 0; r < held->parts.size(); ++r)
      sources.push_back(static_cast<int>(r) == me ? own : held->parts[r].data());
    std::vector<std::byte> result(job.bytes);
    operation.fold.of(result.data(), sources, job.bytes);
    if (job.bytes > 0) std::memcpy(job.into, result.data(), job.bytes);
  });
}

std::vector<int> everyone(const Comm& comm) {
  std::vector<int> all;
  for (int r = 0; r < comm.size(); ++r) all.push_back(r);
  return all;
}

std::string fresh_name() {
  static std::atomic<int> count{0};
  return "/fake_nccl_" + std::to_string(::getpid()) + "_" + std::to_string(count++) + "_" +
         std::to_string(std::random_device{}());
}

}  // namespace

const Runtime* runtime() noexcept { return used.load(); }

void say_error(const std::string& text) {
  const std::lock_guard lock(error_mutex);
  last_error() = text;
}

}  // namespace fake_nccl

using namespace fake_nccl;

extern "C" {

void fake_nccl_use(const Runtime* it) { used = it; }

std::size_t fake_nccl_launches(int device, std::uint64_t* names, std::size_t most) {
  const auto all = Device::of(device).launches();
  std::copy_n(all.begin(), std::min(most, all.size()), names);
  return all.size();
}

int fake_nccl_alive() {
  const std::lock_guard lock(comms_mutex);
  return static_cast<int>(comms().size());
}

Result ncclGetVersion(int* version) {
  const char* const told = std::getenv("FAKE_NCCL_VERSION");
  *version = told ? std::atoi(told) : 22703;
  return success;
}

Result ncclGetUniqueId(UniqueId* id) {
  const std::string name = fresh_name();
  std::memcpy(id->bytes, name.c_str(), name.size() + 1);
  return success;
}

Result ncclCommInitRankConfig(CommHandle* into, int size, UniqueId id, int rank, Config* config) {
  if (runtime() == nullptr) return say_error("no runtime"), unhandled_cuda_error;
  if (size > most_ranks || config->magic != 0xcafebeef) return invalid_argument;
  return open(into, std::make_shared<Comm>(rank, size, id.bytes, runtime()->current_device()), config);
}

Result ncclCommFinalize(CommHandle handle) {
  const auto comm = find(handle);
  return comm ? comm->finish() : invalid_argument;
}

Result ncclCommDestroy(CommHandle handle) {
  const auto comm = take(handle);
  return comm ? success : invalid_argument;
}

Result ncclCommAbort(CommHandle handle) {
  const auto comm = take(handle);
  if (!comm) return invalid_argument;
  comm->abort();
  return success;
}

Result ncclCommGetAsyncError(CommHandle handle, Result* state) {
  const auto comm = find(handle);
  if (!comm) return invalid_argument;
  *state = comm->state();
  return success;
}

Result ncclCommCount(CommHandle handle, int* count) {
  const auto comm = find(handle);
  if (!comm) return invalid_argument;
  *count = comm->size();
  return comm->finish();
}

const char* ncclGetErrorString(Result result) {
  constexpr const char* texts[] = {"no error",
                                   "unhandled cuda error",
                                   "unhandled system error",
                                   "internal error",
                                   "invalid argument",
                                   "invalid usage",
                                   "remote process exited or there was a network error",
                                   "NCCL operation in progress"};
  return result >= 0 && result < 8 ? texts[result] : "unknown result code";
}

const char* ncclGetLastError(CommHandle) {
  thread_local std::string copy;
  const std::lock_guard lock(error_mutex);
  copy = last_error();
  return copy.c_str();
}

Result ncclRedOpCreatePreMulSum(RedOp* op, void* scalar, DataType type, Residence, CommHandle handle) {
  static std::atomic<int> next{100};
  double factor = 0;
  float narrow = 0;
  std::uint16_t half = 0;
  std::memcpy(&half, scalar, sizeof half);
  if (type == float64) std::memcpy(&factor, scalar, sizeof factor);
  if (type == float32) std::memcpy(&narrow, scalar, sizeof narrow), factor = narrow;
  if (type == float16) factor = static_cast<double>(static_cast<float>(std::bit_cast<tutti::f16>(half)));
  if (type == bfloat16) factor = static_cast<double>(static_cast<float>(std::bit_cast<tutti::bf16>(half)));
  *op = static_cast<RedOp>(next++);
  const std::lock_guard lock(comms_mutex);
  factors()[{handle, *op}] = factor;
  return success;
}

Result ncclRedOpDestroy(RedOp op, CommHandle handle) {
  const std::lock_guard lock(comms_mutex);
  return factors().erase({handle, op}) == 1 ? success : invalid_argument;
}

Result ncclReduce(const void* from, void* into, std::size_t count, DataType type, RedOp op, int root, CommHandle handle,
                  StreamHandle stream) {
  return add(handle, stream, [&](Comm& comm, Task& task) {
    const Operation operation = operation_of(op, type, comm, handle);
    const std::size_t bytes = count * operation.fold.width();
    fold_among(comm, task, operation, {bytes_of(from), 0, bytes_of(into), bytes, {root}, bytes},
               what(1, bytes, type, operation.scaled ? 99 : op));
  });
}

Result ncclAllReduce(const void* from, void* into, std::size_t count, DataType type, RedOp op, CommHandle handle,
                     StreamHandle stream) {
  return add(handle, stream, [&](Comm& comm, Task& task) {
    const Operation operation = operation_of(op, type, comm, handle);
    const std::size_t bytes = count * operation.fold.width();
    fold_among(comm, task, operation, {bytes_of(from), 0, bytes_of(into), bytes, everyone(comm), bytes},
               what(2, bytes, type, operation.scaled ? 99 : op));
  });
}

Result ncclReduceScatter(const void* from, void* into, std::size_t count, DataType type, RedOp op, CommHandle handle,
                         StreamHandle stream) {
  return add(handle, stream, [&](Comm& comm, Task& task) {
    const Operation operation = operation_of(op, type, comm, handle);
    const std::size_t bytes = count * operation.fold.width();
    fold_among(
        comm, task, operation,
        {bytes_of(from), bytes, bytes_of(into), bytes, everyone(comm), bytes * static_cast<std::size_t>(comm.size())},
        what(3, bytes, type, operation.scaled ? 99 : op));
  });
}

Result ncclBroadcast(const void* from, void* into, std::size_t count, DataType type, int root, CommHandle handle,
                     StreamHandle stream) {
  return add(handle, stream, [&](Comm& comm, Task& task) {
    const std::size_t bytes = count * tutti::size_of(dtype_of(type));
    const std::uint64_t name = what(4, bytes, 0, root);
    if (comm.rank() != root) return task.transfers.push_back({root, false, bytes_of(into), bytes, name});
    for (int r = 0; r < comm.size(); ++r)
      if (r != root) task.transfers.push_back({r, true, bytes_of(from), bytes, name});
    if (from != into && bytes > 0)
      task.ends.push_back([source = bytes_of(from), to = bytes_of(into), bytes] { std::memmove(to, source, bytes); });
  });
}

Result ncclAllGather(const void* from, void* into, std::size_t count, DataType type, CommHandle handle,
                     StreamHandle stream) {
  return add(handle, stream, [&](Comm& comm, Task& task) {
    const std::size_t bytes = count * tutti::size_of(dtype_of(type));
    const std::uint64_t name = what(5, bytes, 0, 0);
    std::byte* const own = bytes_of(into) + static_cast<std::size_t>(comm.rank()) * bytes;
    for (int r = 0; r < comm.size(); ++r) {
      if (r == comm.rank()) continue;
      task.transfers.push_back({r, true, bytes_of(from), bytes, name});
      task.transfers.push_back({r, false, bytes_of(into) + static_cast<std::size_t>(r) * bytes, bytes, name});
    }
    if (std::byte* const source = bytes_of(from); own != source && bytes > 0)
      task.ends.push_back([=] { std::memmove(own, source, bytes); });
  });
}

Result ncclSend(const void* from, std::size_t count, DataType type, int peer, CommHandle handle, StreamHandle stream) {
  return add(handle, stream, [&](Comm&, Task& task) {
    const std::size_t bytes = count * tutti::size_of(dtype_of(type));
    task.transfers.push_back({peer, true, bytes_of(from), bytes, what(6, 0, 0, 0)});
  });
}

Result ncclRecv(void* into, std::size_t count, DataType type, int peer, CommHandle handle, StreamHandle stream) {
  return add(handle, stream, [&](Comm&, Task& task) {
    const std::size_t bytes = count * tutti::size_of(dtype_of(type));
    task.transfers.push_back({peer, false, bytes_of(into), bytes, what(6, 0, 0, 0)});
  });
}

Result ncclGroupStart() {
  ++depth;
  return success;
}

Result ncclGroupEnd() { return --depth > 0 ? success : launch_pending(); }

}  // extern "C"
