// Bootstrap of ranks that are connected already by another library, such as MPI.
#include "tutti/bootstrap.hpp"

#include <span>

#include "collectives/bootstrap/served_store.hpp"
#include "transports/core/host.hpp"
#include "transports/core/sha256.hpp"
#include "tutti/log.hpp"

namespace tutti {
namespace {

/// Computes the number of ranks on this host, and how many of them have a lower rank.
void count_local_ranks(const CommonLibrary& library, Bootstrap& result) {
  const std::string host = host_identity(result.settings.host_id);
  const Digest digest = sha256(std::as_bytes(std::span(host)));
  const std::string mine(reinterpret_cast<const char*>(digest.data()), digest.size());
  std::string all(mine.size() * static_cast<std::size_t>(library.size), '\0');
  library.allgather(mine, all);
  result.local_size = 0;
  for (int rank = 0; rank < library.size; ++rank) {
    if (all.compare(static_cast<std::size_t>(rank) * mine.size(), mine.size(), mine) != 0) continue;
    if (rank == library.rank) result.local_rank = result.local_size;
    ++result.local_size;
  }
}

}  // namespace

Bootstrap bootstrap_over(const CommonLibrary& library, const Settings& settings) {
  if (const auto level = parse_log_level(settings.log)) set_log_level(*level);
  if (library.rank == 0) warn_of_unknown(settings);
  Bootstrap result;
  result.rank = library.rank;
  result.size = library.size;
  result.native = library.native;
  result.launcher = library.name;
  result.settings = settings;
  count_local_ranks(library, result);

  // If rank 0 fails, it broadcasts its error instead of the store's address, because the other ranks wait for a text.
  std::string card(launchers::longest_card, ' ');
  launchers::CardedStore mine;
  if (library.rank == 0) {
    std::string text;
    try {
      mine = launchers::serve_with_card(result.local_size == result.size, settings.secret);
      text = "+" + launchers::random_secret() + "," + launchers::to_text(mine.card);
    } catch (const std::exception& error) {
      text = std::string("-") + error.what();
    }
    text.resize(card.size(), ' ');
    card = text;
  }
  library.broadcast(card);
  card.resize(card.find_last_not_of(' ') + 1);
  if (card[0] != '+') throw Error(Code::resource, "rank 0 cannot serve the store: " + card.substr(1));
  const std::size_t comma = card.find(',');
  const launchers::StoreCard found = launchers::parse_store_card(card.substr(comma + 1));
  result.settings.secret = found.secret.empty() ? settings.secret : found.secret;
  if (result.settings.job.empty()) result.settings.job = library.name + "-" + card.substr(1, comma - 1);
  std::string place;
  result.store = library.rank == 0 ? std::move(mine.served.store)
                                   : launchers::connect_any(found.endpoints, result.settings.secret,
                                                            deadline_in(Seconds(settings.connect_timeout)), place);
  return result;
}

}  // namespace tutti
