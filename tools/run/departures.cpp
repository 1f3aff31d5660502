#include "tools/run/departures.hpp"

#include "tutti/log.hpp"
#include "tutti/status.hpp"
#include "tutti/turns.hpp"

namespace tutti::tools {
namespace {

constexpr Seconds store_patience(0.5), pause_between(1);
constexpr int most_tries = 20;

}  // namespace

void Departures::tell(int rank, const std::string& how) {
  if (tries_ >= most_tries) return;
  untold_.emplace_back(rank, how);
  if (next_try_ == never) try_again();
}

void Departures::try_again() noexcept {
  next_try_ = never;
  try {
    for (; !untold_.empty(); untold_.erase(untold_.begin()))
      tell_the_store(untold_.front().first, untold_.front().second);
    tries_ = 0;
  } catch (const std::exception& error) {
    const auto* const known = dynamic_cast<const Error*>(&error);
    if (known && known->code() == Code::timeout && ++tries_ < most_tries) {
      next_try_ = deadline_in(pause_between);
      return;
    }
    tries_ = most_tries;
    log(LogLevel::debug, std::string("ranks that wait for others will not be told of their end: ") + error.what());
  }
}

void Departures::tell_the_store(int rank, const std::string& how) {
  if (!store_) {
    store_ = open_store(url_, secret_, deadline_in(store_patience));
    store_->hurry(store_patience);
  }
  launchers::tell_departure(*store_, {.rank = rank, .size = ranks_, .job = job_, .by = {}}, how);
}

}  // namespace tutti::tools
