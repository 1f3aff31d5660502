// Memory that peers on the same host can map, and what it takes to get it honestly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tutti {

/// `bytes` bytes, zeroed, page-aligned, with every page reserved, so that touching them never fails;
/// huge pages are asked for above 2 MiB. Backed by a memfd, or by anonymous shared memory where memfd is
/// refused. A forked child shares it. Zero bytes give a page. Throws Error{resource} naming the size.
std::shared_ptr<void> allocate_shared(std::size_t bytes);

/// Memory that this process may still take: what the host has to spare, and what its cgroups allow. The kernel
/// answers a larger request by killing somebody, so ask here first.
std::uint64_t available_memory() noexcept;

/// "17 bytes", "64 KiB", "33 MiB", "1.5 GiB".
std::string size_text(std::uint64_t bytes);

}  // namespace tutti
