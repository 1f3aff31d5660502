// Sampler: decides which samples each rank sees in each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/blocks.hpp"

namespace tutti::engine {

struct Range {
  std::size_t begin = 0, count = 0;
};

/// Part `rank` of [0, total) divided into `size` contiguous parts whose sizes differ by at most one.
constexpr Range share(std::size_t total, int rank, int size) noexcept {
  const auto r = static_cast<std::size_t>(rank), p = static_cast<std::size_t>(size);
  const std::size_t low = total / p, more = total % p;
  return {r * low + (r < more ? r : more), low + (r < more ? 1 : 0)};
}

/// How the order of an epoch is distributed over the ranks.
enum class Way : std::uint8_t {
  /// each global batch is a contiguous part of the order, divided among the ranks; so the batches do not depend on the
  /// ranks
  batch,
  contiguous,  ///< the order is divided: each rank has one contiguous part
  strided,     ///< rank r has the positions r, r + size, r + 2 size, ...
  file,        ///< whole files are distributed round-robin; a rank's batches span its files
};

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
  /// A number of steps done in this epoch by `size` ranks with the global batch `batch`.
  struct Part {
    int size = 1;
    std::size_t batch = 1, steps = 0;
    bool operator==(const Part&) const = default;
  };
  std::size_t epoch = 0;
  std::string data = {};         ///< the settings that determine the order; must be equal on resume
  std::vector<Part> parts = {};  ///< oldest first

  /// One line of text. parse() is the inverse; it throws Error{invalid} for any other text.
  std::string text() const;
  static Progress parse(std::string_view text);
  bool operator==(const Progress&) const = default;
};

/// The order of an epoch depends only on seed, epoch and blocks, not on the ranks. Every sample is seen in each epoch
/// unless remainder or last step say `drop`, and no sample is seen twice unless one of them says `pad`. Steps are
/// numbered [first_step(), steps()).
class Sampler {
 public:
  struct Plan {
    std::size_t samples = 0;  ///< at most 2^32
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
    /// Dataset::blocks(): if not empty, samples are shuffled by order_by_blocks(), with Way::file one file at a time.
    Blocks blocks = {};
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

  /// This rank's samples of `step`; valid until the next epoch.
  std::span<const std::uint32_t> local(std::size_t step) const noexcept;
  /// The number of these that are not repetitions; they come first.
  std::size_t distinct(std::size_t step) const noexcept;
  /// Sizes of the consecutive micro-batches of local(step).
  std::vector<std::size_t> pieces(std::size_t step) const;

 private:
  using Order = std::vector<std::uint32_t>;
  void check() const;
  std::string data() const;
  Order order_of(std::size_t epoch) const;
  std::vector<Order> deal(const Order& order, int size) const;
  void remove(Order& order, const Progress::Part& part) const;
  void begin(Order order);
  void even_out();
  std::size_t each_of(std::size_t rank) const noexcept;
  void finish_last_step();
  void repeat_to(std::size_t length);
  std::size_t global(std::size_t step, const std::vector<std::size_t>& lengths) const noexcept;
  Range local_range(std::size_t step) const noexcept;

  Plan plan_;
  std::size_t grains_ = 1;
  Range my_grains_;
  Progress past_;  // before the steps that are numbered from base_ on
  std::size_t base_ = 0, steps_ = 0, first_ = 0;
  Order order_;                       // with Way::batch that of all ranks, else that of this rank
  std::vector<std::size_t> lengths_;  // with Way::batch one entry for the order, else one per rank
  std::vector<std::size_t> distinct_lengths_;
};

}  // namespace tutti::engine
