// Compressions that use an Encoding, and the mask compression, which sends different values in each step.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "nn/compression.hpp"

namespace tutti::nn {
namespace {

/// The values that a codec has not sent yet (error feedback).
class Feedback {
 public:
  Feedback(const FlatBucket& bucket, double decay) : bucket_(bucket), decay_(decay) {
    if (decay > 0) left_ = at::zeros_like(bucket.gradients);
  }
  /// The values to send: the gradients plus the decayed remainder of earlier steps.
  at::Tensor due() const { return left_.defined() ? left_.mul_(decay_).add_(bucket_.gradients) : bucket_.gradients; }
  void sent(const at::Tensor& values) const {
    if (left_.defined()) left_.sub_(values);
  }
  bool keeps() const { return left_.defined(); }
  const at::Tensor& left() const { return left_; }
  std::vector<NamedTensor> state() const {
    std::vector<NamedTensor> all;
    std::int64_t at = 0;
    for (const auto& [name, part] : bucket_.parts) {
      if (left_.defined()) all.emplace_back(name + ".error", left_.narrow(0, at, part.numel()).view(part.sizes()));
      at += part.numel();
    }
    return all;
  }

 private:
  const FlatBucket bucket_;
  const double decay_;
  at::Tensor left_;
};

/// An allgather of all ranks' encoded buckets.
class GatheredCodec final : public Codec {
 public:
  GatheredCodec(const FlatBucket& bucket, Exchange& exchange, EncodingPtr encoding, double feedback)
      : gradients_(bucket.gradients), encoding_(std::move(encoding)), feedback_(bucket, feedback) {
    const std::int64_t bytes =
        encoding_->bytes(gradients_.numel(), static_cast<std::int64_t>(gradients_.element_size()));
    mine_ = exchange.allocate({bytes}, at::kByte);
    all_ = exchange.allocate({exchange.size(), bytes}, at::kByte);
  }
  void start(Exchange& exchange) override {
    encoding_->encode(feedback_.due(), mine_);
    if (feedback_.keeps()) feedback_.sent(encoding_->decode(mine_, gradients_.numel(), gradients_.scalar_type()));
    exchange.allgather(mine_, all_);
  }
  bool advance(Exchange&) override {
    gradients_.copy_(encoding_->merge(all_, gradients_.numel(), gradients_.scalar_type()));
    return true;
  }
  std::vector<NamedTensor> state() const override { return feedback_.state(); }

 private:
  const at::Tensor gradients_;
  const EncodingPtr encoding_;
  const Feedback feedback_;
  at::Tensor mine_, all_;
};

/// An allreduce on encoded values: each rank receives its block from all ranks, folds it, encodes the mean and sends it
/// to all ranks. The rank that owns the block feeds back the error of this second encoding.
class ReducedCodec final : public Codec {
 public:
  ReducedCodec(const FlatBucket& bucket, Exchange& exchange, EncodingPtr encoding, double feedback)
      : gradients_(bucket.gradients), encoding_(std::move(encoding)), feedback_(bucket, feedback) {
    const std::int64_t ranks = exchange.size(), scale = encoding_->block();
    block_ = encoded_block(gradients_.numel(), ranks, scale);
    bytes_ = encoding_->bytes(block_, static_cast<std::int64_t>(gradients_.element_size()));
    padded_ = at::zeros({ranks * block_}, gradients_.options());
    mine_ = exchange.allocate({ranks, bytes_}, at::kByte);
    theirs_ = exchange.allocate({ranks, bytes_}, at::kByte);
    mean_ = exchange.allocate({bytes_}, at::kByte);
  }
  void start(Exchange& exchange) override {
    const std::int64_t count = gradients_.numel();
    padded_.narrow(0, 0, count).copy_(feedback_.due());
    for (std::int64_t r = 0; r < exchange.size(); ++r) {
      const at::Tensor values = padded_.narrow(0, r * block_, block_);
      encoding_->encode(values, mine_[r]);
      if (feedback_.keeps()) values.copy_(encoding_->decode(mine_[r], block_, gradients_.scalar_type()));
    }
    feedback_.sent(padded_.narrow(0, 0, count));
    padded_.narrow(0, count, padded_.numel() - count).zero_();
    exchange.alltoall(mine_, theirs_);
    folded_ = false;
  }
  bool advance(Exchange& exchange) override {
    if (folded_) {
      for (std::int64_t r = 0; r < exchange.size(); ++r)
        padded_.narrow(0, r * block_, block_).copy_(encoding_->decode(mine_[r], block_, gradients_.scalar_type()));
      gradients_.copy_(padded_.narrow(0, 0, gradients_.numel()));
      padded_.zero_();
      return true;
    }
    const at::Tensor mean = encoding_->merge(theirs_, block_, gradients_.scalar_type());
    encoding_->encode(mean, mean_);
    if (feedback_.keeps()) {  // the error times the number of ranks, because the mean will divide by that number
      const std::int64_t begin = std::min(exchange.rank() * block_, gradients_.numel());
      const std::int64_t own = std::min(block_, gradients_.numel() - begin);
      const at::Tensor lost = mean.sub(encoding_->decode(mean_, block_, gradients_.scalar_type()));
      feedback_.left().narrow(0, begin, own).add_(lost.narrow(0, 0, own), static_cast<double>(exchange.size()));
    }
    exchange.allgather(mean_, mine_);
    folded_ = true;
    return false;
  }
  std::vector<NamedTensor> state() const override { return feedback_.state(); }

