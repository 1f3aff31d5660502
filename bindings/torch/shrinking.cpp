// Backend: shrinking a group, for torch.distributed.shrink_group.
//
// The ranks that shall be left agree on who of them is alive. A rank that the caller does not exclude, but that is
// dead, is left out as well. Ranks that are excluded, but live, take no part.
#include <algorithm>

#include "bindings/torch/backend.hpp"
#include "bindings/torch/completer.hpp"
#include "bindings/torch/errors.hpp"
#include "bindings/torch/gil.hpp"
#include "tutti/log.hpp"

namespace tutti::torch_binding {
namespace {

constexpr const char* call = "shrink_group";
constexpr int shrink_abort = 1;  // SHRINK_ABORT of torch.distributed; SHRINK_DEFAULT is 0

/// The ranks of a group of `size` that are not excluded. `self` is this rank.
std::vector<int> not_excluded(const std::vector<std::int64_t>& excluded, int size, int self) {
  for (const std::int64_t rank : excluded)
    if (rank < 0 || rank >= size)
      refuse(call, std::to_string(rank) + " is not a rank of this group of " + std::to_string(size));
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank)
    if (std::ranges::find(excluded, rank) == excluded.end()) ranks.push_back(rank);
  if (std::ranges::find(ranks, self) == ranks.end())
    refuse(call, "this rank, " + std::to_string(self) + ", is to be excluded; only the other ranks call shrink_group");
  return ranks;
}

/// Those of `ranks` that are in `part`, which has them in the same order; ranks are those of `whole`.
std::vector<int> found_in(const Communicator& part, const Communicator& whole, const std::vector<int>& ranks) {
  std::vector<int> found;
  for (const int rank : ranks) {
    const int next = static_cast<int>(found.size());
    if (next < part.size() && part.world_rank(next) == whole.world_rank(rank)) found.push_back(rank);
  }
  return found;
}

/// How long the ranks wait for one another when they agree: the timeout of the job.
std::chrono::milliseconds limit_of(const Communicator& whole) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Seconds(whole.settings().timeout));
}

/// The caller cannot correct torch's tables, which still have the ranks that were not named.
void warn_of_others(const std::vector<int>& wanted, const std::vector<int>& left) {
  std::string dead;
  for (const int rank : wanted)
    if (!std::ranges::binary_search(left, rank)) dead += (dead.empty() ? "" : ", ") + std::to_string(rank);
  if (dead.empty()) return;
  log(LogLevel::warn, "shrink_group: not named, but dead and therefore excluded as well: " + dead +
                          ". torch still counts these ranks as members when it translates global ranks; "
                          "tutti.torch.shrink() names all dead ranks");
}

}  // namespace

c10::intrusive_ptr<Backend::Options> Backend::options_of_shrunk(
    const c10::intrusive_ptr<c10d::Backend::Options>& given) const {
  const auto* const own = dynamic_cast<const Options*>(given.get());
  if (given && own == nullptr)
    refuse(call, "pg_options of the backend tutti must be a tutti.torch.Options, not one of " + given->backend);
  auto made = c10::make_intrusive<Options>(group_->name(), given ? given->timeout : group_->timeout());
  made->algorithm = own != nullptr ? own->algorithm : options_->algorithm;
  made->group_name = group_->id();
  return made;
}

c10::intrusive_ptr<c10d::Backend> Backend::shrink(const std::vector<std::int64_t>& excluded, int flags,
                                                  const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const std::vector<int> wanted = not_excluded(excluded, size_, rank_);
  if (flags != 0 && flags != shrink_abort)
    refuse(call, "shrink_flags is " + std::to_string(flags) + "; give SHRINK_DEFAULT (0) or SHRINK_ABORT (1)");
  auto own = options_of_shrunk(options);
  const WithoutGil without;
  Communicator whole = group_->communicator();
  if (flags == shrink_abort) {
    group_->abort("rank " + std::to_string(rank_) + " shrinks the process group with SHRINK_ABORT");
    Completer::instance().drain(*group_, deadline_in(Seconds(2)));
  }
  Origin origin{.store = {}, .id = group_->id() + "/shrunk", .is_world = is_world_};
  try {
    origin.made = whole.shrink(wanted, origin.id);
  } catch (const Error& error) {
    std::rethrow_exception(translated(error, call, limit_of(whole)));
  }
  const std::vector<int> left = found_in(*origin.made, whole, wanted);
  warn_of_others(wanted, left);
  origin.rank = origin.made->rank();
  origin.size = origin.made->size();
  if (!is_default_)
    for (const int rank : left) {
      origin.members.push_back(group_->members()[static_cast<std::size_t>(rank)]);
      own->global_ranks_in_group.push_back(static_cast<std::uint64_t>(origin.members.back()));
    }
  return c10::make_intrusive<Backend>(origin, std::move(own));
}

std::vector<int> Backend::lost_ranks() {
  const WithoutGil without;
  Communicator whole = group_->communicator();
  try {
    const Agreed agreed = whole.agree();
    std::vector<int> lost;
    for (int rank = 0; rank < size_; ++rank)
      if (!std::ranges::binary_search(agreed.members, rank)) lost.push_back(rank);
    return lost;
  } catch (const Error& error) {
    std::rethrow_exception(translated(error, "shrink", limit_of(whole)));
  }
}

}  // namespace tutti::torch_binding
