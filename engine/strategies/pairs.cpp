// Pairs, or larger groups, of ranks exchange instead of all ranks. Groups are drawn anew for each sync.
//
// With deltas this is NoLoCo (Kolehmainen et al. 2025): each rank has an outer copy phi of its own. With means over the
// group, D = phi - x, rate eta, momentum mu and consensus g:
//
//     v = mu v - eta mean(D) + g (mean(phi) - phi),  phi += v,  x = phi
//
// With parameters this is D-PSGD over random pairs: x = mean(x), or elastic: x moves a part of the way to the others'
// mean. Each member sends its parameters to each other member; with deltas it sends D and phi. All members add in the
// order of ranks, so a group's means are bitwise equal on all its members.
#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <optional>

#include "engine/strategies/counts.hpp"
#include "engine/strategies/flat.hpp"
#include "engine/strategies/inner.hpp"
#include "engine/strategies/local.hpp"
#include "engine/strategies/makers.hpp"
#include "engine/strategies/merge.hpp"
#include "engine/strategies/partners.hpp"
#include "engine/strategies/tensor_arithmetic.hpp"

namespace tutti::engine::exchange {
namespace {

/// The parameters of one element type.
struct Set {
  Set(const std::vector<nn::NamedTensor>& tensors, Communicator& world, const nn::TensorDevice& tensor_device,
      bool deltas)
      : sent(tensors, world, tensor_device), landing(tensors, world, tensor_device) {
    if (!deltas) return;
    outer.emplace(tensors, world, tensor_device);
    velocity = at::zeros_like(sent.all());
  }
  Flat sent, landing;         // the deltas or the parameters; the receive buffer
  std::optional<Flat> outer;  // phi
  at::Tensor velocity, mine;  // mine: this rank's parameters while the network has the mean
};

class Pairs final : public Local {
 public:
  Pairs(const Config& config, const Axes& axes, const Replica& replica)
      : Local(local_traits(axes, replica.world.size()), replica),
        axes_(axes),
        seed_(static_cast<std::uint64_t>(config.seed)),
        inner_(axes, replica, false) {
    for (auto& group : by_type(trained())) sets_.emplace_back(group, world(), *replica.tensor_device, deltas());
  }

  void begin_step(const StepShare& share) override {
    for (Set& each : sets_) {
      if (aside_) each.sent.write(each.mine);
      if (deltas() && !begun_) each.outer->take();
    }
    aside_ = false;
    begun_ = true;
    Local::begin_step(share);
  }

  void end_step() override {
    if (++count_ % axes_.every != 0) return;
    const std::vector<int> members = group_of(world().rank(), world().size(), axes_.group, seed_, syncs_++);
    for (Set& each : sets_) sync(each, members);
    ++stats_.exchanges;
    ++stats_.finished;
    waited([&] { inner_.sync(inner_bytes_); });
  }

  /// Sets the network to the ranks' mean of the parameters (of phi with deltas). Each rank later resumes its own.
  void settle() override {
    if (aside_ || !begun_) return;
    const at::NoGradGuard no_grad;
    for (Set& each : sets_) {
      each.mine = at::empty_like(each.sent.all());
      each.sent.read(each.mine);
      each.landing.all().copy_(deltas() ? each.outer->all() : each.mine);
      replica().tensor_device->note_computed();
      waited([&] { world().allreduce(each.landing.buffer(), avg, replica().tensor_device->options()).wait(); });
      each.landing.give();
    }
    aside_ = true;
  }

  void set(std::string_view key, double value) override { axes_.set(key, value); }

  std::vector<nn::NamedTensor> state() const override {
    std::vector<nn::NamedTensor> all{counted("strategy.counts", {count_, static_cast<std::int64_t>(syncs_), aside_})};
    for (const Set& each : sets_) {
      const std::string& name = each.sent.parts().front().first;
      if (each.mine.defined()) all.emplace_back(name + ".mine", each.mine);
      if (!deltas()) continue;
      all.emplace_back(name + ".outer", each.outer->all());
      all.emplace_back(name + ".velocity", each.velocity);
    }
    for (nn::NamedTensor& each : inner_.state()) all.push_back(std::move(each));
    return all;
  }
  void load_state(const std::vector<nn::NamedTensor>& state) override {
    const at::NoGradGuard no_grad;
    const std::vector<std::int64_t> numbers = counted(state, "strategy.counts", 3);
    count_ = numbers[0];
    syncs_ = static_cast<std::uint64_t>(numbers[1]);
    aside_ = numbers[2] != 0;
    begun_ = true;
    for (Set& each : sets_) {
      const std::string& name = each.sent.parts().front().first;
      for (const auto& [key, tensor] : state) {
        if (key == name + ".mine") each.mine = tensor.clone();
        if (key == name + ".outer") each.outer->all().copy_(tensor);
        if (key == name + ".velocity") each.velocity.copy_(tensor);
      }
    }
    inner_.load_state(state);
  }

 private:
  bool deltas() const { return axes_.what == Axes::What::deltas; }

  void sync(Set& set, const std::vector<int>& members) {
    const at::NoGradGuard no_grad;
    set.sent.take();
    at::Tensor own = set.sent.all();
    if (deltas()) at::sub_out(own, set.outer->all(), own);
    const at::Tensor mean = mean_of(set.sent, set.landing, members);
    if (deltas()) {
      const at::Tensor outer = set.outer->all();
      const at::Tensor middle = mean_of(*set.outer, set.landing, members);
      set.velocity.mul_(axes_.outer == Axes::Outer::heavyball ? axes_.outer_momentum : 0);
      set.velocity.sub_(mean, axes_.outer_lr).add_(middle.sub(outer), axes_.consensus);
      outer.add_(set.velocity);
      set.outer->give();
      return;
    }
    if (axes_.merge == Axes::Merge::elastic && members.size() > 1) {
      const auto size = static_cast<double>(members.size());
      const at::Tensor others = mean.mul(size).sub_(own).div_(size - 1);
      own.add_(elastic_difference(axes_.elastic, others, own));
    } else {
      own.copy_(mean);
    }
    set.sent.give();
  }

  at::Tensor mean_of(Flat& own, Flat& landing, const std::vector<int>& members) {
    at::Tensor sum = at::zeros_like(own.all());
    replica().tensor_device->note_computed();
    std::vector<Work> sends;
    for (const int member : members)
      if (member != world().rank()) {
        sends.push_back(world().send(own.buffer(), member, 0, replica().tensor_device->options()));
        stats_.bytes += own.buffer().bytes();
      }
    for (const int member : members) {
      if (member != world().rank())
        waited([&] { world().recv(landing.buffer(), member, 0, replica().tensor_device->options()).wait(); });
      sum.add_(member == world().rank() ? own.all() : landing.all());
    }
    waited([&] {
      for (Work& each : sends) each.wait();
    });
    return sum.div_(static_cast<double>(members.size()));
  }

  Axes axes_;
  const std::uint64_t seed_;
  InnerState inner_;
  nn::SyncStats inner_bytes_;
  std::vector<Set> sets_;
  std::int64_t count_ = 0;
  std::uint64_t syncs_ = 0;
  bool aside_ = false, begun_ = false;
};

}  // namespace

std::unique_ptr<Strategy> make_pairs(const Config& config, const Axes& axes, Replica replica) {
  return std::make_unique<Pairs>(config, axes, replica);
}

}  // namespace tutti::engine::exchange
