// The settings of the provider "shm".
#pragma once

#include "tutti/settings.hpp"

namespace tutti {

inline constexpr ProviderSetting<std::string_view> shm_dir{
    "shm_dir", "folder for the shared segment where memfd is refused", "/dev/shm"};
inline constexpr ProviderSetting<std::int64_t> shm_bytes{
    "shm_bytes",
    "most memory of one rank's rings to the others of its host, each of which has a page at least",
    4 << 20,
    {.least = 64 << 10, .most = 1LL << 40}};

inline constexpr ProviderSetting<std::string_view> shm_users{
    "shm_users",
    "same: processes of other users are refused unheard; any: not, as where ranks live in several user namespaces",
    "same",
    {.choices = "same, any"}};

inline constexpr SettingInfo shm_settings[] = {shm_dir, shm_bytes, shm_users};

}  // namespace tutti
