// Counts what a test program takes from the heap, by replacing operator new in the whole program.
//
// Include it in one file of a program only: it defines the operators. The allocator's own figures are no substitute,
// because they count memory in its caches as used.
#pragma once

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace tutti::testing {

/// The heap use of all threads since the program began.
struct HeapUse {
  std::size_t allocations = 0;  ///< number of allocations
  std::size_t bytes = 0;        ///< bytes that are not freed yet
  std::size_t taken = 0;        ///< bytes of all allocations, freed or not
};

namespace heap_counters {
inline std::atomic<std::size_t> allocations{0}, bytes{0}, all_bytes{0};
}

inline HeapUse heap_use() noexcept {
  return {heap_counters::allocations.load(std::memory_order_relaxed),
          heap_counters::bytes.load(std::memory_order_relaxed),
          heap_counters::all_bytes.load(std::memory_order_relaxed)};
}

}  // namespace tutti::testing

namespace tutti::testing::heap_counters {

inline void* taken(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t size = ::malloc_usable_size(memory);
  bytes.fetch_add(size, std::memory_order_relaxed);
  all_bytes.fetch_add(size, std::memory_order_relaxed);
  return memory;
}

inline void given_back(void* memory) noexcept {
  bytes.fetch_sub(::malloc_usable_size(memory), std::memory_order_relaxed);  // 0 of a null pointer
  std::free(memory);
}

}  // namespace tutti::testing::heap_counters

// By default the array forms call these operators, and so do the nothrow forms, except where a sanitizer defines them.
// If these were inlined, the compiler would see a mismatched pair of allocation and deallocation.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return tutti::testing::heap_counters::taken(std::malloc(bytes));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  void* const memory = std::malloc(bytes);
  return memory == nullptr ? nullptr : tutti::testing::heap_counters::taken(memory);
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t align) {
  const auto boundary = static_cast<std::size_t>(align);
  const std::size_t whole = (bytes + boundary - 1) / boundary * boundary;
  return tutti::testing::heap_counters::taken(std::aligned_alloc(boundary, whole));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { tutti::testing::heap_counters::given_back(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  tutti::testing::heap_counters::given_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  tutti::testing::heap_counters::given_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  tutti::testing::heap_counters::given_back(memory);
}
