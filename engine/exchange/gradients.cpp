// gradients: the mean of the gradients over all ranks, while backward runs. Replicas never differ.
#include <optional>

#include "engine/exchange/rules.hpp"
#include "nn/gradient_sync.hpp"

namespace tutti::engine::exchange {
namespace {

class Gradients final : public Strategy {
 public:
  explicit Gradients(std::unique_ptr<nn::GradientSync> sync)
      : Strategy({.name = "gradients", .about = "in " + std::to_string(sync->buckets()) + " gradient buckets"}),
        sync_(std::move(sync)) {}

  void begin_step(const StepShare& share) override {
    share_ = share;
    sync_->zero_grad();
    sync_->weight(static_cast<double>(share.count) / static_cast<double>(share.global_count));
    if (share.pieces > 1) kept_.emplace(*sync_);  // gradients leave with the last piece
  }

  double begin_piece(std::size_t piece, std::size_t count) override {
    if (piece + 1 == share_.pieces) kept_.reset();
    return static_cast<double>(count) / static_cast<double>(share_.count);
  }

  void end_backward() override {
    sync_->finish();
    ++stats_.exchanges;
    stats_.bytes = sync_->stats().bytes;
    ++stats_.finished;
    stats_.wait_seconds = sync_->stats().wait_seconds;
    stats_.exchange_seconds = sync_->stats().exchange_seconds;
  }

  std::vector<nn::NamedTensor> state() const override { return sync_->state(); }
  void load_state(const std::vector<nn::NamedTensor>& state) override { sync_->load_state(state); }

 private:
  std::unique_ptr<nn::GradientSync> sync_;
  std::optional<nn::GradientSync::NoSync> kept_;
  StepShare share_;
};

}  // namespace

std::unique_ptr<Strategy> make_gradients(const Config& config, Replica replica) {
  const nn::BucketOptions buckets{.first_bytes = static_cast<std::size_t>(config.sync.first_bucket_bytes),
                                  .cap_bytes = static_cast<std::size_t>(config.sync.bucket_bytes)};
  return std::make_unique<Gradients>(std::make_unique<nn::GradientSync>(
      std::move(replica.parameters), std::move(replica.world), buckets, replica.site));
}

}  // namespace tutti::engine::exchange
