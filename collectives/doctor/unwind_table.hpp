// How to find the caller of a function: the rules of one instruction, from the table that compilers leave for
// exceptions
// (.eh_frame, call frame information of DWARF).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "collectives/doctor/elf_file.hpp"
#include "collectives/doctor/registers.hpp"

namespace tutti::doctor {

/// Where the caller's value of a register is.
struct RegisterRule {
  enum class Kind : std::uint8_t {
    same,      ///< in the register still
    stored,    ///< at the frame's address plus `number`
    sum,       ///< it is the frame's address plus `number`
    moved,     ///< in register `number`
    undefined  ///< nowhere, or where only a formula tells
  };
  Kind kind = Kind::same;
  std::int64_t number = 0;
};

/// The rules of one instruction. The address of the frame is a register plus an offset.
struct FrameRules {
  std::size_t base = register_count;  ///< a register; register_count: only a formula tells
  std::int64_t offset = 0;
  std::size_t return_register = 0;  ///< its rule tells the return address
  std::uint64_t begin = 0;          ///< the start of the function, or of the part of it that stands together
  bool is_signal = false;           ///< the frame was made by a signal: its caller did not call
  std::array<RegisterRule, register_count> registers;
};

/// The rules for the instruction at `address` of the file; nothing if the file has none, or none that are understood.
std::optional<FrameRules> frame_rules(const ElfFile& file, std::uint64_t address);

}  // namespace tutti::doctor