 private:
  const at::Tensor gradients_;
  const EncodingPtr encoding_;
  const Feedback feedback_;
  std::int64_t block_ = 0, bytes_ = 0;
  at::Tensor padded_, mine_, theirs_, mean_;
  bool folded_ = false;
};

class Encoded final : public Compression {
 public:
  Encoded(EncodingPtr encoding, double feedback) : encoding_(std::move(encoding)), feedback_(feedback) {
    if (!(feedback >= 0 && feedback <= 1))
      throw Error(Code::invalid, "of what was left out, a part from 0 to 1 is added the next time");
  }
  std::unique_ptr<Codec> codec(const FlatBucket& bucket, Exchange& exchange) const override {
    if (encoding_->block() > 0) return std::make_unique<ReducedCodec>(bucket, exchange, encoding_, feedback_);
    return std::make_unique<GatheredCodec>(bucket, exchange, encoding_, feedback_);
  }
  std::string describe() const override { return encoding_->describe(); }
  std::int64_t bytes(const BucketShape& bucket, std::int64_t ranks) const override {
    const std::int64_t count = bucket.count(), scale = encoding_->block();
    if (scale == 0) return encoding_->bytes(count, bucket.width);
    return (ranks + 1) * encoding_->bytes(encoded_block(count, ranks, scale), bucket.width);
  }

 private:
  const EncodingPtr encoding_;
  const double feedback_;
};

class MaskCodec final : public Codec {
 public:
  MaskCodec(const FlatBucket& bucket, Exchange& exchange, const MaskOptions& options)
      : gradients_(bucket.gradients), feedback_(bucket, options.keep_others ? 0 : options.feedback), options_(options) {
    for (const auto& [name, part] : bucket.parts) names_.push_back(name);
    turn_ = at::zeros({1}, at::kLong);
    size_ = mask_size(gradients_.numel(), options.part);
    wire_ = exchange.allocate({size_}, gradients_.scalar_type());
  }
  void start(Exchange& exchange) override {
    places_ = masked(turn_.item<std::int64_t>());
    turn_.add_(1);
    const at::Tensor due = feedback_.due();
    const at::Tensor wire = wire_.narrow(0, 0, places_.numel());
    wire.copy_(due.index_select(0, places_));
    if (feedback_.keeps()) due.index_fill_(0, places_, 0);
    exchange.allreduce(wire);
  }
  bool advance(Exchange&) override {
    if (!options_.keep_others) gradients_.zero_();
    gradients_.index_copy_(0, places_, wire_.narrow(0, 0, places_.numel()));
    return true;
  }
  std::vector<NamedTensor> state() const override {
    std::vector<NamedTensor> all = feedback_.state();
    // The state has the parameter's name, so that it follows the parameter into new buckets.
    for (const std::string& name : names_) all.emplace_back(name + ".turn", turn_);
    return all;
  }

 private:
  /// The next slice of the current permutation; a new one is drawn when all slices have been used.
  at::Tensor masked(std::int64_t turn) {
    const std::int64_t count = gradients_.numel(), slices = std::max<std::int64_t>(1, (count + size_ - 1) / size_);
    if (turn / slices != drawn_ || !order_.defined()) {
      drawn_ = turn / slices;
      const auto draws =
          at::detail::createCPUGenerator(options_.seed ^ (static_cast<std::uint64_t>(drawn_) * 0x9e3779b97f4a7c15ULL +
                                                          static_cast<std::uint64_t>(count)));
      order_ = at::randperm(count, draws, at::TensorOptions().dtype(at::kLong)).to(gradients_.device());
    }
    const std::int64_t begin = turn % slices * size_;
    return order_.narrow(0, begin, std::min(size_, count - begin));
  }

  const at::Tensor gradients_;
  const Feedback feedback_;
  const MaskOptions options_;
  std::vector<std::string> names_;
  std::int64_t size_ = 0, drawn_ = -1;
  at::Tensor turn_, wire_, order_, places_;
};

class Mask final : public Compression {
 public:
  explicit Mask(const MaskOptions& options) : options_(options) {
    if (!(options.part > 0 && options.part <= 1))
      throw Error(Code::invalid, "a mask is a part of the values above 0 and at most 1");
  }
  std::unique_ptr<Codec> codec(const FlatBucket& bucket, Exchange& exchange) const override {
    return std::make_unique<MaskCodec>(bucket, exchange, options_);
  }
  std::string describe() const override { return "mask of " + std::to_string(options_.part); }
  std::int64_t bytes(const BucketShape& bucket, std::int64_t) const override {
    return mask_size(bucket.count(), options_.part) * bucket.width;
  }

 private:
  const MaskOptions options_;
};

}  // namespace

std::int64_t encoded_block(std::int64_t count, std::int64_t ranks, std::int64_t scale) {
  const std::int64_t each = (count + ranks - 1) / ranks;
  return (each + scale - 1) / scale * scale;
}

std::int64_t mask_size(std::int64_t count, double part) {
  return std::min(count,
                  std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(part * static_cast<double>(count)))));
}

std::shared_ptr<const Compression> encoded_compression(EncodingPtr encoding, double feedback) {
  return std::make_shared<Encoded>(std::move(encoding), feedback);
}

std::shared_ptr<const Compression> mask_compression(const MaskOptions& options) {
  return std::make_shared<Mask>(options);
}

}  // namespace tutti::nn
