#include "bindings/c/handles.hpp"

#include <algorithm>
#include <cmath>
#include <new>

namespace tutti::c {
namespace {

/// The last error of a thread; setting it does not fail if memory is exhausted.
struct LastError {
  std::string text;
  const char* shown = "";
};
LastError& last_error() noexcept {
  thread_local LastError last;
  return last;
}

tutti_result note(tutti_result result, const char* text) noexcept {
  LastError& last = last_error();
  try {
    last.text = text;
    last.shown = last.text.c_str();
  } catch (...) {
    last.shown = "there is no memory left";
  }
  return result;
}

}  // namespace

void note_success() noexcept { last_error().shown = ""; }

tutti_result note_failure() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return note(static_cast<tutti_result>(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return note(TUTTI_RESOURCE, "there is no memory left");
  } catch (const std::exception& error) {
    return note(TUTTI_INTERNAL, error.what());
  } catch (...) {
    return note(TUTTI_INTERNAL, "something was thrown that is no std::exception");
  }
}

void check_tail(const void* start, std::size_t known, std::size_t bytes, const char* name) {
  if (bytes <= known) return;
  constexpr std::size_t most = 4096;
  const auto* const at = static_cast<const std::byte*>(start);
  if (bytes > most || std::any_of(at + known, at + bytes, [](std::byte b) { return b != std::byte{0}; }))
    throw Error(Code::invalid, std::string(name) + "->struct_size is " + std::to_string(bytes) +
                                   ", but this library (" + tutti_version_string() + ") knows " +
                                   std::to_string(known) +
                                   " bytes: set the fields to 0 that it does not know, or use a newer one");
}

void put_text(std::string_view text, char* into, std::size_t bytes) {
  if (bytes == 0) throw Error(Code::invalid, "text_bytes is 0; there must be room for the zero at the end of the text");
  const std::size_t n = std::min(text.size(), bytes - 1);
  std::memcpy(given(into, "text"), text.data(), n);
  into[n] = '\0';
}

void hand_out(std::optional<Communicator> made, tutti_comm* comm) {
  *comm = made ? new tutti_comm_s(*std::move(made)) : nullptr;
}

bindings::View view_of(tutti_dtype dtype) {
  const auto at = [](std::size_t index) { return bindings::views()[index]; };
  if (dtype >= TUTTI_I8 && dtype <= TUTTI_U64) return at(static_cast<std::size_t>(dtype));
  switch (dtype) {
    case TUTTI_BOOL: return at(bindings::bool_view);
    case TUTTI_C64: return at(bindings::c64_view);
    case TUTTI_C128: return at(bindings::c128_view);
    case TUTTI_BYTES: return at(bindings::bytes_view);
    default: throw Error(Code::invalid, std::to_string(dtype) + " is none of tutti_dtype's values");
  }
}

Reduction reduction_of(tutti_op op, double factor) {
  if (op < TUTTI_SUM || op > TUTTI_PREMUL_SUM)
    throw Error(Code::invalid, std::to_string(op) + " is none of tutti_op's values");
  return {static_cast<Op>(op), factor};
}

}  // namespace tutti::c

extern "C" const char* tutti_last_error(void) { return tutti::c::last_error().shown; }
