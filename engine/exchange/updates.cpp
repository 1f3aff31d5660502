// cdd: ranks add up what n updates changed, and apply the sum at the beginning of the next step.
//
// Theano-MPI's rule of that name, where an update is momentum's velocity: with its learning rate it is the trajectory
// of avg with the rate times the ranks. The sum travels while the next batch is made ready. What optimizers remember
// stays each rank's own, and is never sent.
#include <c10/core/GradMode.h>

#include "engine/exchange/local.hpp"
#include "engine/exchange/rules.hpp"

namespace tutti::engine::exchange {
namespace {

class Updates final : public Local {
 public:
  Updates(Traits traits, std::size_t every, Replica replica, bool mean)
      : Local(std::move(traits), every, std::move(replica)), mean_(mean) {}

  void begin_step(const StepShare& share) override {
    apply();
    if (since() == 0) remember();
    Local::begin_step(share);
  }
  void end_step() override {
    if (due()) send();
  }
  void settle() override {
    if (since() > 0) send();
    apply();
  }

 private:
  /// The parameters that the ranks have in common.
  void remember() {
    common_.clear();
    for (Flat& flat : flats()) {
      flat.take();
      common_.push_back(flat.all().clone());
    }
  }
  void send() {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < flats().size(); ++i) {
      flats()[i].take();
      flats()[i].all().sub_(common_[i]);
    }
    start(mean_ ? avg : sum);
    sent_ = true;
  }
  void apply() {
    if (!sent_) return;
    sent_ = false;
    wait();
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < flats().size(); ++i) {
      flats()[i].all().add_(common_[i]);
      flats()[i].give();
    }
  }

  const bool mean_;
  bool sent_ = false;
  std::vector<at::Tensor> common_;
};

}  // namespace

std::unique_ptr<Strategy> make_updates(const Config& config, const Options& options, Replica replica) {
  const std::string every = std::to_string(config.sync.every);
  Strategy::Traits traits{.name = config.sync.rule + " every " + every,
                          .about = "with the sum of the updates of " +
                                   (config.sync.every == 1 ? "every step" : "every " + every + " steps"),
                          .alike_when_settled = replica.world.size() == 1};
  return std::make_unique<Updates>(std::move(traits), static_cast<std::size_t>(config.sync.every), std::move(replica),
                                   options.flag("mean"));
}

}  // namespace tutti::engine::exchange
