// Dealing: which places of an order each rank has, and which are left after some steps. All of it is computed place by
// place, so no list of samples is held.
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

/// Consecutive ranks that are alike.
struct Alike {
  std::size_t ranks = 0;
  std::size_t length = 0;  ///< samples that each of them has
  std::size_t each = 0;    ///< samples that each of them takes in a full step
};

/// The samples of a rank in a full step.
constexpr std::size_t batch_of(std::size_t batch, std::size_t rank, int size) noexcept {
  return share(batch, static_cast<int>(rank), size).count;
}

/// The places of an order that are left to be dealt out. It holds a few numbers for each take(), and with Way::file two
/// for each file.
class Rest {
 public:
  /// All of `places`. For Way::file: `stretches` are the numbers of places of each file.
  Rest(Way way, std::size_t places, const std::vector<std::size_t>& stretches);

  std::size_t size() const noexcept { return size_; }
  /// Takes away what these steps took, each rank's places from the first on.
  void take(const StepsDone& done);
  /// The place in the order of number i < size() among those that are left.
  std::size_t place(std::size_t i) const noexcept;

  /// What `size` ranks have of the rest, with a global batch of `batch`: in all ways but `file` three groups at most.
  /// With Way::batch all places are those of one.
  std::vector<Alike> shares(std::size_t batch, int size) const;
  /// The part of the rest that one rank of `size` has; with Way::batch all of it.
  Rest of_rank(int rank, int size) const;

 private:
  /// What one take() left: how a number among the rest becomes one among the rest before.
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
  std::vector<Range> files_;               // with Way::file: what is left of each file
  std::vector<std::size_t> file_numbers_;  // the number of each one's first place among the rest
  std::size_t first_ = 0, stride_ = 1;     // of a rank's part
};

}  // namespace tutti::engine
