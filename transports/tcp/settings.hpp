// The settings of tcp.
#pragma once

#include "tutti/settings.hpp"

namespace tutti {

inline constexpr ProviderSetting<std::string_view> tcp_congestion{
    "tcp_congestion", "congestion control of tcp's sockets, the first that the kernel allows; empty: the kernel's own",
    "cubic,reno"};
inline constexpr ProviderSetting<std::int64_t> tcp_connections{
    "tcp_connections",
    "tcp connections between two ranks for large messages, at most 8; 0: one on a host, 4 between hosts",
    0,
    {.least = 0, .most = 8, .agreed = true}};

inline constexpr SettingInfo tcp_settings[] = {tcp_congestion, tcp_connections};

}  // namespace tutti
