#include "collectives/doctor/call_sites.hpp"

#include <cstring>

namespace tutti::doctor {
namespace {

template <class T>
T number_at(const std::uint8_t* bytes) noexcept {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

#ifdef __x86_64__

/// The length of "call *operand" (ff /2) whose second byte is `mode` and third, if it has one, `scale`.
std::size_t indirect_length(std::uint8_t mode, std::uint8_t scale) noexcept {
  const unsigned kind = mode >> 6, base = mode & 7u;
  if (kind == 3) return 2;
  const std::size_t with_scale = base == 4 ? 3 : 2;
  if (kind == 1) return with_scale + 1;
  if (kind == 2) return with_scale + 4;
  return base == 5 || (base == 4 && (scale & 7u) == 5) ? with_scale + 4 : with_scale;
}

std::uint64_t distance(const std::uint8_t* bytes) noexcept {
  return static_cast<std::uint64_t>(std::int64_t{number_at<std::int32_t>(bytes)});
}

/// The function to which a stub "endbr64; jmp *slot" leads; `stub` itself if there is no such stub.
std::uint64_t behind_stub(std::uint64_t stub, const Reads& read) {
  std::uint8_t code[16];
  if (!read(stub, code, sizeof code)) return stub;
  std::size_t at = 0;
  if (code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa) at = 4;
  if (code[at] == 0xf2) ++at;
  if (code[at] != 0xff || code[at + 1] != 0x25) return stub;
  std::uint64_t function = 0;
  return read(stub + at + 6 + distance(code + at + 2), &function, sizeof function) ? function : stub;
}

#else

std::uint64_t sign_extended(std::uint64_t value, unsigned bits) noexcept {
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  return (value ^ sign) - sign;
}

/// The function to which a stub "adrp x16, page; ldr x17, [x16, slot]" leads; `stub` itself if there is no such stub.
std::uint64_t behind_stub(std::uint64_t stub, const Reads& read) {
  std::uint32_t code[3];
  if (!read(stub, code, sizeof code)) return stub;
  constexpr std::uint32_t bti_c = 0xd503245f;
  const std::size_t at = code[0] == bti_c ? 1 : 0;
  const std::uint32_t page = code[at], load = code[at + 1];
  if ((page & 0x9f00001fu) != 0x90000010u || (load & 0xffc003ffu) != 0xf9400211u) return stub;
  const std::uint64_t pages = sign_extended((std::uint64_t{page >> 5 & 0x7ffffu} << 2) | (page >> 29 & 3u), 21);
  const std::uint64_t slot = ((stub + 4 * at) & ~std::uint64_t{0xfff}) + (pages << 12) + 8 * (load >> 10 & 0xfffu);
  std::uint64_t function = 0;
  return read(slot, &function, sizeof function) ? function : stub;
}

#endif

}  // namespace

#ifdef __x86_64__

bool ends_with_call(const CodeBefore& code) noexcept {
  const std::uint8_t* const end = code.data() + code.size();
  if (end[-5] == 0xe8) return true;
  for (std::size_t length = 2; length <= 7; ++length)
    if (const std::uint8_t* const call = end - length; call[0] == 0xff && (call[1] >> 3 & 7) == 2)
      if (indirect_length(call[1], length > 2 ? call[2] : 0) == length) return true;
  return false;
}

std::uint64_t called_function(std::uint64_t return_address, const CodeBefore& code, const Reads& read) {
  const std::uint8_t* const end = code.data() + code.size();
  std::uint64_t function = 0;
  if (end[-6] == 0xff && end[-5] == 0x15)  // call *slot(%rip)
    return read(return_address + distance(end - 4), &function, sizeof function) ? function : 0;
  return end[-5] == 0xe8 ? behind_stub(return_address + distance(end - 4), read) : 0;
}

#else

bool ends_with_call(const CodeBefore& code) noexcept {
  const auto call = number_at<std::uint32_t>(code.data() + code.size() - 4);
  // bl; blr; blr with an authenticated pointer
  return (call & 0xfc000000u) == 0x94000000u || (call & 0xfffffc1fu) == 0xd63f0000u ||
         (call & 0xfefff800u) == 0xd63f0800u;
}

std::uint64_t called_function(std::uint64_t return_address, const CodeBefore& code, const Reads& read) {
  const auto call = number_at<std::uint32_t>(code.data() + code.size() - 4);
  if ((call & 0xfc000000u) != 0x94000000u) return 0;
  return behind_stub(return_address - 4 + sign_extended(std::uint64_t{call & 0x3ffffffu} << 2, 28), read);
}

#endif

}  // namespace tutti::doctor
