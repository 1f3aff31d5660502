// Mesh: the ranks of a communicator as a grid with named axes, as data x height x width or data x tensor.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/api/communicator.hpp"

namespace tutti {

/// The ranks of a communicator in a grid of any number of axes. The last axis is the innermost: ranks that are
/// neighbours along it have neighbouring numbers, and so lie nearest to one another.
///
/// Axes are called data, tensor, height, width, depth and sequence, or by their short names dp, tp and cp (sequence).
/// Copies are the same mesh. Any thread may call; groups are made one at a time.
class Mesh {
 public:
  struct Axis {
    std::string name;
    int size = 1;  ///< ranks along it; -1, for one axis: as many as the others leave
  };

  /// Collective, costs one allgather of 32 bytes per rank. Throws Error{invalid} where the axes do not fit the
  /// communicator, and Error{mismatch} where ranks give different ones.
  Mesh(Communicator world, std::vector<Axis> axes);

  /// From text: "data=2,height=2" or "data=-1,tensor=4".
  static std::vector<Axis> parse(std::string_view text);

  /// The axes by their full names, for so many ranks, with the size that was left open. Local. Throws Error{invalid}
  /// where they do not fit.
  static std::vector<Axis> fit(std::vector<Axis> axes, int ranks);
  static std::string name_of(const std::vector<Axis>& axes);  ///< "data 2 x tensor 4"

  const Communicator& world() const noexcept;
  const std::vector<Axis>& axes() const noexcept;

  bool has(std::string_view axis) const;
  /// Ranks along an axis, and this rank's place on it. Of an axis that the mesh lacks: 1 and 0. Several axes with
  /// commas between them count as one, "height,width", which is the grid that they span, the first of the mesh's
  /// outermost.
  int size(std::string_view axes) const;
  int rank(std::string_view axes) const;

  /// The ranks that differ from this one along these axes alone, in the order of their numbers. Made by its members
  /// when it is first asked for, and kept: then collective among them, and it blocks. Its members ask for new groups in
  /// one order. An axis that the mesh lacks throws Error{invalid}.
  Communicator operator[](std::string_view axes) const;

  /// World ranks of that group, of which `rank` (of the mesh's communicator) is a member. Local.
  std::vector<int> members(std::string_view axes, int rank) const;

  /// Whether both are of one communicator and have the same axes.
  bool operator==(const Mesh& other) const noexcept { return state_ == other.state_; }

  std::string name() const;      ///< name_of(axes())
  std::string describe() const;  ///< which rank sits where, on which host, a line for each row of the innermost axis

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tutti
