// gradients: the mean of the gradients over all ranks, while backward runs. Replicas never differ.
#include <optional>

#include "engine/exchange/rules.hpp"
#include "nn/compression.hpp"
#include "nn/gradient_sync.hpp"

namespace tutti::engine::exchange {
namespace {

std::shared_ptr<const nn::Compression> compression_of(const Options& options) {
  const std::string& name = options.text("compression");
  if (name == "none") return nullptr;
  if (name == "f16") return nn::cast_compression(DType::f16);
  if (name == "bf16") return nn::cast_compression(DType::bf16);
  if (name == "top_k") return nn::top_k_compression(options.number("top_k"));
  return nn::power_sgd_compression(
      {.rank = options.whole("power_rank"), .least_saving = options.number("least_saving")});
}

/// What is left over for later steps is each rank's own.
bool keeps_errors(const Options& options) {
  return options.text("compression") == "top_k" || options.text("compression") == "power_sgd";
}

class Gradients final : public Strategy {
 public:
  /// `ranks` is 0 unless these normalise together, where losses are scaled and not gradients.
  Gradients(std::unique_ptr<nn::GradientSync> sync, const nn::Compression* compression, bool errors, int ranks)
      : Strategy({.name = "gradients" + (compression ? " by " + compression->describe() : ""),
                  .about = "in " + std::to_string(sync->buckets()) + " gradient buckets" +
                           (compression ? " by " + compression->describe() : ""),
                  .alike_when_settled = !errors}),
        sync_(std::move(sync)),
        ranks_(ranks) {}

  void begin_step(const StepShare& share) override {
    share_ = share;
    sync_->zero_grad();
    if (ranks_ == 0) sync_->weight(static_cast<double>(share.count) / static_cast<double>(share.global_count));
    if (share.pieces > 1) kept_.emplace(*sync_);  // gradients leave with the last piece
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

std::unique_ptr<Strategy> make_gradients(const Config& config, const Options& options, Replica replica) {
  const nn::BucketOptions buckets{.first_bytes = static_cast<std::size_t>(config.sync.first_bucket_bytes),
                                  .cap_bytes = static_cast<std::size_t>(config.sync.bucket_bytes),
                                  .compression = compression_of(options),
                                  .reorder = options.flag("reorder")};
  const int ranks = config.sync.batch_norm ? replica.world.size() : 0;
  auto sync = std::make_unique<nn::GradientSync>(std::move(replica.parameters), std::move(replica.world), buckets,
                                                 replica.site);
  return std::make_unique<Gradients>(std::move(sync), buckets.compression.get(), keeps_errors(options), ranks);
}

}  // namespace tutti::engine::exchange
