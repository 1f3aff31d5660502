#include "nn/exchange.hpp"

#include <utility>

#include "nn/tensor.hpp"
#include "nn/tensor_device.hpp"

namespace tutti::nn {

Exchange::Exchange(Communicator communicator, std::shared_ptr<TensorDevice> tensor_device, SyncStats& stats)
    : communicator_(std::move(communicator)), tensor_device_(std::move(tensor_device)), stats_(stats) {}

at::Tensor Exchange::allocate(at::IntArrayRef sizes, at::ScalarType type) {
  std::int64_t count = 1;
  for (const std::int64_t each : sizes) count *= each;
  const std::size_t bytes = static_cast<std::size_t>(count) * c10::elementSize(type);
  at::Tensor memory = tensor_device_->tensor(tensor_device_->allocate(communicator_, bytes), 0, sizes, type);
  memory.zero_();
  return memory;
}

void Exchange::count(std::size_t bytes) {
  ++stats_.collectives;
  stats_.bytes += bytes;
}

void Exchange::allreduce(const at::Tensor& values, Reduction op) {
  const Buffer lent = buffer(values);
  tensor_device_->note_computed();
  open_.push_back(communicator_.allreduce(lent, op, values.is_cuda() ? tensor_device_->options() : CallOptions()));
  count(lent.bytes());
}

void Exchange::allreduce(Buffer values, Reduction op) {
  open_.push_back(communicator_.allreduce(values, op, tensor_device_->options()));
  count(values.bytes());
}

void Exchange::allgather(const at::Tensor& mine, const at::Tensor& all) {
  const Buffer from = buffer(mine), into = buffer(all);
  tensor_device_->note_computed();
  open_.push_back(communicator_.allgather(from, into, mine.is_cuda() ? tensor_device_->options() : CallOptions()));
  count(from.bytes());
}

void Exchange::alltoall(const at::Tensor& mine, const at::Tensor& theirs) {
  const Buffer from = buffer(mine), into = buffer(theirs);
  tensor_device_->note_computed();
  open_.push_back(communicator_.alltoall(from, into, mine.is_cuda() ? tensor_device_->options() : CallOptions()));
  count(from.bytes());
}

void Exchange::wait() {
  for (Work& each : open_) each.wait();
  open_.clear();
}

}  // namespace tutti::nn
