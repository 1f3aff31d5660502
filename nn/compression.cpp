// Casts and top-k. PowerSGD is in power_sgd.cpp, encodings and masks in encoded.cpp.
#include "nn/compression.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tutti::nn {
namespace {

class CastCodec final : public Codec {
 public:
  CastCodec(const FlatBucket& bucket, Exchange& exchange, at::ScalarType wire) : gradients_(bucket.gradients) {
    const bool narrow = gradients_.element_size() <= 2;
    wire_ = narrow ? gradients_ : exchange.allocate(gradients_.sizes(), wire);
  }
  void start(Exchange& exchange) override {
    if (!wire_.is_same(gradients_)) wire_.copy_(gradients_);
    exchange.allreduce(wire_);
  }
  bool advance(Exchange&) override {
    if (!wire_.is_same(gradients_)) gradients_.copy_(wire_);
    return true;
  }

 private:
  at::Tensor gradients_, wire_;
};

class Cast final : public Compression {
 public:
  explicit Cast(DType wire) : wire_(wire) {
    if (wire != DType::f16 && wire != DType::bf16)
      throw Error(Code::invalid, "gradients can be cast to f16 or bf16, not to " + std::string(name(wire)));
  }
  std::unique_ptr<Codec> codec(const FlatBucket& bucket, Exchange& exchange) const override {
    return std::make_unique<CastCodec>(bucket, exchange, wire_ == DType::f16 ? at::kHalf : at::kBFloat16);
  }
  std::string describe() const override { return std::string(name(wire_)); }
  std::int64_t bytes(const BucketShape& bucket, std::int64_t) const override {
    return bucket.count() * std::min<std::int64_t>(2, bucket.width);
  }

 private:
  DType wire_;
};

std::int64_t largest(std::int64_t count, double part) {
  return std::min(count, std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(part * double(count)))));
}

class TopKCodec final : public Codec {
 public:
  TopKCodec(const FlatBucket& bucket, Exchange& exchange, double part, double feedback)
      : bucket_(bucket), feedback_(feedback), error_(at::zeros_like(bucket.gradients)) {
    const std::int64_t count = bucket.gradients.numel();
    if (count > std::numeric_limits<std::int32_t>::max())
      throw Error(Code::unsupported, "top-k takes buckets of fewer than 2^31 elements, but '" +
                                         bucket.parts.front().first + "' is larger: choose another compression");
    kept_ = largest(count, part);
    value_bytes_ = kept_ * static_cast<std::int64_t>(bucket.gradients.element_size());
    const std::int64_t bytes = (value_bytes_ + kept_ * 4 + 7) / 8 * 8;
    mine_ = exchange.allocate({bytes}, at::kByte);
    all_ = exchange.allocate({exchange.size(), bytes}, at::kByte);
  }

  void start(Exchange& exchange) override {
    error_.mul_(feedback_).add_(bucket_.gradients);
    const at::Tensor places = std::get<1>(error_.abs().topk(kept_, 0, true, false));
    mine_.narrow(0, 0, value_bytes_).copy_(error_.index_select(0, places).view(at::kByte));
    mine_.narrow(0, value_bytes_, kept_ * 4).copy_(places.to(at::kInt).view(at::kByte));
    error_.index_fill_(0, places, 0);
    exchange.allgather(mine_, all_);
  }

  bool advance(Exchange& exchange) override {
    bucket_.gradients.zero_();
    // Added in the same order on all ranks, so that results are bitwise equal.
    for (std::int64_t rank = 0; rank < exchange.size(); ++rank) {
      const at::Tensor values = all_[rank].narrow(0, 0, value_bytes_).view(bucket_.gradients.scalar_type());
      const at::Tensor places = all_[rank].narrow(0, value_bytes_, kept_ * 4).view(at::kInt).to(at::kLong);
      bucket_.gradients.index_add_(0, places, values);
    }
    bucket_.gradients.div_(exchange.size());
    return true;
  }

  std::vector<NamedTensor> state() const override {
    std::vector<NamedTensor> all;
    std::int64_t at = 0;
    for (const auto& [name, part] : bucket_.parts) {
      all.emplace_back(name + ".error", error_.narrow(0, at, part.numel()).view(part.sizes()));
      at += part.numel();
    }
    return all;
  }

 private:
  FlatBucket bucket_;
  const double feedback_;
  at::Tensor error_, mine_, all_;
  std::int64_t kept_ = 0, value_bytes_ = 0;
};

class TopK final : public Compression {
 public:
  TopK(double part, double feedback) : part_(part), feedback_(feedback) {
    if (!(part > 0 && part <= 1))
      throw Error(Code::invalid,
                  "top-k keeps a part above 0 and at most 1 of the gradients, not " + std::to_string(part));
  }
  std::unique_ptr<Codec> codec(const FlatBucket& bucket, Exchange& exchange) const override {
    return std::make_unique<TopKCodec>(bucket, exchange, part_, feedback_);
  }
  std::string describe() const override { return "top-k of " + std::to_string(part_); }
  std::int64_t bytes(const BucketShape& bucket, std::int64_t) const override {
    return (largest(bucket.count(), part_) * (bucket.width + 4) + 7) / 8 * 8;
  }

 private:
  double part_, feedback_;
};

}  // namespace

std::int64_t BucketShape::count() const {
  std::int64_t all = 0;
  for (const std::vector<std::int64_t>& shape : shapes) {
    std::int64_t one = 1;
    for (const std::int64_t size : shape) one *= size;
    all += one;
  }
  return all;
}

std::shared_ptr<const Compression> cast_compression(DType wire) { return std::make_shared<Cast>(wire); }
std::shared_ptr<const Compression> top_k_compression(double part, double feedback) {
  return std::make_shared<TopK>(part, feedback);
}

}  // namespace tutti::nn
