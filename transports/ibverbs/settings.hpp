// The settings of ibverbs: what to use of a host that has several devices, ports or addresses.
#pragma once

#include "tutti/settings.hpp"

namespace tutti {

inline constexpr ProviderSetting<std::string_view> ib_device{
    "ib_device", "the RDMA device to use, as 'tutti info' lists them; empty: any"};
inline constexpr ProviderSetting<std::int64_t> ib_port{
    "ib_port", "the port of RDMA devices to use; 0: any", 0, {.least = 0, .most = 255}};
inline constexpr ProviderSetting<std::int64_t> ib_gid_index{
    "ib_gid_index",
    "the entry in an RDMA port's table of addresses (GIDs); -1: the best",
    -1,
    {.least = -1, .most = 255}};

inline constexpr SettingInfo ibverbs_settings[] = {ib_device, ib_port, ib_gid_index};

}  // namespace tutti
