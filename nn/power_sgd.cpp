// PowerSGD: one step of subspace iteration on the mean gradient, which no rank holds as a whole.
//
// M is a rank's gradient plus its error of the last step. P = mean(M Q), made orthonormal; Q = mean(M^T P). The mean is
// approximated by P Q^T, and the new error is M - P Q^T. Each step starts with the Q of the last one.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

#include "nn/compression.hpp"
#include "transports/core/hash.hpp"

namespace tutti::nn {
namespace {

struct Matrix {
  std::string name;
  at::Tensor gradient;  ///< (n, m): a view of the bucket
  at::Tensor left;      ///< (n, m): the error to feed back; M while a step is running
  at::Tensor p, q;      ///< (n, r), (m, r): views into ps_ and qs_, which are sent
  at::Tensor begin;     ///< (m, r): Q of the last step
};

/// Replaces the columns of `p` by an orthonormal basis of a space that contains them.
void make_orthonormal(at::Tensor& p) {
  const bool narrow = p.element_size() < 4;
  p.copy_(std::get<0>(at::linalg_qr(narrow ? p.to(at::kFloat) : p)));
}

/// The rank r with which a gradient of this shape is compressed; 0: it is sent uncompressed.
std::int64_t columns_of(at::IntArrayRef shape, const PowerSgdOptions& options) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  if (shape.size() < 2 || count == 0) return 0;
  const std::int64_t n = shape[0], m = count / n, r = std::min({options.rank, n, m});
  return static_cast<double>((n + m) * r) * options.least_saving < static_cast<double>(n * m) ? r : 0;
}

class PowerSgdCodec final : public Codec {
 public:
  PowerSgdCodec(const FlatBucket& bucket, Exchange& exchange, const PowerSgdOptions& options)
      : feedback_(options.feedback) {
    std::int64_t p_count = 0, q_count = 0;
    const auto rank_of = [&](const at::Tensor& part) { return columns_of(part.sizes(), options); };
    for (const auto& [name, part] : bucket.parts) {
      const std::int64_t r = rank_of(part), n = part.dim() < 1 ? 1 : part.size(0);
      p_count += r > 0 ? n * r : part.numel();
      q_count += r > 0 ? part.numel() / n * r : 0;
    }
    const at::ScalarType type = bucket.gradients.scalar_type();
    ps_ = exchange.allocate({p_count}, type);
    qs_ = exchange.allocate({q_count}, type);
    std::int64_t p_at = 0, q_at = 0;
    for (const auto& [name, part] : bucket.parts) {
      const std::int64_t r = rank_of(part);
      if (r == 0) {
        plain_.emplace_back(part.reshape({-1}), ps_.narrow(0, p_at, part.numel()));
        p_at += part.numel();
        continue;
      }
      const std::int64_t n = part.size(0), m = part.numel() / n;
      Matrix one{.name = name,
                 .gradient = part.view({n, m}),
                 .left = at::zeros({n, m}, part.options()),
                 .p = {},
                 .q = {},
                 .begin = {}};
      one.p = ps_.narrow(0, p_at, n * r).view({n, r});
      one.q = qs_.narrow(0, q_at, m * r).view({m, r});
      const auto draws = at::detail::createCPUGenerator(options.seed ^ fnv1a(name));
      one.begin = at::randn({m, r}, draws, at::TensorOptions().dtype(at::kDouble)).to(part.options());
      matrices_.push_back(std::move(one));
      p_at += n * r;
      q_at += m * r;
    }
  }

  void start(Exchange& exchange) override {
    for (Matrix& each : matrices_) {
      each.left.mul_(feedback_).add_(each.gradient);
      at::mm_out(each.p, each.left, each.begin);
    }
    for (auto& [gradient, place] : plain_) place.copy_(gradient);
    exchange.allreduce(ps_);
    at_second_ = false;
  }

  bool advance(Exchange& exchange) override {
    if (at_second_) {
      for (Matrix& each : matrices_) {
        at::mm_out(each.gradient, each.p, each.q.t());
        each.left.sub_(each.gradient);
        each.begin.copy_(each.q);
      }
      return true;
    }
    for (auto& [gradient, place] : plain_) gradient.copy_(place);
    for (Matrix& each : matrices_) {
      make_orthonormal(each.p);
      at::mm_out(each.q, each.left.t(), each.p);
    }
    if (matrices_.empty()) return true;
    exchange.allreduce(qs_);
    at_second_ = true;
    return false;
  }

  std::vector<NamedTensor> state() const override {
    std::vector<NamedTensor> all;
    for (const Matrix& each : matrices_) {
      all.emplace_back(each.name + ".error", each.left);
      all.emplace_back(each.name + ".q", each.begin);
    }
    return all;
  }

 private:
  const double feedback_;
  std::vector<Matrix> matrices_;
  /// a gradient that is sent uncompressed, and its view into ps_
  std::vector<std::pair<at::Tensor, at::Tensor>> plain_;
  at::Tensor ps_, qs_;
  bool at_second_ = false;
};

class PowerSgd final : public Compression {
 public:
  explicit PowerSgd(const PowerSgdOptions& options) : options_(options) {
    if (options.rank < 1 || !(options.least_saving >= 0))
      throw Error(Code::invalid, "PowerSGD takes a rank from 1 up and a least_saving from 0 up");
  }
  std::unique_ptr<Codec> codec(const FlatBucket& bucket, Exchange& exchange) const override {
    return std::make_unique<PowerSgdCodec>(bucket, exchange, options_);
  }
  std::string describe() const override { return "PowerSGD of rank " + std::to_string(options_.rank); }
  std::int64_t bytes(const BucketShape& bucket, std::int64_t) const override {
    std::int64_t elements = 0;
    for (const std::vector<std::int64_t>& shape : bucket.shapes) {
      const std::int64_t count = BucketShape{{shape}, 1}.count(), r = columns_of(shape, options_);
      elements += r > 0 ? (shape[0] + count / shape[0]) * r : count;
    }
    return elements * bucket.width;
  }

 private:
  PowerSgdOptions options_;
};

}  // namespace

std::shared_ptr<const Compression> power_sgd_compression(const PowerSgdOptions& options) {
  return std::make_shared<PowerSgd>(options);
}

}  // namespace tutti::nn
