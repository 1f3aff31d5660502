// Shared memory that peers on the same host can map, and checks that enough memory is available.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tutti {

/// Allocates `bytes` bytes, zeroed and page-aligned. All pages are reserved, so that access never fails; huge pages are
/// requested above 2 MiB. Backed by a memfd, or by anonymous shared memory if memfd is refused. Shared with forked
/// children. Zero bytes allocate one page. Throws Error{resource} naming the size.
std::shared_ptr<void> allocate_shared(std::size_t bytes);

/// whole_pages(): `bytes` rounded up to whole pages, at least one page. page_bytes(): the size of a page.
std::size_t whole_pages(std::size_t bytes) noexcept;
std::size_t page_bytes() noexcept;

/// Reserves the pages of [memory, memory + bytes), a mapping of `fd` from `offset` on (-1: anonymous), so that access
/// never fails; with huge pages if possible. Returns 0 or an errno.
int reserve_pages(int fd, std::size_t offset, void* memory, std::size_t bytes) noexcept;
/// Reserves the pages of a part of a file that is not mapped. Returns 0 or an errno.
int reserve_file(int fd, std::size_t offset, std::size_t bytes) noexcept;

/// Throws Error{resource} with the size, the reason `why` and the memory that is left.
[[noreturn]] void refuse_allocation(std::size_t bytes, const std::string& why);

/// Bytes that this process may still allocate: the host's available memory, limited by its cgroups. Check this before a
/// large allocation, because the kernel answers a shortage by killing a process.
std::uint64_t available_memory() noexcept;

/// "17 bytes", "64 KiB", "33 MiB", "1.5 GiB".
std::string size_text(std::uint64_t bytes);

}  // namespace tutti
