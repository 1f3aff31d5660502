// Post-local SGD: averages gradients in the first steps, then continues with another strategy (Lin et al., "Don't use
// large mini-batches, use local SGD", ICLR 2020).
#include "engine/strategies/counts.hpp"
#include "engine/strategies/makers.hpp"

namespace tutti::engine::exchange {
namespace {

class DenseFirst final : public Strategy {
 public:
  DenseFirst(std::unique_ptr<Strategy> dense, std::unique_ptr<Strategy> later, const Axes& axes)
      : Strategy({.name = axes.name(),
                  .about = "by " + axes.name(),
                  .rate_factor = axes.scale_lr ? later->traits().rate_factor : 1,
                  .alike_when_settled = later->traits().alike_when_settled,
                  .changes_alone = later->traits().changes_alone}),
        dense_(std::move(dense)),
        later_(std::move(later)),
        steps_(axes.dense_steps) {}

  void begin_step(const StepShare& share) override {
    if (dense_ && static_cast<std::int64_t>(share.step) >= steps_) switch_over();
    now().begin_step(share);
    tell();
  }
  double begin_piece(std::size_t piece, std::size_t count) override { return now().begin_piece(piece, count); }
  void end_piece(std::size_t piece) override { now().end_piece(piece); }
  void end_backward() override {
    now().end_backward();
    tell();
  }
  void end_step() override {
    now().end_step();
    tell();
  }
  void settle() override {
    now().settle();
    tell();
  }

  bool ends_round() const override { return dense_ ? dense_->ends_round() : later_->ends_round(); }

  void set(std::string_view key, double value) override { later_->set(key, value); }

  std::vector<nn::NamedTensor> state() const override {
    std::vector<nn::NamedTensor> all = dense_ ? dense_->state() : later_->state();
    all.push_back(counted("strategy.dense", {dense_ ? 1 : 0}));
    return all;
  }
  void load_state(const std::vector<nn::NamedTensor>& state) override {
    if (counted(state, "strategy.dense", 1)[0] == 0 && dense_) switch_over();
    now().load_state(state);
  }

 private:
  Strategy& now() { return dense_ ? *dense_ : *later_; }
  void switch_over() {
    before_ = dense_->stats();
    dense_.reset();  // also removes its autograd hooks
  }
  void tell() {
    const ExchangeStats& own = now().stats();
    stats_ = {.exchanges = before_.exchanges + own.exchanges,
              .finished = before_.finished + own.finished,
              .bytes = before_.bytes + own.bytes,
              .wait_seconds = before_.wait_seconds + own.wait_seconds,
              .exchange_seconds = before_.exchange_seconds + own.exchange_seconds};
  }

  std::unique_ptr<Strategy> dense_, later_;
  const std::int64_t steps_;
  ExchangeStats before_;
};

}  // namespace

std::unique_ptr<Strategy> make_dense_first(const Config& config, const Axes& axes, Replica replica) {
  Axes dense;
  dense.scale_lr = axes.scale_lr;
  dense.reorder = axes.reorder;
  auto first = make_gradients(config, dense, replica);
  return std::make_unique<DenseFirst>(std::move(first), make_deltas(config, axes, std::move(replica)), axes);
}

}  // namespace tutti::engine::exchange
