// The settings of mpi, and of the preload by which MPI programs run over tutti (bindings/mpi).
#pragma once

#include "tutti/settings.hpp"

namespace tutti {

inline constexpr ProviderSetting<std::string_view> mpi_library{
    "mpi_library", "file of the MPI library to use where the program has none; empty: the launcher's, or the system's"};
inline constexpr ProviderSetting<std::int64_t> mpi_min_bytes{
    "mpi_min_bytes",
    "under the MPI preload: calls of fewer bytes per rank stay with MPI",
    0,
    {.least = 0, .most = 1LL << 40}};
inline constexpr ProviderSetting<std::int64_t> mpi_check{
    "mpi_check",
    "1: under the MPI preload MPI makes every call too, and a difference ends the job; 0: not",
    0,
    {.least = 0, .most = 1}};

inline constexpr SettingInfo mpi_settings[] = {mpi_library, mpi_min_bytes, mpi_check};

}  // namespace tutti
