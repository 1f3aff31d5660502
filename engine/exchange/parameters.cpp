// parameters and avg: after every n updates of its own, each rank gets the mean of all ranks' parameters.
//
// With one update between exchanges, SGD, and momentum that all begin alike, this is the mean of the gradients: both
// are linear. Stich, "Local SGD converges fast and communicates little", ICLR 2019. Theano-MPI's avg also multiplies
// the learning rate by the number of ranks.
#include "engine/exchange/local.hpp"
#include "engine/exchange/rules.hpp"

namespace tutti::engine::exchange {
namespace {

class Parameters final : public Local {
 public:
  using Local::Local;

  void end_step() override {
    if (due()) exchange();
  }
  void settle() override {
    if (since() > 0) exchange();
  }

 private:
  void exchange() {
    for (Flat& flat : flats()) flat.take();
    start(avg);
    wait();
    for (const Flat& flat : flats()) flat.give();
  }
};

}  // namespace

std::unique_ptr<Strategy> make_parameters(const Config& config, const Options& options, Replica replica) {
  const int ranks = replica.world.size();
  const std::string every = std::to_string(config.sync.every);
  Strategy::Traits traits{
      .name = config.sync.rule + " every " + every,
      .about = "with the mean of the parameters after every " + (config.sync.every == 1 ? "step" : every + " steps"),
      .rate_factor = options.flag("scale_lr") ? ranks : 1.0,
      .alike_when_settled = ranks == 1};
  return std::make_unique<Parameters>(std::move(traits), static_cast<std::size_t>(config.sync.every),
                                      std::move(replica));
}

}  // namespace tutti::engine::exchange
