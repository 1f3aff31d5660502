// The settings of throwaway.
#pragma once

#include "tutti/settings.hpp"

namespace tutti {

inline constexpr ProviderSetting<std::int64_t> throwaway_patience{
    "throwaway_patience", "for tests; 0: the transport is not viable", 7, {.least = 0, .most = 9, .agreed = true}};

inline constexpr SettingInfo throwaway_settings[] = {throwaway_patience};

}  // namespace tutti
