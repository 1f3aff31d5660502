#include "bindings/mpi/waiting.hpp"

#include <algorithm>
#include <mutex>

#include "bindings/mpi/library.hpp"
#include "bindings/mpi/refusals.hpp"

namespace tutti::preload {
namespace {

constexpr Seconds alone(100e-6), first_turn(50e-6), longest_turn(1e-3);
constexpr int looks = 4;

/// A receive that no message matches. Testing it drives MPI's progress; MPI_Iprobe does not in MPICH 4.0.
struct Mover {
  std::mutex mutex;  // guards `never_met`; one thread at a time drives MPI
  MPI_Request never_met{};
  char room = 0;
};
Mover& mover() {
  static auto& one = *new Mover;
  return one;
}

void move_mpi() {
  Mover& one = mover();
  const std::unique_lock lock(one.mutex, std::try_to_lock);
  if (!lock) return;
  MPI_Status status;
  for (int i = 0, done = 0; i < looks; ++i) library().test(&one.never_met, &done, &status);
}

}  // namespace

void begin_waiting() {
  Mover& one = mover();
  library().irecv(&one.room, 1, byte_type(), 0, 0, library().own, &one.never_met);
}

void end_waiting() noexcept {
  Mover& one = mover();
  MPI_Status status;
  library().cancel(&one.never_met);
  library().wait(&one.never_met, &status);
}

void wait_for_work(const Work& work, Known& known) {
  if (work.wait_for(alone)) return;
  Seconds turn = first_turn;
  for (;;) {
    move_mpi();
    fail_if_refused(known);
    if (work.wait_for(turn)) return;
    turn = std::min(2 * turn, longest_turn);
  }
}

void wait_a_little(std::span<const Work> works) {
  static_cast<void>(wait_any(works, alone));
  move_mpi();
}

}  // namespace tutti::preload
