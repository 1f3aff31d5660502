// What a GradientSync is made of; for its own files alone.
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
#include "nn/site.hpp"

namespace tutti::nn {

struct GradientSync::State {
  /// A shared_ptr or, in newer LibTorch, an intrusive_ptr to the accumulating node.
  using Accumulator = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

  struct Slot {
    std::string name;
    at::Tensor parameter;
    at::Tensor view = {};  ///< its place in the bucket
    std::size_t bucket = 0;
    std::size_t place = 0;  ///< within the bucket
    bool ready = false;     ///< the view holds this backward's gradient
    std::size_t sent = 0;   ///< times in this step
    std::size_t exchanges = 0;
    Accumulator accumulator = {};
    std::uintptr_t hook = 0;
  };

  struct Bucket {
    std::shared_ptr<std::byte> memory = {};
    Buffer all = {};           ///< gradients and, where there is no codec, presence
    at::Tensor presence = {};  ///< one element per parameter, 1 where there is a gradient; undefined with a codec
    std::vector<std::size_t> slots = {};
    std::size_t missing = 0;
    std::unique_ptr<Codec> codec = {};        ///< null: gradients go as they are
    std::unique_ptr<Exchange> exchange = {};  // destroyed first, and so its calls are waited for
  };

  State(Communicator world, std::shared_ptr<Site> place, const BucketOptions& wanted)
      : communicator(std::move(world)), site(std::move(place)), options(wanted) {}

  // gradient_state.cpp: how gradients are grouped.
  void build(const std::vector<std::size_t>& order);
  void make_bucket(const BucketPlan& plan);
  void agree();
  std::vector<NamedTensor> codec_state() const;
  void load_codec_state(const std::vector<NamedTensor>& kept);

  // gradient_sync.cpp: a step.
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
  const std::shared_ptr<Site> site;
  const BucketOptions options;
  std::vector<Slot> slots;
  std::vector<NamedTensor> sparse;     ///< parameters whose gradients are rows
  std::vector<std::size_t> order;      ///< of the slots, as they lie in the buckets
  bool agreed = false;                 ///< that order is the one in which gradients become ready
  std::vector<std::int64_t> arrivals;  ///< of this backward, until it is agreed
  std::size_t next_bucket = 0;         ///< the first that has not left
  std::size_t missing = 0;             ///< gradients of this backward that are not there yet
  std::vector<std::uint8_t> present;   ///< slots that have a gradient somewhere; with codecs
  double factor = 1;                   ///< share * size, because the reduction is a mean
  int muted = 0;                       ///< NoSync guards alive
  SyncStats stats;
  std::chrono::steady_clock::time_point left = {};  ///< when the first bucket did
  std::vector<Bucket> buckets;                      // after stats, which they count in
};

}  // namespace tutti::nn
