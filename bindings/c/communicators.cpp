// The C functions that create communicators: from the environment, a store, an id, or the ranks' own allgather.
#include <cmath>

#include "bindings/c/handles.hpp"
#include "bindings/c/unique_ids.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/log.hpp"
#include "tutti/store.hpp"
#include "tutti/turns.hpp"

namespace tutti::c {
namespace {

void check_seconds(double value, const char* what) {
  if (std::isnan(value) || value < 0)
    throw Error(Code::invalid,
                std::string(what) + " is " + std::to_string(value) + "; give seconds, or 0 for the standard");
}

/// Sets "key=value;key=value", or one setting per line.
void set_all(Settings& settings, std::string_view text) {
  const char between = text.find('\n') != std::string_view::npos ? '\n' : ';';
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(between), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.empty()) continue;
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos)
      throw Error(Code::invalid, "config->settings has '" + std::string(one) + "'; it takes key=value;key=value");
    settings.set(one.substr(0, equals), one.substr(equals + 1), "the program");
  }
}

Settings settings_of(const tutti_config& config) {
  Settings settings = Settings::from_environment();
  check_seconds(config.timeout, "config->timeout");
  check_seconds(config.connect_timeout, "config->connect_timeout");
  if (config.settings != nullptr) set_all(settings, config.settings);
  if (config.timeout > 0) settings.timeout = config.timeout;
  if (config.connect_timeout > 0) settings.connect_timeout = config.connect_timeout;
  if (config.job != nullptr) settings.job = config.job;
  if (config.secret != nullptr) settings.secret = config.secret;
  if (const auto level = parse_log_level(settings.log)) set_log_level(*level);
  return settings;
}

tutti_config config_of(const tutti_config* config) {
  const tutti_config standard = TUTTI_CONFIG_INIT;
  return config != nullptr ? completed(config, standard, "config") : standard;
}

/// The bootstrap for the rank and size in `config`; store, job and secret are set later.
Bootstrap bootstrap_of(const tutti_config& config, const char* launcher) {
  Bootstrap made;
  made.rank = config.rank;
  made.size = config.size == 0 ? 1 : config.size;
  if (made.size < 1 || made.rank < 0 || made.rank >= made.size)
    throw Error(Code::invalid, "config->rank is " + std::to_string(made.rank) + " and config->size " +
                                   std::to_string(config.size) + "; ranks are 0 to size - 1");
  made.local_rank = config.local_size > 0 ? config.local_rank : 0;
  made.local_size = config.local_size > 0 ? config.local_size : 1;
  made.launcher = launcher;
  made.settings = settings_of(config);
  return made;
}

CommonLibrary library_of(const tutti_oob& oob) {
  const auto gather = [oob](const void* mine, void* all, std::size_t bytes) {
    const int answer = oob.allgather(oob.user, mine, all, bytes);
    if (answer != 0)
      throw Error(Code::resource, "the program's allgather returned " + std::to_string(answer) + "; 0 is success");
  };
  CommonLibrary library;
  library.name = "oob";
  library.rank = oob.rank;
  library.size = oob.size;
  library.allgather = [gather](const std::string& mine, std::string& all) {
    gather(mine.data(), all.data(), mine.size());
  };
  library.broadcast = [gather, oob](std::string& text) {
    std::string all(text.size() * static_cast<std::size_t>(oob.size), '\0');
    gather(text.data(), all.data(), text.size());
    text = all.substr(0, text.size());
  };
  return library;
}

}  // namespace
}  // namespace tutti::c

using namespace tutti;
using namespace tutti::c;

extern "C" {

tutti_result tutti_comm_from_env(const tutti_config* config, tutti_comm* comm) {
  return guarded([&] {
    given(comm, "comm");
    hand_out(Communicator::from_env(settings_of(config_of(config))), comm);
  });
}

tutti_result tutti_comm_from_store(tutti_store store, const tutti_config* config, tutti_comm* comm) {
  return guarded([&] {
    given(comm, "comm");
    Bootstrap bootstrap = bootstrap_of(config_of(given(config, "config")), "a store of the program's");
    launchers::join_others(bootstrap, usable(store, "store").store);
    hand_out(Communicator::connect(bootstrap), comm);
  });
}

tutti_result tutti_get_unique_id(tutti_unique_id* id) {
  return guarded([&] { make_unique_id(given(id, "id")->bytes); });
}

tutti_result tutti_comm_from_unique_id(const tutti_unique_id* id, const tutti_config* config, tutti_comm* comm) {
  return guarded([&] {
    given(comm, "comm");
    given(id, "id");
    Bootstrap bootstrap = bootstrap_of(config_of(given(config, "config")), "an id of the program's");
    const OpenedId opened = open_unique_id(id->bytes, deadline_in(Seconds(bootstrap.settings.connect_timeout)));
    if (bootstrap.settings.secret.empty()) bootstrap.settings.secret = opened.secret;
    launchers::join_others(bootstrap, opened.store);
    hand_out(Communicator::connect(bootstrap), comm);
  });
}

tutti_result tutti_comm_from_oob(const tutti_oob* oob, const tutti_config* config, tutti_comm* comm) {
  return guarded([&] {
    given(comm, "comm");
    const tutti_oob all = completed(oob, tutti_oob{}, "oob");
    given(all.allgather, "oob->allgather");
    tutti_config who = config_of(config);
    who.rank = all.rank;
    who.size = all.size;
    if (all.size < 1) throw Error(Code::invalid, "oob->size is " + std::to_string(all.size) + "; it is 1 or more");
    const Settings settings = bootstrap_of(who, "oob").settings;
    hand_out(Communicator::connect(bootstrap_over(library_of(all), settings)), comm);
  });
}

}  // extern "C"
