// Part: the parameters of one fragment and one element type, and what is kept of them between syncs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/strategies/axes.hpp"
#include "engine/strategies/flat.hpp"
#include "engine/strategies/outer.hpp"
#include "engine/strategies/strategy.hpp"
#include "nn/compression.hpp"

namespace tutti::engine::exchange {

/// In turns: send() and then, now or some steps later, finish() and apply(). One thread at a time; all of its ranks
/// make the same calls.
class Part {
 public:
  /// `axes` outlives it, and may change its numbers. `bytes` counts what is given to collectives. Collective.
  Part(std::vector<nn::NamedTensor> tensors, const Axes& axes, const Replica& replica, const nn::Compression* codec,
       nn::SyncStats& bytes);

  /// The parameters, as they are, become the outer copy.
  void remember();
  bool remembers() const { return outer_.defined(); }

  /// What is to travel: the delta, positive along descent; or the parameters.
  void measure();
  /// Each tensor's length; and multiplies each by a number.
  std::vector<double> lengths() const;
  void scale(const std::vector<double>& factors);
  void scale(double factor);
  /// What was measured starts to travel.
  void send();
  /// Blocks until what travels is merged.
  void finish();
  bool sent() const noexcept { return sent_; }
  /// Gives every tensor of the merged delta this length, or leaves it where that is negative.
  void set_lengths(const std::vector<double>& lengths);
  /// Takes the step, and gives the parameters what they go on from.
  void apply();
  /// The eager turn, in the place of all the others: a step by the last mean and what is fresh since; the fresh one
  /// starts to travel.
  void eager();

  /// Puts what is judged in the place of the parameters, which are kept.
  void judge();
  void restore();
  const std::vector<nn::NamedTensor>& names() const noexcept { return flat_.parts(); }

  std::vector<nn::NamedTensor> state() const;
  void load_state(const std::vector<nn::NamedTensor>& state);
  /// Numbers kept beside parameters, optimizer, and what a codec left over.
  std::int64_t kept() const;

 private:
  void mean_of_ranks(const at::Tensor& values);
  bool deltas() const noexcept { return axes_.what == Axes::What::deltas; }
  void step(const at::Tensor& delta);

  const Axes& axes_;
  Communicator world_;
  const std::shared_ptr<nn::Site> site_;
  Flat flat_;  // what travels
  nn::SyncStats& stats_;
  nn::SyncStats judging_;
  std::unique_ptr<nn::Exchange> exchange_;
  std::unique_ptr<nn::Codec> codec_;
  Outer rule_;
  at::Tensor outer_, mine_, previous_;  // theta; the parameters while others are judged; eager's last delta
  bool sent_ = false, arrived_ = false;
};

}  // namespace tutti::engine::exchange
