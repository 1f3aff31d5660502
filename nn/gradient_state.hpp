// GradientSync::State: the private data of a GradientSync, for its own source files.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/bucket.hpp"
#include "nn/compression.hpp"
#include "nn/gradient_sync.hpp"
#include "nn/tensor_device.hpp"

namespace tutti::nn {

struct GradientSync::State {
  /// The reference to autograd's AccumulateGrad node: shared_ptr or, in newer LibTorch, intrusive_ptr.
  using Accumulator = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

  struct Slot {
    std::string name;
    at::Tensor parameter;
    at::Tensor view = {};  ///< the parameter's part of the bucket's memory
    std::size_t bucket = 0;
    std::size_t place = 0;  ///< index within the bucket
    bool ready = false;     ///< true if `view` holds the gradient of the current backward
    std::size_t sent = 0;   ///< how often the gradient was sent in this step
    std::size_t exchanges = 0;
    Accumulator accumulator = {};
    std::uintptr_t hook = 0;
  };

  struct Bucket {
    std::shared_ptr<std::byte> memory = {};
    Buffer all = {};           ///< the gradients and, without a codec, `presence`
    at::Tensor presence = {};  ///< one element per parameter, 1 if this rank has a gradient; undefined with a codec
    std::vector<std::size_t> slots = {};
    std::size_t missing = 0;
    std::unique_ptr<Codec> codec = {};        ///< null: gradients are sent uncompressed
    std::unique_ptr<Exchange> exchange = {};  // last, so that it is destroyed first: its Works wait for the collectives
  };

  State(Communicator world, std::shared_ptr<TensorDevice> place, const BucketOptions& wanted)
      : communicator(std::move(world)), tensor_device(std::move(place)), options(wanted) {}

  // Defined in gradient_state.cpp: grouping into buckets.
  void build(const std::vector<std::size_t>& order);
  void make_bucket(const BucketPlan& plan);
  void agree();
  std::vector<NamedTensor> codec_state() const;
  void load_codec_state(const std::vector<NamedTensor>& kept);

  // Defined in gradient_sync.cpp: one step.
  void begin();
  void arrived(std::size_t slot);
  void pack(Slot& slot);
  void send_ready();
  void send(Bucket& bucket);
  void note_presence(Bucket& bucket);
  void fill_absent();
  void receive();
  void audit() const;
  void publish();

  Communicator communicator;
  const std::shared_ptr<TensorDevice> tensor_device;
  const BucketOptions options;
  std::vector<Slot> slots;
  std::vector<NamedTensor> sparse;  ///< parameters with sparse gradients
  std::vector<std::size_t> order;   ///< indices of the slots, in the order in which they lie in the buckets
  bool agreed = false;              ///< true if `order` is the agreed order in which gradients become ready
  /// slots in the order in which their gradients became ready in this backward; recorded until the order is agreed
  std::vector<std::int64_t> arrivals;
  std::size_t next_bucket = 0;        ///< the first bucket that has not been sent
  std::size_t missing = 0;            ///< gradients of this backward that have not arrived
  std::vector<std::uint8_t> present;  ///< with codecs: slots for which some rank has a gradient
  double factor = 1;                  ///< share * size(), because the reduction divides by size()
  int muted = 0;                      ///< number of live NoSync guards
  SyncStats stats;
  std::chrono::steady_clock::time_point left = {};  ///< when the first bucket was sent
  std::vector<Bucket> buckets;                      // declared after `stats`, which the buckets' exchanges refer to
};

}  // namespace tutti::nn
