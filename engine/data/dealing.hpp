// Dealing: which places of an order each rank takes, and which are left after some steps. A place is an index in the
// order. Each place is computed when it is needed, so no list of samples is stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/data/range.hpp"

namespace tutti::engine {

/// How the order of an epoch is distributed over the ranks.
enum class Way : std::uint8_t {
  /// each global batch is a contiguous part of the order, divided among the ranks; so the batches do not depend on the
  /// ranks
  batch,
  contiguous,  ///< the order is divided: each rank has one contiguous part
  strided,     ///< rank r has the positions r, r + size, r + 2 size, ...
  file,        ///< whole files are distributed round-robin; a rank's batches span its files
};

/// Steps that were done by `size` ranks, with `batch` samples each over all ranks.
struct StepsDone {
  int size = 1;
  std::size_t batch = 1, steps = 0;
  bool operator==(const StepsDone&) const = default;
};

/// Consecutive ranks with the same numbers of samples.
struct Alike {
  std::size_t ranks = 0;
  std::size_t length = 0;  ///< samples that each of them has
  std::size_t each = 0;    ///< samples that each of them takes in a full step
};

/// The samples of a rank in a full step.
constexpr std::size_t batch_of(std::size_t batch, std::size_t rank, int size) noexcept {
  return share(batch, static_cast<int>(rank), size).count;
}

/// The places of an order that no rank has taken yet. It stores a few numbers for each take(), and two numbers for each
/// file with Way::file.
class Rest {
 public:
  /// At first all of `places` places are left. For Way::file: `stretches` are the numbers of places of each file.
  Rest(Way way, std::size_t places, const std::vector<std::size_t>& stretches);

  std::size_t size() const noexcept { return size_; }
  /// Removes the places that these steps took. Each rank took its places in their order, from its first one on.
  void take(const StepsDone& done);
  /// The place of the i-th of those that are left; i < size().
  std::size_t place(std::size_t i) const noexcept;

  /// The numbers of remaining places that `size` ranks get, with a global batch of `batch`. Ranks with equal numbers
  /// form groups, at most three except with Way::file. With Way::batch the result is a single rank that has all places.
  std::vector<Alike> shares(std::size_t batch, int size) const;
  /// The part of these places that rank `rank` of `size` ranks gets; with Way::batch all of them.
  Rest of_rank(int rank, int size) const;

 private:
  /// One take(). Maps an index among the places that were left after the call to an index among those before it.
  struct Cut {
    Way way;
    std::size_t size, batch_low, batch_more;  // each of the first batch_more ranks takes one more
    std::size_t ranks, steps;
  };
  static Cut cut_of(Way way, std::size_t size, const StepsDone& done) noexcept;
  static std::size_t left_by(const Cut& cut) noexcept;
  static std::size_t before(const Cut& cut, std::size_t i) noexcept;
  std::vector<std::size_t> lengths_by_file(int size) const;
  void take_files(const StepsDone& done);
  void set_files(std::vector<Range> files);

  Way way_;
  std::size_t size_;
  std::vector<Cut> cuts_;
  std::vector<Range> files_;               // with Way::file: the places left in each file
  std::vector<std::size_t> file_numbers_;  // for each of files_: index of its first place among those left
  std::size_t first_ = 0, stride_ = 1;     // for the part of one rank
};

}  // namespace tutti::engine
