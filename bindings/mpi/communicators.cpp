#include "bindings/mpi/communicators.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "bindings/mpi/library.hpp"
#include "transports/core/random.hpp"
#include "tutti/log.hpp"

namespace tutti::preload {
namespace {

struct All {
  int key = 0;
  std::shared_ptr<Known> world;
  std::mutex mutex;
  std::map<Known*, std::shared_ptr<Known>> owners;  // guarded by mutex
  std::atomic<std::uint64_t> freed{1};              ///< number of freed communicators, plus 1
};
All& all() {
  static auto& one = *new All;  // never destroyed: threads may use it while the process exits
  return one;
}

/// A per-thread cache of lookups. MPI may reuse the handle of a freed communicator, so the cache is cleared when any
/// communicator is freed.
struct Recent {
  struct Entry {
    MPI_Comm comm;
    Known* known;
  };
  std::array<Entry, 4> entries{};
  std::uint64_t freed = 0;
  std::size_t next = 0;
};
thread_local Recent recent;

int copy_nothing(MPI_Comm, int, void*, void*, void*, int* copied) {
  *copied = 0;
  return MPI_SUCCESS;
}

int forget(MPI_Comm, int, void* attribute, void*) {
  std::shared_ptr<Known> last;  // destroyed after the lock is released
  const std::lock_guard lock(all().mutex);
  if (auto found = all().owners.extract(static_cast<Known*>(attribute))) last = std::move(found.mapped());
  if (last) last->freed = true;
  all().freed.fetch_add(1, std::memory_order_acq_rel);
  return MPI_SUCCESS;
}

Known* keep(MPI_Comm comm, const std::shared_ptr<Known>& known) {
  {
    const std::lock_guard lock(all().mutex);
    all().owners[known.get()] = known;
  }
  library().comm_set_attr(comm, all().key, known.get());
  return known.get();
}

Known* look_up(MPI_Comm comm) {
  void* attribute = nullptr;
  int found = 0;
  library().comm_get_attr(comm, all().key, static_cast<void*>(&attribute), &found);
  return found ? static_cast<Known*>(attribute) : nullptr;
}

/// The ranks of the communicator's members in MPI_COMM_WORLD; empty if a member is not in MPI_COMM_WORLD.
std::vector<int> world_ranks(MPI_Comm comm, int size) {
  MPI_Group members{}, world{};
  library().comm_group(comm, &members);
  library().comm_group(library().handles.world, &world);
  std::vector<int> places(static_cast<std::size_t>(size)), ranks(places.size());
  std::iota(places.begin(), places.end(), 0);
  library().group_translate_ranks(members, size, places.data(), world, ranks.data());
  library().group_free(&members);
  library().group_free(&world);
  for (const int rank : ranks)
    if (rank < 0) return {};
  return ranks;
}

/// True on all ranks if `mine` is true on all. Collective over `comm`.
bool all_can(MPI_Comm comm, bool mine) {
  const int can = mine;
  int all_of_them = 0;
  library().allreduce(&can, &all_of_them, 1, type_of(DType::i32), op_of(Op::min), comm);
  return all_of_them != 0;
}

/// The communicator's name in MPI, or how many ranks it has if it has none.
std::string name_of(MPI_Comm comm, int size) {
  char name[MPI_MAX_OBJECT_NAME + 1] = {};
  int length = 0;
  library().comm_get_name(comm, name, &length);
  return name[0] != '\0' ? std::string(name) : "an MPI communicator of " + std::to_string(size);
}

std::optional<Communicator> make_group(MPI_Comm comm, const std::vector<int>& ranks) {
  std::array<unsigned char, 16> name{};
  std::string why = "another rank cannot";
  bool named = false;
  try {
    fill_random(name.data(), name.size());
    named = true;
  } catch (const std::exception& error) {
    why = error.what();
  }
  library().bcast(name.data(), static_cast<int>(name.size()), byte_type(), 0, comm);
  if (!all_can(comm, named)) return {};
  std::optional<Communicator> made;
  try {
    made = all().world->tutti->group(ranks, "mpi/" + std::string(name.begin(), name.end()));
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (made) made->set_name(name_of(comm, static_cast<int>(ranks.size())));
  if (all_can(comm, made.has_value())) return made;
  log(LogLevel::warn, "a communicator of " + std::to_string(ranks.size()) + " ranks stays with MPI: " + why,
      all().world->rank);
  return {};
}

}  // namespace

void begin_communicators(Communicator world) {
  library().comm_create_keyval(&copy_nothing, &forget, &all().key, nullptr);
  const auto known = std::make_shared<Known>();
  known->rank = world.rank();
  known->size = world.size();
  world.set_name(name_of(library().handles.world, known->size));
  known->tutti = std::move(world);
  begin_refusals(*known);
  all().world = known;
  keep(library().handles.world, known);
}

Known* find_known(MPI_Comm comm) {
  if (comm == library().handles.no_comm) return nullptr;
  const std::uint64_t freed = all().freed.load(std::memory_order_acquire);
  if (recent.freed != freed) recent = {.freed = freed};
  for (const Recent::Entry& one : recent.entries)
    if (one.known != nullptr && one.comm == comm) return one.known;
  Known* const found = look_up(comm);
  if (found != nullptr) recent.entries[recent.next++ % recent.entries.size()] = {comm, found};
  return found;
}

Known* find_or_make_known(MPI_Comm comm) {
  Known* const found = find_known(comm);
  if (found != nullptr || comm == library().handles.no_comm) return found;
  const auto known = std::make_shared<Known>();
  int between_groups = 0;
  library().comm_test_inter(comm, &between_groups);
  library().comm_size(comm, &known->size);
  library().comm_rank(comm, &known->rank);
  // The result of these tests is the same on all members.
  if (!between_groups && known->size > 1) {
    const std::vector<int> ranks = world_ranks(comm, known->size);
    if (!ranks.empty()) known->tutti = make_group(comm, ranks);
    if (known->tutti) begin_refusals(*known);
  }
  return keep(comm, known);
}

void end_communicators() noexcept {
  std::map<Known*, std::shared_ptr<Known>> last;
  {
    const std::lock_guard lock(all().mutex);
    last.swap(all().owners);
    all().freed.fetch_add(1, std::memory_order_acq_rel);
  }
  recent = {};
  for (auto& [_, known] : last) known->tutti.reset();
  last.clear();
  all().world.reset();
}

}  // namespace tutti::preload
