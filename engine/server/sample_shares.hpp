// Shares: how the training samples are divided among workers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/config.hpp"
#include "engine/data/dataset.hpp"
#include "engine/data/sampler.hpp"
#include "engine/data/sampling.hpp"
#include "engine/server/ledger.hpp"
#include "engine/trainer.hpp"

namespace tutti::engine {

/// The shares of all workers: sample i belongs to worker i modulo the number of workers.
class Shares {
 public:
  /// `config` has the batch of one worker.
  Shares(Config config, std::shared_ptr<const Dataset> data, std::size_t workers, std::size_t processes)
      : config_(std::move(config)),
        data_(std::move(data)),
        workers_(workers),
        processes_(static_cast<int>(processes)) {}

  std::shared_ptr<const Dataset> of(std::size_t worker) const {
    return std::make_shared<Subset>(data_, worker, workers_);
  }

  std::vector<Ledger::Share> steps() const {
    std::vector<Ledger::Share> found;
    for (std::size_t worker = 0; worker < workers_; ++worker) {
      const auto each = static_cast<std::int64_t>(sampler_for(config_, 0, processes_, *of(worker)).steps());
      const std::int64_t all = config_.epochs * each;
      found.push_back({config_.steps > 0 ? std::min(all, config_.steps) : all, each});
    }
    return found;
  }

  /// Returns the samples of one step of a worker, over all its processes.
  Further samples(const DealtStep& step) {
    const auto worker = static_cast<std::size_t>(step.worker);
    Further found{data_, {}, static_cast<std::size_t>(step.number)};
    for (int process = 0; process < processes_; ++process) {
      Sampler sampler = sampler_for(config_, process, processes_, *of(worker));
      const auto each = static_cast<std::int64_t>(sampler.steps());
      sampler.start_epoch(static_cast<std::size_t>(step.number / each));
      const auto in_epoch = static_cast<std::size_t>(step.number % each);
      std::vector<SampleId> own = sampler.local(in_epoch);
      own.resize(sampler.distinct(in_epoch));
      for (const SampleId id : own) found.ids.push_back(worker + id * workers_);
    }
    return found;
  }

 private:
  const Config config_;
  const std::shared_ptr<const Dataset> data_;
  const std::size_t workers_;
  const int processes_;
};

}  // namespace tutti::engine
