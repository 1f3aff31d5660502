// The functions of an ELF file, and where its tables are. What the file says is checked, as another user may have
// written it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transports/core/descriptor.hpp"

namespace tutti::doctor {

/// A function as the file's table of symbols has it.
struct Symbol {
  std::string name;         ///< mangled; empty: no function is known there
  std::uint64_t start = 0;  ///< its address in the file
};

/// A 64-bit ELF file that is open. A file that is none has no segments and no symbols.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path);

  /// The address at which the file wants the code that it has at `offset`; nothing if it has no code there.
  std::optional<std::uint64_t> address_at(std::uint64_t offset) const noexcept;

  /// Where the file has what belongs at `address`; nothing if it has no such place.
  std::optional<std::uint64_t> offset_of(std::uint64_t address) const noexcept;

  /// The address of the index of the unwind tables (.eh_frame_hdr); 0: there is none.
  std::uint64_t unwind_index() const noexcept { return unwind_index_; }

  /// Reads `bytes` bytes; false if the file is shorter.
  bool read_at(std::uint64_t offset, void* into, std::size_t bytes) const noexcept;

  /// The functions that contain the addresses, in their order. Reads the table of symbols once.
  std::vector<Symbol> functions_at(const std::vector<std::uint64_t>& addresses) const;

 private:
  struct Segment {
    std::uint64_t offset = 0, bytes = 0, address = 0;
    bool is_code = false;
  };
  struct Table {
    std::uint64_t offset = 0, bytes = 0, names = 0, name_bytes = 0;
  };

  void read_segments(std::uint64_t offset, std::uint64_t count);
  void find_table(std::uint64_t offset, std::uint64_t count);
  std::string name_at(std::uint64_t index) const;

  Descriptor file_;
  std::vector<Segment> segments_;
  std::uint64_t unwind_index_ = 0;
  Table table_;
};

}  // namespace tutti::doctor
