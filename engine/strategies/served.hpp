// Served: training by servers that keep the parameters, as a worker does it, at its own speed.
//
// Downpour and GEM as mpi_learn has them (Anderson et al. 2017; master and workers), EASGD (Zhang et al. 2015), ASGD of
// Theano-MPI, and the learners of Decoupled DiLoCo (2026).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "collectives/tutti_parameter_server.hpp"
#include "engine/strategies/ledger.hpp"
#include "engine/strategies/relay.hpp"
#include "engine/strategies/rule_names.hpp"
#include "engine/strategies/served_report.hpp"
#include "engine/strategies/strategy.hpp"

namespace tutti::engine {

/// With c the centre that servers keep, x a worker's parameters, and b the centre that it got last, after every `every`
/// steps:
///
///     gradients  pushes the sum of the gradients since; the masters step c by their optimizer;  x = c
///     deltas     pushes D = b - x; the masters step c by it;  x = alpha x + (1 - alpha) c, b = c
///     elastic    pushes x; d = elastic (x - c), c += d;  x -= d elastic_here / elastic
///     gem        D = gem_lr (x - b), m = momentum m + D, q = c - c before; c += P D, x = c + P D, where
///                P = clip((kappa |m| - |q|) / |D + 1e-12|, 0, 5) element by element
///
/// What a worker begins with is c, too.
struct ServedNumbers {
  enum class Kind : std::uint8_t { gradients, deltas, elastic, gem } kind = Kind::gradients;
  std::int64_t every = 1;
  std::int64_t prefetch = 0;  ///< gradients, elastic: c is fetched exactly so many steps before it is used
  std::int64_t delay = 0;     ///< deltas: so many steps from pushing to x, or more where the masters take longer
  double alpha = 0;
  double outer_lr = 1;  ///< of the masters' step by deltas; that by gradients takes the optimizer's rate
  double elastic = 0.5, elastic_here = 0.5;
  double gem_lr = 0.01, gem_momentum = 0.9, gem_kappa = 2;
};

/// Of the rank that talks to the servers; of a worker's others it is empty.
struct WorkerPlace {
  std::shared_ptr<ParameterServer> servers = nullptr;
  std::shared_ptr<Store> store =
      nullptr;            ///< of all workers: tells that the centre is there; null: nobody waits for it
  bool is_first = false;  ///< this worker brings the centre
  bool resumes = false;   ///< it is a checkpoint's, which load_state() of the first worker brings
  std::string keys = {};  ///< what those of the store begin with
  std::shared_ptr<TopSeat> top =
      nullptr;    ///< of groups: there the parameters are looked at, and workers wait for the end
  int meets = 0;  ///< begin when so many workers are there, or a minute has passed; 0: at once
};

/// A worker is the ranks of `replica.world`, which average their gradients in each step; rank 0 of them talks to the
/// servers. Between settle() and the next step the parameters are the centre, and the worker's own are kept. Tensors
/// are on the CPU. Collective over the worker; blocks until the first worker has brought the centre, which it does when
/// it is made, or where it resumes, with load_state() or its first step. state() has a dump of the masters.
class Served : public Strategy {
 public:
  /// `inner` averages gradients over the worker's ranks.
  static std::unique_ptr<Served> make(const ServedNumbers& numbers, Traits traits, const Replica& replica,
                                      const WorkerPlace& place, std::unique_ptr<Strategy> inner);

  virtual const ServedReport& report() const noexcept = 0;
  /// The steps of its share that are in the masters' parameters: where it goes on. Collective over the worker.
  virtual std::int64_t own_steps() = 0;
  /// Whether its own step `number` is its to do, where workers may join: false if others do the rest of its epoch.
  /// Collective over the worker; asks for some steps at a time, and waits for the answer.
  virtual bool claim(std::int64_t number) = 0;
  /// Nobody gets steps of others any more, as training ends before its time. Collective over the worker.
  virtual void stop() = 0;
  /// The first worker that has not died. Of groups: this one is through, and waits until all are, so that what
  /// settle() finds from here on is what the top has in the end. Collective over the worker.
  virtual int teller() = 0;
  /// Asks the ledger for a step that another worker has left undone. Collective over the worker; waits for the answer.
  virtual Ledger::Deal further(std::size_t epoch, bool is_last) = 0;
  virtual const ServedNumbers& numbers() const noexcept = 0;

 protected:
  using Strategy::Strategy;
};

/// One worker's GEM: changes `momentum` and `previous` (the centre before), and returns P D. Any floating-point type.
at::Tensor gem(const ServedNumbers& numbers, const at::Tensor& x, const at::Tensor& base, const at::Tensor& centre,
               at::Tensor& momentum, at::Tensor& previous);

}  // namespace tutti::engine
