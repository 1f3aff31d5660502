// ServerWorker: the strategy of a worker that exchanges with masters, which keep the parameters, at its own speed.
//
// It implements Downpour and GEM as in mpi_learn (Anderson et al. 2017), EASGD (Zhang et al. 2015), ASGD of Theano-MPI,
// and the learners of Decoupled DiLoCo (2026).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/server/exchanges.hpp"
#include "engine/server/ledger.hpp"
#include "engine/server/submaster_exchange.hpp"
#include "engine/strategies/strategy.hpp"
#include "tutti/parameter_server.hpp"

namespace tutti::engine {

/// What a worker exchanges after every `every` steps. c is the centre: the parameters that the servers keep. x are the
/// worker's parameters, and b is the centre that it received last.
///
///     gradients  pushes the sum of the gradients since the last push; the masters' optimizer steps c;  x = c
///     deltas     pushes D = b - x; the masters step c by it;  x = alpha x + (1 - alpha) c, b = c
///     elastic    pushes x; d = elastic (x - c), c += d;  x -= d elastic_here / elastic. With prefetch the worker
///                computes d from the c that it has fetched, and pushes d
///     gem        U = gem_lr (x - b), m = momentum m + U, q = c minus the c before; c += P U, x = c + P U, where
///                P = clip((kappa |m| - |q|) / |U + 1e-12|, 0, 5) element by element, and b = x
///
/// Initially x = b = c.
struct WorkerNumbers {
  enum class Kind : std::uint8_t { gradients, deltas, elastic, gem } kind = Kind::gradients;
  std::int64_t every = 1;
  std::int64_t prefetch = 0;  ///< gradients, elastic: steps between fetching c and using it
  std::int64_t delay = 0;     ///< deltas: steps between a push and applying its reply; more if the reply arrives later
  double alpha = 0;
  double outer_lr = 1;  ///< deltas: rate of the masters' step; gradients use the learning rate instead
  double elastic = 0.5, elastic_here = 0.5;
  double gem_lr = 0.01, gem_momentum = 0.9, gem_kappa = 2;
};

/// A worker's connections. Only rank 0 of the worker has `servers`, `store` and `top`; on other ranks they are null.
struct WorkerPlace {
  std::shared_ptr<ParameterServer> servers = nullptr;
  std::shared_ptr<Store> store = nullptr;  ///< shared by all workers, to wait for the initial centre; null: do not wait
  bool is_first = false;                   ///< this worker pushes the initial centre
  bool resumes = false;   ///< the initial centre comes from a checkpoint, by load_state() of the first worker
  std::string keys = {};  ///< prefix of the keys in the store
  std::shared_ptr<TopConnection> top = nullptr;  ///< with sub-masters: the top master; settle() reads its parameters
  int meets = 0;  ///< number of workers to wait for before the first step, for at most one minute; 0: none
};

/// A worker consists of the ranks of `replica.world`, which average their gradients in each step. Its rank 0
/// communicates with the servers. Between settle() and the next step the network contains the masters' parameters (with
/// sub-masters the top master's), and the worker's own are kept aside. Tensors are on the CPU. Collective over the
/// worker. make() blocks until the first worker has pushed the initial centre: in its own make(), or, if it resumes, in
/// load_state() or its first step. state() contains a dump of the masters.
class ServerWorker : public Strategy {
 public:
  /// `inner` averages gradients over the worker's ranks.
  static std::unique_ptr<ServerWorker> make(const WorkerNumbers& numbers, Traits traits, const Replica& replica,
                                            const WorkerPlace& place, std::unique_ptr<Strategy> inner);

  virtual const ExchangeReport& report() const noexcept = 0;
  /// Returns the number of the first step of its share that the masters' parameters lack. Collective; blocks.
  virtual std::int64_t own_steps() = 0;
  /// If workers may join: claims the worker's own step `number`, and some steps after it, at the ledger. Returns false
  /// if the rest of its epoch was dealt to others. Collective over the worker; blocks.
  virtual bool claim(std::int64_t number) = 0;
  /// Ends training early: the ledger deals no more steps to any worker. Collective over the worker; blocks.
  virtual void stop() = 0;
  /// Returns the worker that reports the run: the first worker that has not died. With sub-masters, the call ends this
  /// worker's pushes, blocks until all workers have called it or died, and returns the first live worker among the
  /// callers; afterwards settle() reads the top master's final parameters. Collective over the worker.
  virtual int teller() = 0;
  /// Asks the ledger for a step that another worker has not done. Collective over the worker; blocks.
  virtual Ledger::Deal further(std::size_t epoch, bool is_last) = 0;
  virtual const WorkerNumbers& numbers() const noexcept = 0;

 protected:
  using Strategy::Strategy;
};

/// Makes one step of GEM: updates `momentum` and `previous` (the previous centre); returns P U. Any floating type.
at::Tensor gem(const WorkerNumbers& numbers, const at::Tensor& x, const at::Tensor& base, const at::Tensor& centre,
               at::Tensor& momentum, at::Tensor& previous);

}  // namespace tutti::engine
