// Ranks make some steps of their own, and then merge their parameters, or the deltas of the parameters, over all ranks.
//
// Local SGD (Stich, ICLR 2019), SlowMo (Wang et al., ICLR 2020), DiLoCo (Douillard et al. 2023), its streaming (2025)
// and eager (Kale et al. 2025) forms, SparseLoCo (Sarfi et al. 2025), SPARTA, and Theano-MPI's avg and cdd are settings
// of the axes. With SGD, with or without momentum, and one step between exchanges, averaging the parameters equals
// averaging the gradients, because both are linear.
//
// The axis `judged` chooses the network's parameters after settle(): the result of an exchange that settle() makes, the
// outer copies, or the ranks' mean. In the last two cases each rank later continues with its own parameters.
//
// A sync measures, weights and sends the parts of a fragment. Then, at once or some steps later, it merges and applies
// them. audit_fragments() checks that every parameter is in a fragment.
#include "engine/strategies/counts.hpp"
#include "engine/strategies/fragment_state.hpp"
#include "engine/strategies/fragments.hpp"
#include "engine/strategies/inner.hpp"
#include "engine/strategies/local.hpp"
#include "engine/strategies/makers.hpp"
#include "engine/strategies/merge.hpp"
#include "engine/strategies/partners.hpp"
#include "engine/strategies/sparse_average.hpp"

namespace tutti::engine::exchange {
namespace {

class Deltas final : public Local {
 public:
  Deltas(const Config& config, const Axes& axes, const Replica& replica)
      : Local(local_traits(axes, replica.world.size()), replica),
        axes_(axes),
        seed_(static_cast<std::uint64_t>(config.seed)),
        inner_(axes, replica, config.sync.buffers != "local"),
        codec_(compression_of(axes, seed_)),
        average_(axes.sparta, seed_, trained(), replica, given_),
        fragments_(static_cast<std::size_t>(axes.fragments)) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : trained()) names.push_back(name);
    const std::vector<std::size_t> fragment_of = fragments_of(names, fragments_.size());
    for (std::size_t f = 0; f < fragments_.size(); ++f) {
      std::vector<nn::NamedTensor> own;
      for (std::size_t i = 0; i < names.size(); ++i)
        if (fragment_of[i] == f) own.push_back(trained()[i]);
      for (auto& group : by_type(own)) fragments_[f].parts.emplace_back(group, axes_, replica, codec_.get(), given_);
    }
  }

  void begin_step(const StepShare& share) override {
    if (aside_) each([](FragmentState& part) { part.restore(); });
    aside_ = false;
    if (axes_.apply == Axes::Apply::next && fragments_[0].sent()) apply(fragments_[0]);
    const bool begins = axes_.judged == Axes::Judged::exchange && count_ == 0;
    if (axes_.what == Axes::What::deltas)
      each([&](FragmentState& part) {
        if (begins || !part.remembers()) part.remember();
      });
    Local::begin_step(share);
  }

  void end_step() override {
    if (!average_.empty()) waited([&] { average_.step(); });
    ++count_;
    for (Fragment& each : fragments_) {
      each.samples += share().count;
      ++each.steps;
    }
    for (std::size_t f = 0; f < fragments_.size(); ++f) {
      const bool sent = sends(f);
      if (sent) send(fragments_[f]);
      const bool applied = applies(f);
      if (applied) apply(fragments_[f]);
      if (applied || (sent && axes_.apply == Axes::Apply::next)) end_sync(f);
    }
    stats_.bytes = given_.bytes;
  }

  void settle() override {
    if (axes_.judged == Axes::Judged::exchange) {
      const bool due = count_ > 0 && fragments_[0].steps > 0;
      if (due) send(fragments_[0]);
      if (fragments_[0].sent()) apply(fragments_[0]);
      if (due) end_sync(0);
      count_ = 0;
      stats_.bytes = given_.bytes;
      return;
    }
    if (aside_ || (axes_.what == Axes::What::deltas && !fragments_[0].parts[0].remembers())) return;
    waited([&] {
      each([](FragmentState& part) { part.finish(); });
      each([](FragmentState& part) { part.judge(); });
    });
    aside_ = true;
  }

  bool ends_round() const override {
    if (axes_.judged == Axes::Judged::exchange) return count_ == 0 && !fragments_[0].sent();
    return axes_.judged == Axes::Judged::outer;
  }

  void set(std::string_view key, double value) override { axes_.set(key, value); }

  std::vector<nn::NamedTensor> state() const override;
  void load_state(const std::vector<nn::NamedTensor>& state) override;

 private:
  struct Fragment {
    std::vector<FragmentState> parts;
    std::size_t samples = 0, steps = 0;        // of this rank, since the fragment was last sent
    std::vector<std::vector<double>> lengths;  // merge=radial: mean lengths of each part's tensors
    bool sent() const { return parts.front().sent(); }
  };

  template <class Call>
  void each(Call&& call) {
    for (Fragment& fragment : fragments_)
      for (FragmentState& part : fragment.parts) call(part);
  }

  bool is_due(std::int64_t count, std::size_t f) const {
    if (axes_.when == Axes::When::probability) return happens(axes_.probability, seed_, share().step);
    return fragment_is_due(count, static_cast<std::int64_t>(f), axes_.fragments, axes_.every);
  }
  bool sends(std::size_t f) const { return is_due(count_ + axes_.delay, f); }
  bool applies(std::size_t f) const {
    return axes_.apply != Axes::Apply::next && is_due(count_, f) &&
           (axes_.apply == Axes::Apply::eager || fragments_[f].sent());
  }

