// Sampler: decides which samples each rank sees in each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/blocks.hpp"
#include "engine/data/dealing.hpp"
#include "engine/data/order.hpp"
#include "engine/data/sample.hpp"

namespace tutti::engine {

/// The treatment of samples that cannot be distributed evenly.
enum class Remainder : std::uint8_t {
  /// some ranks have fewer samples, or none, in some steps; batches carry their weights; every sample is seen once
  uneven,
  drop,  ///< as few samples as possible are left out, different ones in each epoch
  pad,   ///< as few samples as possible are repeated; repetitions have weight 0 in metrics
};

/// The treatment of final steps with fewer samples than a batch has.
enum class Last : std::uint8_t {
  keep,
  drop,  ///< they are left out, as by drop_last of PyTorch's DataLoader
  pad,   ///< filled up with repeated samples, which have weight 0 in metrics
};

/// The progress of a run within an epoch. A run can resume from it, also with another number of ranks or batch size.
struct Progress {
  using Part = StepsDone;
  std::size_t epoch = 0;
  std::string data = {};         ///< the settings that determine the order; must be equal on resume
  std::vector<Part> parts = {};  ///< oldest first

  /// One line of text. parse() is the inverse; it throws Error{invalid} for any other text.
  std::string text() const;
  static Progress parse(std::string_view text);
  bool operator==(const Progress&) const = default;
};

/// The order of an epoch depends only on seed, epoch and blocks, not on the ranks. Every sample is seen in each epoch
/// unless `remainder` or `last` is `drop`, and no sample is seen twice unless one of them is `pad`. Steps are numbered
/// [first_step(), steps()). Memory with Shuffle::keyed does not depend on the numbers of samples and ranks. It grows
/// with files (Way::file), with blocks, and with each resume() with another number of ranks or another batch.
class Sampler {
 public:
  struct Plan {
    std::size_t samples = 0;  ///< at most 2^32 with a list, else 2^62
    std::size_t batch = 1;    ///< global batch: samples per step over all ranks
    int rank = 0, size = 1;
    std::uint64_t seed = 0;
    Way way = Way::batch;
    Remainder remainder = Remainder::uneven;
    bool shuffled = true;  ///< false: the order of the data set
    Last last = Last::keep;
    /// Number of micro-batches per step, over all ranks; 0: one per rank. With Way::batch they are the same for any
    /// number of ranks.
    std::size_t grains = 0;
    /// for Way::file: the number of samples in each file, in the data set's order
    std::vector<std::size_t> files = {};
    /// what Dataset::blocks() returned; if not empty, samples are shuffled only within windows_of(these blocks)
    Blocks blocks = {};
    Shuffle shuffle = Shuffle::listed;
  };

  /// Starts epoch 0. Throws Error{invalid} for an impossible plan, for example if a rank would never see a sample.
  explicit Sampler(Plan plan);

  void start_epoch(std::size_t epoch) { resume({.epoch = epoch}); }

  /// Continues in the middle of an epoch: samples already seen are not seen again, all others are. With the same number
  /// of ranks and batch size the steps are those of the uninterrupted epoch. Throws Error{invalid} if data, seed, way
  /// or remainder differ.
  void resume(const Progress& progress);

  /// The progress after all steps before `step`, for resume().
  Progress progress(std::size_t step) const;

  std::size_t first_step() const noexcept { return first_; }
  std::size_t steps() const noexcept { return base_ + steps_; }
  std::size_t global_count(std::size_t step) const noexcept;     ///< samples on all ranks
  std::size_t global_distinct(std::size_t step) const noexcept;  ///< without repetitions

  /// This rank's samples of `step`.
  std::vector<SampleId> local(std::size_t step) const;
  /// This rank's last sample of the epoch; nullopt if it has none from first_step() on.
  std::optional<SampleId> last() const;
  /// The number of samples in local(step) that are not repetitions; they come first.
  std::size_t distinct(std::size_t step) const noexcept;
  /// Sizes of the consecutive micro-batches of local(step).
  std::vector<std::size_t> pieces(std::size_t step) const;

 private:
  /// Consecutive ranks with the same numbers of samples; with Way::batch a single entry for all ranks.
  struct Part : Alike {
    std::size_t distinct = 0;  ///< how many of `length` are not repetitions; they come first
  };
  void check() const;
  std::string data() const;
  EpochOrder order_of(std::size_t epoch) const;
  void begin(const Rest& rest);
  void even_out();
  void finish_last_step();
  void repeat_to(std::size_t length);
  SampleId own(std::size_t i) const;
  const Part& mine() const noexcept;
  std::size_t global(std::size_t step, std::size_t Part::*length) const noexcept;
  Range local_range(std::size_t step) const noexcept;

  Plan plan_;
  std::size_t grains_ = 1;
  Range my_grains_;
  Progress past_;  // the progress before step base_
  std::size_t base_ = 0, steps_ = 0, first_ = 0;
  EpochOrder order_;
  Rest rest_;                          // with Way::batch the places of all ranks, else of this rank
  std::vector<Part> parts_;            // in the order of the ranks
  std::size_t length_ = 0;             // number of samples from rest_, repetitions included
  std::vector<std::size_t> repeated_;  // ascending: after this many samples, the first ones are repeated
};

}  // namespace tutti::engine
