#include "collectives/doctor/unwind_table.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace tutti::doctor {
namespace {

constexpr std::size_t longest_entry = 1 << 16, most_remembered = 16;

/// Reads values from bytes. Behind the end all are 0, and failed() is true.
class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> bytes) : rest_(bytes) {}
  bool failed() const noexcept { return failed_; }
  bool empty() const noexcept { return rest_.empty(); }
  std::size_t left() const noexcept { return rest_.size(); }

  template <class T>
  T take() noexcept {
    T value{};
    if (rest_.size() < sizeof value) {
      fail();
      return value;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return value;
  }
  /// A number in groups of seven bits.
  std::uint64_t take_unsigned() noexcept {
    unsigned shift = 0;
    std::uint8_t byte = 0;
    return take_groups(shift, byte);
  }
  std::int64_t take_signed() noexcept {
    unsigned shift = 0;
    std::uint8_t byte = 0;
    std::uint64_t value = take_groups(shift, byte);
    if (shift < 64 && (byte & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(value);
  }
  std::string take_text() {
    std::string text;
    for (char c; (c = take<char>()) != 0 && !failed_;) text += c;
    return text;
  }
  void skip(std::uint64_t count) noexcept {
    if (count > rest_.size()) return fail();
    rest_ = rest_.subspan(count);
  }
  void fail() noexcept {
    failed_ = true;
    rest_ = {};
  }

 private:
  std::uint64_t take_groups(unsigned& shift, std::uint8_t& byte) noexcept {
    std::uint64_t value = 0;
    do {
      byte = take<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
      shift += 7;
    } while ((byte & 0x80) != 0);
    return value;
  }

  std::span<const std::uint8_t> rest_;
  bool failed_ = false;
};

// The encodings of addresses that compilers write.
constexpr std::uint8_t relative = 0x10;

/// An address that stands at `place`. `with_place` false: a length in the same format.
std::uint64_t take_address(Bytes& bytes, std::uint8_t encoding, std::uint64_t place, bool with_place = true) noexcept {
  std::uint64_t value = 0;
  switch (encoding & 0x0f) {
    case 0x00:
    case 0x04:
    case 0x0c: value = bytes.take<std::uint64_t>(); break;
    case 0x03: value = bytes.take<std::uint32_t>(); break;
    case 0x0b: value = static_cast<std::uint64_t>(std::int64_t{bytes.take<std::int32_t>()}); break;
    default: bytes.fail();
  }
  if (with_place && (encoding & 0x70) != 0 && (encoding & 0x70) != relative) bytes.fail();
  return with_place && (encoding & 0x70) == relative ? value + place : value;
}

/// An entry of the table without its length; empty if there is none at this address.
std::vector<std::uint8_t> entry_at(const ElfFile& file, std::uint64_t address) {
  const auto offset = file.offset_of(address);
  std::uint32_t length = 0;
  if (!offset || !file.read_at(*offset, &length, sizeof length) || length < 8 || length > longest_entry) return {};
  std::vector<std::uint8_t> entry(length);
  return file.read_at(*offset + sizeof length, entry.data(), length) ? entry : std::vector<std::uint8_t>();
}

/// What the entries of several functions have in common.
struct Common {
  std::uint64_t code_unit = 1;
  std::int64_t data_unit = 1;
  std::uint8_t encoding = 0;
  bool has_data = false;
  FrameRules rules;  ///< at the start of each function
};

/// Carries the instructions of an entry out, up to those behind the instruction at `until`.
class Machine {
 public:
  Machine(const Common& common, std::uint64_t at, std::uint64_t until)
      : common_(common), rules_(common.rules), at_(at), until_(until) {}

  bool run(Bytes code) {
    while (!code.empty() && !behind_) step(code);
    return !code.failed();
  }
  const FrameRules& rules() const noexcept { return rules_; }

 private:
  void step(Bytes& code) {
    const auto byte = code.take<std::uint8_t>();
    const std::uint8_t operand = byte & 0x3f;
    switch (byte >> 6) {
      case 1: return advance(operand);
      case 2: return set(operand, RegisterRule::Kind::stored, scaled(static_cast<std::int64_t>(code.take_unsigned())));
      case 3: return restore(operand);
      default:
        return byte < 0x0c || byte > 0x13 || byte == 0x10 || byte == 0x11 ? plain(byte, code)
                                                                          : define_frame(byte, code);
    }
  }

  /// Instructions for the registers.
  void plain(std::uint8_t byte, Bytes& code) {
    using Kind = RegisterRule::Kind;
    const auto number = [&] { return code.take_unsigned(); };
    const auto unsigned_offset = [&] { return scaled(static_cast<std::int64_t>(code.take_unsigned())); };
    const auto signed_offset = [&] { return scaled(code.take_signed()); };
    std::uint64_t which = 0;
    const bool names_register = (byte >= 0x05 && byte <= 0x09) || (byte >= 0x10 && byte <= 0x16);
    if (names_register) which = number();
    switch (byte) {
      case 0x00:  // nothing
      case 0x2d:  // the return address is signed
        return;
      case 0x02: return advance(code.take<std::uint8_t>());
      case 0x03: return advance(code.take<std::uint16_t>());
      case 0x04: return advance(code.take<std::uint32_t>());
      case 0x05: return set(which, Kind::stored, unsigned_offset());
      case 0x06: return restore(which);
      case 0x07: return set(which, Kind::undefined, 0);
      case 0x08: return set(which, Kind::same, 0);
      case 0x09: return set(which, Kind::moved, static_cast<std::int64_t>(number()));
      case 0x0a:
        if (remembered_.size() >= most_remembered) return code.fail();
        return remembered_.push_back(rules_);
      case 0x0b:
        if (remembered_.empty()) return code.fail();
        rules_ = remembered_.back();
        return remembered_.pop_back();
      case 0x10:  // formulas
      case 0x16: set(which, Kind::undefined, 0); return code.skip(number());
      case 0x11: return set(which, Kind::stored, signed_offset());
      case 0x14: return set(which, Kind::sum, unsigned_offset());
      case 0x15: return set(which, Kind::sum, signed_offset());
      case 0x2e:  // bytes of arguments
        number();
        return;
      default: return code.fail();
    }
  }

  /// Instructions for the address of the frame.
  void define_frame(std::uint8_t byte, Bytes& code) {
    if (byte == 0x0f) {  // a formula
      rules_.base = register_count;
      return code.skip(code.take_unsigned());
    }
    const bool has_base = byte == 0x0c || byte == 0x0d || byte == 0x12;
    if (has_base) rules_.base = std::min<std::uint64_t>(code.take_unsigned(), register_count);
    if (byte == 0x0c || byte == 0x0e) rules_.offset = static_cast<std::int64_t>(code.take_unsigned());
    if (byte == 0x12 || byte == 0x13) rules_.offset = scaled(code.take_signed());
  }

  void advance(std::uint64_t units) noexcept {
    at_ += units * common_.code_unit;
    behind_ = at_ > until_;
  }
  std::int64_t scaled(std::int64_t units) const noexcept {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(units) * static_cast<std::uint64_t>(common_.data_unit));
  }
  void set(std::uint64_t which, RegisterRule::Kind kind, std::int64_t number) noexcept {
    if (which < register_count) rules_.registers[which] = {kind, number};
  }
  void restore(std::uint64_t which) noexcept {
    if (which < register_count) rules_.registers[which] = common_.rules.registers[which];
  }

  const Common& common_;
  FrameRules rules_;
  std::vector<FrameRules> remembered_;
  std::uint64_t at_, until_;
  bool behind_ = false;
};

std::optional<Common> common_at(const ElfFile& file, std::uint64_t address) {
  const std::vector<std::uint8_t> entry = entry_at(file, address);
  Bytes bytes(entry);
  const auto mark = bytes.take<std::uint32_t>();
  const auto version = bytes.take<std::uint8_t>();
  if (mark != 0 || (version != 1 && version != 3)) return std::nullopt;
  Common common;
  const std::string features = bytes.take_text();
  common.code_unit = bytes.take_unsigned();
  common.data_unit = bytes.take_signed();
  common.rules.return_register = version == 1 ? bytes.take<std::uint8_t>() : bytes.take_unsigned();
  if (common.rules.return_register >= register_count) return std::nullopt;
  common.has_data = features.starts_with('z');
  if (!common.has_data && !features.empty()) return std::nullopt;
  const std::uint64_t data = common.has_data ? bytes.take_unsigned() : 0;
  const std::size_t behind = bytes.left() - std::min<std::uint64_t>(data, bytes.left());
  for (const char feature : features) {
    if (feature == 'R') common.encoding = bytes.take<std::uint8_t>();
    if (feature == 'L') bytes.skip(1);
    if (feature == 'S') common.rules.is_signal = true;
    if (feature == 'P') take_address(bytes, bytes.take<std::uint8_t>() & 0x0f, 0, false);
  }
  if (bytes.failed() || bytes.left() < behind) return std::nullopt;
  bytes.skip(bytes.left() - behind);
  Machine machine(common, 0, UINT64_MAX);
  if (!machine.run(bytes)) return std::nullopt;
  common.rules = machine.rules();
  return common;
}

/// The address of the entry for the function at `address`, which the sorted index tells; 0: there is none.
std::uint64_t find_entry(const ElfFile& file, std::uint64_t address) {
  struct [[gnu::packed]] Head {
    std::uint8_t version, table_format, count_format, row_format;
    std::int32_t table;
    std::uint32_t count;
  } head;
  struct Row {
    std::int32_t function, entry;
  };
  const std::uint64_t index = file.unwind_index();
  const auto offset = index == 0 ? std::nullopt : file.offset_of(index);
  if (!offset || !file.read_at(*offset, &head, sizeof head)) return 0;
  constexpr std::uint8_t as_4_bytes = 0x03, as_signed_4_bytes = 0x0b, as_signed_4_bytes_from_index = 0x3b;
  if ((head.table_format & 0x0f) != as_signed_4_bytes) return 0;
  if (head.version != 1 || head.count_format != as_4_bytes || head.row_format != as_signed_4_bytes_from_index) return 0;
  const auto place = [index](std::int32_t distance) {
    return index + static_cast<std::uint64_t>(std::int64_t{distance});
  };
  std::uint64_t low = 0, high = head.count, found = 0;  // the entry is of a row before `high`
  while (low < high) {
    const std::uint64_t middle = (low + high) / 2;
    Row row{};
    if (!file.read_at(*offset + sizeof head + middle * sizeof row, &row, sizeof row)) return 0;
    if (place(row.function) <= address) {
      found = place(row.entry);
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return found;
}

}  // namespace

std::optional<FrameRules> frame_rules(const ElfFile& file, std::uint64_t address) {
  const std::uint64_t place = find_entry(file, address);
  const std::vector<std::uint8_t> entry = place == 0 ? std::vector<std::uint8_t>() : entry_at(file, place);
  Bytes bytes(entry);
  const auto back = bytes.take<std::uint32_t>();  // from itself to what is common
  if (bytes.failed() || back == 0 || back > place + 4) return std::nullopt;
  const auto common = common_at(file, place + 4 - back);
  if (!common) return std::nullopt;
  const std::uint64_t begin = take_address(bytes, common->encoding, place + 8);
  const std::uint64_t length = take_address(bytes, common->encoding, 0, false);
  if (bytes.failed() || address < begin || address - begin >= length) return std::nullopt;
  if (common->has_data) bytes.skip(bytes.take_unsigned());
  Machine machine(*common, begin, address);
  if (!machine.run(bytes)) return std::nullopt;
  FrameRules rules = machine.rules();
  rules.begin = begin;
  return rules;
}

}  // namespace tutti::doctor
