// SparseAverage: averages a few parameters over the ranks in every step, in addition to another strategy's exchanges.
#pragma once

#include <memory>
#include <vector>

#include "engine/strategies/flat.hpp"
#include "engine/strategies/strategy.hpp"
#include "nn/compression.hpp"

namespace tutti::engine::exchange {

/// SPARTA (Baioumy and Cheema 2025). One thread at a time.
class SparseAverage {
 public:
  /// `part` is the fraction of the parameters that is averaged, drawn anew in each step; 0: none. Collective.
  SparseAverage(double part, std::uint64_t seed, const std::vector<nn::NamedTensor>& parameters, const Replica& replica,
                nn::SyncStats& given);

  bool empty() const noexcept { return flats_.empty(); }
  /// Collective; blocks.
  void step();

  std::vector<nn::NamedTensor> state() const;
  void load_state(const std::vector<nn::NamedTensor>& state);

 private:
  std::vector<Flat> flats_;
  std::vector<std::unique_ptr<nn::Exchange>> exchanges_;
  std::vector<std::unique_ptr<nn::Codec>> codecs_;
};

}  // namespace tutti::engine::exchange
