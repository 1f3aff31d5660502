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

/// Whole pages that hold so many bytes, at least one; a page.
std::size_t whole_pages(std::size_t bytes) noexcept;
std::size_t page_bytes() noexcept;

/// Takes the pages of [memory, memory + bytes), which are those of `fd` from `offset` on (-1: of no file), so that
/// touching them never fails; by huge ones where that can be. 0, or the error.
int reserve_pages(int fd, std::size_t offset, void* memory, std::size_t bytes) noexcept;
/// The same for a file that is not mapped.
int reserve_file(int fd, std::size_t offset, std::size_t bytes) noexcept;

/// What a shortage throws: Error{resource}, naming the size, why, and what is left.
[[noreturn]] void refuse_allocation(std::size_t bytes, const std::string& why);

/// Memory that this process may still take: what the host has to spare, and what its cgroups allow. The kernel
/// answers a larger request by killing somebody, so ask here first.
std::uint64_t available_memory() noexcept;

/// "17 bytes", "64 KiB", "33 MiB", "1.5 GiB".
std::string size_text(std::uint64_t bytes);

}  // namespace tutti
