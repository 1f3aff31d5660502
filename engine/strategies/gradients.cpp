// what=gradients: averages gradients over all ranks while backward runs. The replicas stay equal.
#include <limits>
#include <optional>

#include "engine/strategies/makers.hpp"
#include "nn/compression.hpp"
#include "nn/gradient_sync.hpp"

namespace tutti::engine::exchange {
namespace {

/// Returns true if each rank has a residual of its own, as with error feedback.
bool keeps_errors(const CodecChoice& codec) { return codec.feedback > 0; }

class Gradients final : public Strategy {
 public:
  /// `ranks` is 0, except with batch normalization over all ranks: then losses are weighted instead of gradients, and
  /// `ranks` is the number of ranks.
  Gradients(std::unique_ptr<nn::GradientSync> sync, const nn::Compression* compression, const Axes& axes, int size,
            int ranks)
      : Strategy({.name = "gradients" + (compression ? " by " + axes.codec.describe() : ""),
                  .about = "in " + std::to_string(sync->buckets()) + " gradient buckets" +
                           (compression ? " by " + compression->describe() : ""),
                  .rate_factor = axes.scale_lr ? size : 1.0,
                  .alike_when_settled = !keeps_errors(axes.codec),
                  .equal_gradients = compression == nullptr}),
        sync_(std::move(sync)),
        ranks_(ranks) {}

  void begin_step(const StepShare& share) override {
    share_ = share;
    sync_->zero_grad();
    if (ranks_ == 0) sync_->weight(static_cast<double>(share.count) / static_cast<double>(share.global_count));
    if (share.pieces > 1) kept_.emplace(*sync_);  // gradients are sent during the last piece
  }

  double begin_piece(std::size_t piece, std::size_t count) override {
    if (piece + 1 == share_.pieces) kept_.reset();
    if (ranks_ > 0) return static_cast<double>(count) * ranks_ / static_cast<double>(share_.global_count);
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
  const int ranks_;
  StepShare share_;
};

}  // namespace

std::unique_ptr<Strategy> make_gradients(const Config& config, const Axes& axes, Replica replica) {
  const auto all = std::numeric_limits<std::size_t>::max();  // one bucket, which is sent when backward ends
  const nn::BucketOptions buckets{
      .first_bytes = axes.overlap ? static_cast<std::size_t>(config.sync.first_bucket_bytes) : all,
      .cap_bytes = axes.overlap ? static_cast<std::size_t>(config.sync.bucket_bytes) : all,
      .compression = compression_of(axes, static_cast<std::uint64_t>(config.seed)),
      .reorder = axes.reorder};
  const int size = replica.world.size(), ranks = config.sync.batch_norm ? size : 0;
  auto sync = std::make_unique<nn::GradientSync>(std::move(replica.parameters), std::move(replica.world), buckets,
                                                 replica.tensor_device);
  return std::make_unique<Gradients>(std::move(sync), buckets.compression.get(), axes, size, ranks);
}

}  // namespace tutti::engine::exchange
