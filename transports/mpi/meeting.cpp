#include "transports/mpi/meeting.hpp"

#include <string>
#include <string_view>

namespace tutti::mpi {
namespace {

constexpr std::string_view ready = "ready";  // any other text is the reason of a failure
constexpr std::string_view outcome = "outcome";

std::string word_of(int rank) { return "word/" + std::to_string(rank); }

/// `ready`, or the first member that failed and its reason.
std::string heard(const Meeting& meeting) {
  for (const int rank : meeting.members) {
    std::string word;
    try {
      word = meeting.store->wait_unless(word_of(rank), departure_key(rank), meeting.until);
    } catch (const Error& error) {
      if (error.code() != Code::timeout) throw;
      word = "it did not come in time (TUTTI_CONNECT_TIMEOUT): look at its own output";
    }
    if (word != ready) return "rank " + std::to_string(rank) + " cannot make an MPI communicator: " + word;
  }
  return std::string(ready);
}

// The first outcome in the store holds for all members, since a late member may find all words set after others have
// given up.
void agree(const Meeting& meeting) {
  meeting.store->set(word_of(meeting.world_rank), ready);
  const std::string first = meeting.store->set_once(outcome, heard(meeting));
  if (first != ready) throw Error(Code::resource, first);
}

}  // namespace

std::unique_ptr<Comm> meet(const Meeting& meeting) {
  const bool alone = meeting.members.size() == 1 || meeting.store == nullptr;
  Session* session = nullptr;
  try {
    session = &Session::begin(*meeting.settings);
    session->check_ranks(meeting.base, meeting.world_size, meeting.world_rank);
  } catch (const std::exception& error) {
    if (!alone) meeting.store->set(word_of(meeting.world_rank), error.what());
    throw;
  }
  if (!alone) agree(meeting);
  auto comm = std::make_unique<Comm>(*session, meeting.base, meeting.world_rank, meeting.members, meeting.name);
  if (!alone) {  // everyone has read all keys, since all members are in the communicator
    meeting.store->erase(word_of(meeting.world_rank));
    if (comm->rank() == 0) meeting.store->erase(outcome);
  }
  return comm;
}

}  // namespace tutti::mpi
