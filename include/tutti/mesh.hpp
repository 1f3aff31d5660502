// Mesh: the ranks of a communicator as a grid with named axes, for example data x height x width or data x tensor.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/communicator.hpp"

namespace tutti {

/// A grid of the ranks of a communicator, as PyTorch's DeviceMesh. The last axis is the innermost: ranks that are
/// neighbours along it have consecutive numbers.
///
/// The names of axes are data, tensor, height, width, depth and sequence, with short names dp, tp and cp (sequence).
/// Copies refer to the same mesh. Any thread may call; communicators of axes are created by one thread at a time.
class Mesh {
 public:
  struct Axis {
    std::string name;
    int size = 1;  ///< number of ranks; -1, on one axis at most: the communicator's size divided by the other axes
  };

  /// Collective: one allgather of 32 bytes per rank. Throws Error{invalid} if the axes do not fit the communicator, and
  /// Error{mismatch} if ranks pass different axes.
  Mesh(Communicator world, std::vector<Axis> axes);

  /// Parses "data=2,height=2" or "data=-1,tensor=4". Throws Error{invalid}.
  static std::vector<Axis> parse(std::string_view text);

  /// The axes with full names and with a size of -1 filled in, for `ranks` ranks. Local. Throws Error{invalid} if they
  /// do not fit.
  static std::vector<Axis> fit(std::vector<Axis> axes, int ranks);
  static std::string name_of(const std::vector<Axis>& axes);  ///< "data 2 x tensor 4"

  const Communicator& world() const noexcept;
  const std::vector<Axis>& axes() const noexcept;

  bool has(std::string_view axis) const;
  /// The number of ranks along an axis, and this rank's index on it; 1 and 0 if the mesh does not have the axis.
  /// Several axes, separated by commas ("height,width"), are taken together, in row-major order of the mesh's axes.
  int size(std::string_view axes) const;
  int rank(std::string_view axes) const;

  /// The communicator of the ranks that differ from this one only along these axes, in rank order. It is created at the
  /// first call for these axes, which is collective over its ranks and blocks; later calls return the same one. All its
  /// ranks must create new communicators in the same order. Throws Error{invalid} for an axis that the mesh does not
  /// have.
  Communicator operator[](std::string_view axes) const;

  /// The members of the group along `axes` that contains `rank`, as ranks of the mesh's communicator. Local.
  std::vector<int> members(std::string_view axes, int rank) const;

  /// True if both are copies of the same mesh.
  bool operator==(const Mesh& other) const noexcept { return state_ == other.state_; }

  std::string name() const;      ///< name_of(axes())
  std::string describe() const;  ///< a table for people: one line per row of the innermost axis, with ranks and hosts

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tutti
