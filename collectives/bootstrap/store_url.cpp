// Store addresses: "tcp://HOST:PORT", "tcp://[::1]:PORT", "file:///FOLDER".
#include "collectives/bootstrap/store_url.hpp"

#include <charconv>

#include "tutti/status.hpp"

namespace tutti {
namespace {

[[noreturn]] void bad_url(const std::string& url) {
  throw Error(Code::invalid, "'" + url + "' names no store: give tcp://HOST:PORT or file:///FOLDER (TUTTI_STORE)");
}

}  // namespace

StoreUrl parse_store_url(const std::string& url) {
  constexpr std::string_view tcp = "tcp://", file = "file://";
  StoreUrl found;
  if (url.starts_with(file)) {
    found.folder = url.substr(file.size());
    if (!found.folder.starts_with('/')) bad_url(url);
    return found;
  }
  const std::size_t colon = url.rfind(':');
  if (!url.starts_with(tcp) || colon < tcp.size()) bad_url(url);
  found.host = url.substr(tcp.size(), colon - tcp.size());
  if (found.host.starts_with('[') && found.host.ends_with(']')) {
    found.host = found.host.substr(1, found.host.size() - 2);
  } else if (found.host.find(':') != std::string::npos) {
    bad_url(url);  // an IPv6 address needs brackets
  }
  const char* const end = url.data() + url.size();
  const auto [stop, error] = std::from_chars(url.data() + colon + 1, end, found.port);
  if (found.host.empty() || error != std::errc() || stop != end || found.port < 1 || found.port > 65535) bad_url(url);
  return found;
}

std::shared_ptr<Store> open_store(const std::string& url, const std::string& secret, Deadline until) {
  const StoreUrl found = parse_store_url(url);
  if (!found.folder.empty()) return make_file_store(found.folder);
  return connect_tcp_store(found.host, found.port, secret, until);
}

}  // namespace tutti
