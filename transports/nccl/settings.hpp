// The settings of nccl.
#pragma once

#include "tutti/settings.hpp"

namespace tutti {

inline constexpr ProviderSetting<std::string_view> nccl_library{
    "nccl_library", "file of the NCCL library to use; empty: the one that the program has, else libnccl.so.2"};
inline constexpr ProviderSetting<std::string_view> nccl_shared_gpu{
    "nccl_shared_gpu",
    "on: NCCL decides itself whether several ranks may share a GPU; off: another backend is taken",
    "off",
    {.choices = "off, on"}};
inline constexpr ProviderSetting<std::string_view> nccl_order{
    "nccl_order",
    "agreed: calls of several communicators reach NCCL in one order on all ranks; or as issued",
    "agreed",
    {.choices = "agreed, issued"}};

inline constexpr SettingInfo nccl_settings[] = {nccl_library, nccl_shared_gpu, nccl_order};

}  // namespace tutti
