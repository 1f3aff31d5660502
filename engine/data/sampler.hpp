// Sampler: which samples a rank sees, in which step. Nothing else decides that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::engine {

struct Range {
  std::size_t begin = 0, count = 0;
};

/// Part `rank` of [0, total) cut into `size` contiguous parts whose sizes differ by at most one.
constexpr Range share(std::size_t total, int rank, int size) noexcept {
  const auto r = static_cast<std::size_t>(rank), p = static_cast<std::size_t>(size);
  const std::size_t low = total / p, more = total % p;
  return {r * low + (r < more ? r : more), low + (r < more ? 1 : 0)};
}

/// How an epoch's order is dealt out to the ranks.
enum class Way : std::uint8_t {
  batch,       ///< each global batch is a stretch of the order, and is cut: any number of ranks sees the same batches
  contiguous,  ///< the order is cut: each rank has one stretch of it
  strided,     ///< rank r has what is at r, r + size, r + 2 size, ...
  file,        ///< whole files are dealt out in turns; a rank's batches go across its files
};

/// What becomes of samples that do not come out even over the ranks.
enum class Remainder : std::uint8_t {
  uneven,  ///< some ranks have fewer in some steps, or none; batches carry their weights; every sample is seen once
  drop,    ///< a few samples are left out, as few as possible; other ones in each epoch
  pad,     ///< a few samples are seen twice, as few as possible; the repetition has weight 0 in metrics
};

/// How far a run has come, so that another one can go on there: also on another number of ranks or with another batch.
struct Progress {
  /// Steps that were done in this epoch, by so many ranks with such a global batch.
  struct Part {
    int size = 1;
    std::size_t batch = 1, steps = 0;
    bool operator==(const Part&) const = default;
  };
  std::size_t epoch = 0;
  std::string data = {};         ///< what the order depends on; must be the same where it goes on
  std::vector<Part> parts = {};  ///< the oldest first

  /// One line; parse() is its inverse, and throws Error{invalid} for any other text.
  std::string text() const;
  static Progress parse(std::string_view text);
  bool operator==(const Progress&) const = default;
};

/// The order of an epoch depends on seed and epoch alone, never on the ranks. Unless the remainder is dropped, every
/// sample is seen in each epoch; unless it is padded, no sample twice. Steps have the numbers [first_step(), steps()).
class Sampler {
 public:
  struct Plan {
    std::size_t samples = 0;  ///< at most 2^32
    std::size_t batch = 1;    ///< of all ranks together
    int rank = 0, size = 1;
    std::uint64_t seed = 0;
    Way way = Way::batch;
    Remainder remainder = Remainder::uneven;
    bool shuffled = true;  ///< false: in the order of the data set
    bool partial = true;   ///< false: last steps with fewer than `batch` samples are left out
    /// Micro-batches that a step is cut into, over all ranks; 0: one on each rank. With Way::batch they are the same
    /// ones on any number of ranks.
    std::size_t grains = 0;
    std::vector<std::size_t> files = {};  ///< Way::file: samples of each file, in the data set's order
  };

  /// Begins epoch 0. Throws Error{invalid} for what cannot be, as when a rank would never see a sample.
  explicit Sampler(Plan plan);

  void start_epoch(std::size_t epoch) { resume({.epoch = epoch}); }

  /// Goes on in mid-epoch. What was seen is not seen again, and all else is; on as many ranks with the same batch, the
  /// steps are those that would have been. Throws Error{invalid} if it is of other data, or of another seed or way.
  void resume(const Progress& progress);

  /// What to give to resume() after all steps before `step` were done.
  Progress progress(std::size_t step) const;

  std::size_t first_step() const noexcept { return first_; }
  std::size_t steps() const noexcept { return base_ + steps_; }
  std::size_t global_count(std::size_t step) const noexcept;     ///< samples of all ranks
  std::size_t global_distinct(std::size_t step) const noexcept;  ///< without repetitions

  /// This rank's samples of `step`; valid until the next epoch.
  std::span<const std::uint32_t> local(std::size_t step) const noexcept;
  /// How many of these are no repetition. They come first.
  std::size_t distinct(std::size_t step) const noexcept;
  /// Sizes of the micro-batches that local(step) is cut into, one after the other.
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
  std::size_t global(std::size_t step, const std::vector<std::size_t>& lengths) const noexcept;
  Range local_range(std::size_t step) const noexcept;

  Plan plan_;
  std::size_t grains_ = 1;
  Range my_grains_;
  Progress past_;  // before the steps that are numbered from base_ on
  std::size_t base_ = 0, steps_ = 0, first_ = 0;
  Order order_;                       // Way::batch: of all ranks; else this rank's
  std::vector<std::size_t> lengths_;  // Way::batch: one, of the order; else of each rank's order
  std::vector<std::size_t> distinct_lengths_;
};

}  // namespace tutti::engine
