// Parsing of TUTTI_STORE; private to collectives/bootstrap.
#pragma once

#include <memory>
#include <string>

#include "tutti/store.hpp"

namespace tutti {

struct StoreUrl {
  std::string folder;  ///< for a file store; else empty
  std::string host;
  int port = 0;
};

/// Throws Error{invalid} if `url` is not a store's address.
StoreUrl parse_store_url(const std::string& url);

/// As connect_tcp_store, but tries each address of the host only once.
std::shared_ptr<Store> connect_tcp_store_once(const std::string& host, int port, const std::string& secret,
                                              Deadline until);

}  // namespace tutti
