// GoSGD: at random steps a rank pushes its parameters to another rank, which merges them by weight.
//
// Initially each weight is 1 / p. A push carries half of the sender's weight; the receiver takes the weighted mean of
// the parameters, and the sum of the weights (Blot et al., "Gossip training for deep learning", 2016). All weights,
// including those in flight, add up to 1, so only updates change the weighted mean of all parameters.
//
// The pairs of a step are drawn from the seed, so every rank knows all pairs and weights without communication. A push
// that starts after one step is merged after the next step, in the order of ranks. It overlaps with computation, and
// cannot deadlock, because receives are posted before any rank waits. settle() merges the pushes in flight and leaves
// the network with the weighted mean.
#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "engine/strategies/counts.hpp"
#include "engine/strategies/flat.hpp"
#include "engine/strategies/local.hpp"
#include "engine/strategies/makers.hpp"
#include "engine/strategies/merge.hpp"
#include "engine/strategies/partners.hpp"
#include "engine/strategies/tensor_arithmetic.hpp"

namespace tutti::engine::exchange {
namespace {

class Gossip final : public Local {
 public:
  Gossip(const Config& config, const Axes& axes, const Replica& replica)
      : Local(local_traits(axes, replica.world.size()), replica),
        axes_(axes),
        seed_(static_cast<std::uint64_t>(config.seed)),
        weights_(ranks(), 1.0 / static_cast<double>(ranks())),
        pushed_(ranks(), 0),
        targets_(ranks(), -1) {
    for (auto& group : by_type(trained())) flats_.emplace_back(group, world(), *replica.tensor_device);
  }

  void begin_step(const StepShare& share) override {
    if (aside_)
      for (std::size_t i = 0; i < flats_.size(); ++i) flats_[i].write(mine_[i]);
    aside_ = false;
    Local::begin_step(share);
  }

  void end_step() override {
    merge();
    push(share().step);
  }

  void settle() override {
    if (aside_) return;
    const at::NoGradGuard no_grad;
    merge();
    mine_.clear();
    for (Flat& flat : flats_) {
      flat.take();
      mine_.push_back(flat.all().clone());
      flat.all().mul_(weights_[static_cast<std::size_t>(world().rank())]);
      replica().tensor_device->note_computed();
      waited([&] { world().allreduce(flat.buffer(), sum, replica().tensor_device->options()).wait(); });
      flat.give();
    }
    aside_ = true;
  }

  void set(std::string_view key, double value) override { axes_.set(key, value); }

  std::vector<nn::NamedTensor> state() const override {
    std::vector<nn::NamedTensor> all{measured("strategy.weights", weights_), counted("strategy.aside", {aside_})};
    for (std::size_t i = 0; i < mine_.size(); ++i)
      all.emplace_back(flats_[i].parts().front().first + ".mine", mine_[i]);
    return all;
  }
  void load_state(const std::vector<nn::NamedTensor>& state) override {
    weights_ = measured(state, "strategy.weights", ranks());
    aside_ = counted(state, "strategy.aside", 1)[0] != 0;
    mine_.clear();
    for (const Flat& flat : flats_)
      for (const auto& [key, tensor] : state)
        if (key == flat.parts().front().first + ".mine") mine_.push_back(tensor.clone());
  }

 private:
  struct Message {
    std::shared_ptr<std::byte> memory;
    at::Tensor values;
    Work work;
  };
  std::size_t ranks() { return static_cast<std::size_t>(world().size()); }

  Message message(const Flat& flat) {
    Message made{replica().tensor_device->scratch(flat.buffer().bytes()), {}, {}};
    made.values = replica().tensor_device->tensor(made.memory, 0, flat.all().sizes(), flat.all().scalar_type());
    return made;
  }
  static Buffer buffer(const Message& message, const Flat& flat) {
    return {message.memory.get(), flat.buffer().count, flat.buffer().dtype, flat.buffer().device};
  }

  /// Starts the pushes of this step; called after the step.
  void push(std::size_t step) {
    const at::NoGradGuard no_grad;
    const int me = world().rank(), size = world().size();
    for (int from = 0; from < size; ++from) {
      const auto index = static_cast<std::size_t>(from);
      const int to = targets_[index] = pushes_to(from, size, axes_.probability, seed_, step);
      if (to < 0) continue;
      pushed_[index] = weights_[index] /= 2;
      if (to == me)
        for (const Flat& flat : flats_) {
          coming_.push_back(message(flat));
          coming_.back().work = world().recv(buffer(coming_.back(), flat), from, 0, replica().tensor_device->options());
        }
      if (from != me) continue;
      for (const Flat& flat : flats_) {
        going_.push_back(message(flat));
        flat.read(going_.back().values);
        replica().tensor_device->note_computed();
        going_.back().work = world().send(buffer(going_.back(), flat), to, 0, replica().tensor_device->options());
        stats_.bytes += flat.buffer().bytes();
      }
      ++stats_.exchanges;
    }
  }

  /// Merges the pushes of the previous step.
  void merge() {
    const at::NoGradGuard no_grad;
    waited([&] {
      for (Message& each : coming_) each.work.wait();
      for (Message& each : going_) each.work.wait();
    });
    if (std::ranges::any_of(targets_, [](int to) { return to >= 0; })) ++stats_.finished;  // counts alike on every rank
    for (std::size_t from = 0, next = 0; from < ranks(); ++from) {
      if (targets_[from] < 0) continue;
      double& weight = weights_[static_cast<std::size_t>(targets_[from])];
      if (targets_[from] != world().rank()) {
        weight += pushed_[from];
        continue;
      }
      for (Flat& flat : flats_) {
        flat.take();
        flat.write(gossip_mean(flat.all(), weight, coming_[next++].values, pushed_[from]));
      }
      weight += pushed_[from];
    }
    std::ranges::fill(targets_, -1);
    coming_.clear();
    going_.clear();
  }

  Axes axes_;
  const std::uint64_t seed_;
  std::vector<double> weights_, pushed_;  // by rank: its weight; the weight of its push in flight
  std::vector<int> targets_;              // by rank: the receiver of its push in flight, or -1
  std::vector<Flat> flats_;
  std::vector<at::Tensor> mine_;
  std::vector<Message> coming_, going_;  // declared last, to be destroyed before the memory that they use
  bool aside_ = false;
};

}  // namespace

std::unique_ptr<Strategy> make_gossip(const Config& config, const Axes& axes, Replica replica) {
  return std::make_unique<Gossip>(config, axes, replica);
}

}  // namespace tutti::engine::exchange