  void send(Fragment& fragment) {
    if (axes_.apply == Axes::Apply::eager) return;
    for (FragmentState& part : fragment.parts) part.measure();
    weigh(fragment);
    for (FragmentState& part : fragment.parts) part.send();
    fragment.samples = fragment.steps = 0;
    ++stats_.exchanges;
  }

  /// Scales what each rank sends by its weight, so that the exchange's plain mean is the weighted mean.
  void weigh(Fragment& fragment) {
    if (axes_.merge != Axes::Merge::tokens && axes_.merge != Axes::Merge::radial) return;
    const bool is_radial = axes_.merge == Axes::Merge::radial;
    const double own = is_radial ? 1 : token_weight(fragment.samples, fragment.steps);
    const auto members = static_cast<std::size_t>(world().size());
    std::vector<std::vector<double>> lengths;
    for (FragmentState& part : fragment.parts)
      if (is_radial) lengths.push_back(part.lengths());
    std::vector<double> all{own};
    for (const auto& part : lengths)
      for (const double length : part) all.push_back(own * length);
    waited([&] { world().allreduce(all, sum).wait(); });
    given_.bytes += all.size() * sizeof(double);
    const MergeSums sums{all[0], {all.begin() + 1, all.end()}};
    fragment.lengths.clear();
    for (std::size_t p = 0, tensor = 0; p < fragment.parts.size(); ++p) {
      if (!is_radial) {
        fragment.parts[p].scale(sums.factor(own, members));
        continue;
      }
      std::vector<double> wanted, factors;
      for (std::size_t i = 0; i < lengths[p].size(); ++i, ++tensor) {
        const bool is_plain = is_embedding(fragment.parts[p].names()[i].first);
        wanted.push_back(is_plain ? -1 : sums.norm(tensor));
        factors.push_back(is_plain ? sums.factor(own, members) : sums.factor(own, members, lengths[p][i]));
      }
      fragment.parts[p].scale(factors);
      fragment.lengths.push_back(std::move(wanted));
    }
  }

  void apply(Fragment& fragment) {
    if (axes_.apply == Axes::Apply::eager) {
      waited([&] {
        for (FragmentState& part : fragment.parts) part.eager();
      });
      ++stats_.exchanges;
      ++stats_.finished;
      return;
    }
    waited([&] {
      for (FragmentState& part : fragment.parts) part.finish();
    });
    ++stats_.finished;
    for (std::size_t p = 0; p < fragment.lengths.size(); ++p) fragment.parts[p].set_lengths(fragment.lengths[p]);
    for (FragmentState& part : fragment.parts) part.apply();
  }

  /// After the last fragment's sync, also syncs the optimizer's state and the buffers.
  void end_sync(std::size_t f) {
    if (axes_.judged == Axes::Judged::exchange && axes_.fragments == 1) count_ = 0;
    if (f + 1 == fragments_.size()) waited([&] { inner_.sync(given_); });
  }

  Axes axes_;
  const std::uint64_t seed_;
  InnerState inner_;
  const std::shared_ptr<const nn::Compression> codec_;
  nn::SyncStats given_;
  SparseAverage average_;
  std::vector<Fragment> fragments_;
  std::int64_t count_ = 0;  // the number of steps, for fragment_is_due()
  bool aside_ = false;      // true: the network has the parameters to validate, and the parts keep this rank's own
};

std::vector<nn::NamedTensor> Deltas::state() const {
  std::vector<nn::NamedTensor> all;
  std::vector<std::int64_t> numbers{count_, aside_};
  for (const Fragment& fragment : fragments_) {
    numbers.push_back(static_cast<std::int64_t>(fragment.samples));
    numbers.push_back(static_cast<std::int64_t>(fragment.steps));
    for (const FragmentState& part : fragment.parts)
      for (nn::NamedTensor& each : part.state()) all.push_back(std::move(each));
  }
  all.push_back(counted("strategy.counts", numbers));
  for (const Fragment& fragment : fragments_)  // lengths of syncs that are not applied yet
    for (std::size_t p = 0; p < fragment.lengths.size(); ++p)
      all.push_back(measured(fragment.parts[p].names()[0].first + ".lengths", fragment.lengths[p]));
  for (nn::NamedTensor& each : inner_.state()) all.push_back(std::move(each));
  for (nn::NamedTensor& each : average_.state()) all.push_back(std::move(each));
  return all;
}

void Deltas::load_state(const std::vector<nn::NamedTensor>& state) {
  const std::vector<std::int64_t> numbers = counted(state, "strategy.counts", 2 + 2 * fragments_.size());
  count_ = numbers[0];
  aside_ = numbers[1] != 0;
  for (std::size_t f = 0; f < fragments_.size(); ++f) {
    fragments_[f].samples = static_cast<std::size_t>(numbers[2 + 2 * f]);
    fragments_[f].steps = static_cast<std::size_t>(numbers[3 + 2 * f]);
    fragments_[f].lengths.clear();
    for (FragmentState& part : fragments_[f].parts) {
      part.load_state(state);
      if (axes_.merge == Axes::Merge::radial && part.sent())
        fragments_[f].lengths.push_back(measured(state, part.names()[0].first + ".lengths", part.names().size()));
    }
  }
  inner_.load_state(state);
  average_.load_state(state);
}

}  // namespace

std::unique_ptr<Strategy> make_deltas(const Config& config, const Axes& axes, Replica replica) {
  return std::make_unique<Deltas>(config, axes, replica);
}

Strategy::Traits local_traits(const Axes& axes, int ranks) {
  return {.name = axes.name(),
          .about = "by " + axes.name(),
          .rate_factor = axes.scale_lr ? ranks : 1.0,
          .alike_when_settled = ranks == 1,
          .changes_alone = true};
}

}  // namespace tutti::engine::exchange
