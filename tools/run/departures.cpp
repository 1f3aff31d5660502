#include "tools/run/departures.hpp"

#include <cstdlib>

#include "collectives/bootstrap/turns.hpp"
#include "tutti/log.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {

void Departures::tell(int rank, const std::string& how) noexcept {
  constexpr Seconds patience(0.5);
  if (given_up_) return;
  try {
    if (!store_) {
      store_ = open_store(url_, secret_, deadline_in(patience));
      store_->hurry(patience);
    }
    // The next meeting is the first that it does not come to. How it left the last one that it came to, the store knows
    // by itself.
    std::string came = "0";
    store_->find(launchers::turn_key(rank, ranks_), came);
    const auto next = launchers::turn_store(store_, ranks_, std::strtoll(came.c_str(), nullptr, 10) + 1);
    next->set_once(departure_key(rank), departure_text(rank, how));
  } catch (const std::exception& error) {
    given_up_ = true;
    log(LogLevel::debug, std::string("ranks that wait for others will not be told of their end: ") + error.what());
  }
}

}  // namespace tutti::tools
