#include "collectives/doctor/elf_file.hpp"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <tuple>

namespace tutti::doctor {
namespace {

constexpr std::uint64_t most_headers = 1 << 16;                 // of segments or sections
constexpr std::uint64_t most_table = std::uint64_t{128} << 20;  // bytes of a table of symbols
constexpr std::uint64_t longest_unsized = 4096;  // the reach of a function whose size the file does not tell
constexpr std::size_t most_aliases = 8;
constexpr std::size_t longest_name = 2000;

/// The best function so far for one address: the one with a size before one without, then the one that starts last.
struct Best {
  std::uint64_t start = 0;
  bool sized = false;
  std::vector<std::uint32_t> names;  // of all functions with this start

  void offer(const Elf64_Sym& symbol, std::uint64_t address) {
    const bool has_size = symbol.st_size > 0;
    const std::uint64_t reach = has_size ? symbol.st_size : longest_unsized;
    if (address < symbol.st_value || address - symbol.st_value >= reach) return;
    const auto mine = std::tuple(sized, start), other = std::tuple(has_size, symbol.st_value);
    if (!names.empty() && other < mine) return;
    if (other != mine) names.clear();
    start = symbol.st_value;
    sized = has_size;
    if (names.size() < most_aliases) names.push_back(symbol.st_name);
  }
};

bool is_function(const Elf64_Sym& symbol) noexcept {
  const auto type = symbol.st_info & 0xf;
  return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0;
}

/// Orders the names of one function: "read" is before "__read".
auto plainness(const std::string& name) {
  return std::tuple(std::min(name.find_first_not_of('_'), name.size()), name.size(), name);
}

}  // namespace

ElfFile::ElfFile(const std::string& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) {
  Elf64_Ehdr head;
  struct stat about {};
  if (!file_ || ::fstat(file_.fd(), &about) != 0 || !S_ISREG(about.st_mode)) return;
  if (!read_at(0, &head, sizeof head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return;
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB) return;
  if (head.e_phentsize == sizeof(Elf64_Phdr)) read_segments(head.e_phoff, head.e_phnum);
  if (head.e_shentsize == sizeof(Elf64_Shdr)) find_table(head.e_shoff, head.e_shnum);
}

bool ElfFile::read_at(std::uint64_t offset, void* into, std::size_t bytes) const noexcept {
  if (offset > INT64_MAX - bytes) return false;
  return ::pread(file_.fd(), into, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

void ElfFile::read_segments(std::uint64_t offset, std::uint64_t count) {
  for (std::uint64_t i = 0; i < std::min(count, most_headers); ++i) {
    Elf64_Phdr head;
    if (!read_at(offset + i * sizeof head, &head, sizeof head)) return;
    if (head.p_type == PT_LOAD)
      segments_.push_back({head.p_offset, head.p_filesz, head.p_vaddr, (head.p_flags & PF_X) != 0});
    if (head.p_type == PT_GNU_EH_FRAME) unwind_index_ = head.p_vaddr;
  }
}

void ElfFile::find_table(std::uint64_t offset, std::uint64_t count) {
  count = std::min(count, most_headers);
  std::uint32_t found = SHT_NULL;
  for (std::uint64_t i = 0; i < count && found != SHT_SYMTAB; ++i) {
    Elf64_Shdr head, names;
    if (!read_at(offset + i * sizeof head, &head, sizeof head)) return;
    if (head.sh_type != SHT_SYMTAB && (head.sh_type != SHT_DYNSYM || found != SHT_NULL)) continue;
    if (head.sh_link >= count || !read_at(offset + head.sh_link * sizeof names, &names, sizeof names)) continue;
    if (head.sh_entsize != sizeof(Elf64_Sym) || names.sh_type != SHT_STRTAB) continue;
    table_ = {head.sh_offset, std::min<std::uint64_t>(head.sh_size, most_table), names.sh_offset, names.sh_size};
    found = head.sh_type;
  }
}

std::optional<std::uint64_t> ElfFile::address_at(std::uint64_t offset) const noexcept {
  for (const Segment& segment : segments_)
    if (segment.is_code && offset >= segment.offset && offset - segment.offset < segment.bytes)
      return segment.address + (offset - segment.offset);
  return std::nullopt;
}

std::optional<std::uint64_t> ElfFile::offset_of(std::uint64_t address) const noexcept {
  for (const Segment& segment : segments_)
    if (address >= segment.address && address - segment.address < segment.bytes)
      return segment.offset + (address - segment.address);
  return std::nullopt;
}

std::string ElfFile::name_at(std::uint64_t index) const {
  char text[longest_name];
  if (index >= table_.name_bytes) return {};
  const std::size_t most = std::min<std::uint64_t>(sizeof text, table_.name_bytes - index);
  return read_at(table_.names + index, text, most) ? std::string(text, ::strnlen(text, most)) : std::string();
}

std::vector<Symbol> ElfFile::functions_at(const std::vector<std::uint64_t>& addresses) const {
  std::vector<Best> best(addresses.size());
  std::vector<Elf64_Sym> block(4096);
  const std::uint64_t count = addresses.empty() ? 0 : table_.bytes / sizeof(Elf64_Sym);
  for (std::uint64_t at = 0; at < count; at += block.size()) {
    block.resize(std::min<std::uint64_t>(block.size(), count - at));
    if (!read_at(table_.offset + at * sizeof(Elf64_Sym), block.data(), block.size() * sizeof(Elf64_Sym))) break;
    for (const Elf64_Sym& symbol : block)
      if (is_function(symbol))
        for (std::size_t i = 0; i < addresses.size(); ++i) best[i].offer(symbol, addresses[i]);
  }
  std::vector<Symbol> found;
  for (const Best& one : best) {
    Symbol symbol{{}, one.start};
    for (const std::uint32_t index : one.names) {
      std::string name = name_at(index);
      if (!name.empty() && (symbol.name.empty() || plainness(name) < plainness(symbol.name)))
        symbol.name = std::move(name);
    }
    found.push_back(std::move(symbol));
  }
  return found;
}

}  // namespace tutti::doctor
