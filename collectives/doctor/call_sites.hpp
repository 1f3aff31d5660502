// Instructions that call, found by the address to which they return; for x86-64 and 64-bit ARM.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

namespace tutti::doctor {

/// Bytes before a return address that a call instruction may have.
inline constexpr std::size_t longest_call = 8;

/// The bytes before a return address.
using CodeBefore = std::array<std::uint8_t, longest_call>;

/// Reads memory of the process: false if it cannot be read.
using Reads = std::function<bool(std::uint64_t address, void* into, std::size_t bytes)>;

/// Returns true if the bytes end with a call instruction. Other code may end so by chance.
bool ends_with_call(const CodeBefore& code) noexcept;

/// The address of the function that the call before `return_address` enters, through the table of a shared library if
/// need be; 0 if only the registers of that moment told.
std::uint64_t called_function(std::uint64_t return_address, const CodeBefore& code, const Reads& read);

}  // namespace tutti::doctor
