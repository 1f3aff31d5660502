// Jobs whose ranks are threads of this program, and the texts that a rank of a large job publishes.
#pragma once

#include <memory>
#include <string>

#include "tutti/bootstrap.hpp"
#include "tutti/communicator.hpp"
#include "tutti/provider/texts.hpp"

namespace tutti::growth {

/// The world communicator of a thread: rank `rank` of `size`. All threads pass the same `store`. Collective; blocks.
inline Communicator world_of_thread(const std::shared_ptr<Store>& store, int rank, int size,
                                    const char* transport = "inproc", const char* modules = "") {
  Bootstrap self;
  self.rank = rank;
  self.size = size;
  self.store = store;
  self.settings.transport = transport;
  self.settings.module_path = modules;
  self.settings.job = "growth";
  self.settings.tuning = "off";
  return Communicator::connect(self);
}

inline constexpr int ranks_of_a_host = 8;

/// A made-up identity of a rank's host, as long as a real one, and a made-up host name.
inline std::string host_of(int rank, int on_a_host = ranks_of_a_host) {
  return "5f0c8a52-3c5d-4d0e-9a4f-000000000000-" + std::to_string(rank / on_a_host);
}
inline std::string host_name_of(int rank, int on_a_host = ranks_of_a_host) {
  return "node" + std::to_string(rank / on_a_host);
}

/// A text such as the provider tcp publishes for a rank, with a made-up host.
inline Text tcp_text_of(int rank, int on_a_host = ranks_of_a_host) {
  return {"01234567 40001",
          "tcp 2\n" + host_name_of(rank, on_a_host) + "\n" + host_of(rank, on_a_host) + "\n=\n10.1.2.3 0 eth0\n"};
}

}  // namespace tutti::growth
