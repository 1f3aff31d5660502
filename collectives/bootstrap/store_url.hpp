// Where a store is, as TUTTI_STORE says it; private to collectives/bootstrap.
#pragma once

#include <memory>
#include <string>

#include "collectives/bootstrap/stores.hpp"

namespace tutti {

struct StoreUrl {
  std::string folder;  ///< of a file store; else empty
  std::string host;
  int port = 0;
};

/// Throws Error{invalid} for what is no store.
StoreUrl parse_store_url(const std::string& url);

/// As connect_tcp_store, but tries each address of the host once.
std::shared_ptr<Store> connect_tcp_store_once(const std::string& host, int port, const std::string& secret,
                                              Deadline until);

}  // namespace tutti
