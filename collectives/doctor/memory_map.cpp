#include "collectives/doctor/memory_map.hpp"

#include <algorithm>
#include <charconv>

#include "collectives/doctor/proc_text.hpp"
#include "transports/core/printable.hpp"

namespace tutti::doctor {
namespace {

constexpr std::size_t most_mappings = 1 << 16;
constexpr std::string_view deleted = " (deleted)";

/// Takes a hexadecimal number and the character after it from the front of `rest`.
bool take_hex(std::string_view& rest, char behind, std::uint64_t& number) noexcept {
  const char* const end = rest.data() + rest.size();
  const auto [stop, error] = std::from_chars(rest.data(), end, number, 16);
  if (error != std::errc() || stop == end || *stop != behind) return false;
  rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()) + 1);
  return true;
}

void drop_word(std::string_view& rest) noexcept {
  rest.remove_prefix(std::min(rest.find(' '), rest.size()));
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
}

/// "7f12-7f13 r-xp 00028000 08:01 1234   /usr/lib/libc.so.6"
bool parse_line(std::string_view line, Mapping& mapping) {
  if (!take_hex(line, '-', mapping.start) || !take_hex(line, ' ', mapping.end) || line.size() < 5) return false;
  mapping.executable = line[2] == 'x';
  line.remove_prefix(5);
  if (!take_hex(line, ' ', mapping.offset)) return false;
  drop_word(line);  // the device
  drop_word(line);  // the inode
  mapping.path = line;
  return mapping.start < mapping.end;
}

}  // namespace

std::vector<Mapping> parse_maps(std::string_view text) {
  std::vector<Mapping> maps;
  while (!text.empty() && maps.size() < most_mappings) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    Mapping mapping;
    if (parse_line(text.substr(0, end), mapping)) maps.push_back(std::move(mapping));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::ranges::sort(maps, {}, &Mapping::start);
  return maps;
}

const Mapping* mapping_at(const std::vector<Mapping>& maps, std::uint64_t address) noexcept {
  const auto after = std::ranges::upper_bound(maps, address, {}, &Mapping::start);
  return after != maps.begin() && address < std::prev(after)->end ? &*std::prev(after) : nullptr;
}

Owner owner_of(std::string_view path) noexcept {
  constexpr std::string_view libraries[] = {
      "libc.so",  "libc-",     "libc.musl",  "ld-",     "libm.so",  "libm-",       "libmvec", "libpthread",
      "librt.so", "librt-",    "libdl.so",   "libdl-",  "libgcc",   "libstdc+",    "libc++",  "libgomp",
      "libiomp",  "libomp",    "libtutti",   "_tutti",  "tutti.",   "[vdso]",      "libasan", "libubsan",
      "libtsan",  "libmpi",    "libopen-",   "libpmi",  "libprrte", "libucp",      "libuct",  "libucs",
      "libucm",   "libfabric", "libibverbs", "libnccl", "libcuda",  "libopenblas", "libmkl",  "[vsyscall]"};
  constexpr std::string_view system_folders[] = {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"};
  const std::string_view name = base_name(path);
  if (path.empty() || (path.front() == '[' && !path.starts_with("[v"))) return Owner::nobody;
  if (name.starts_with("python") || name.starts_with("libpython")) return Owner::interpreter;
  const auto begins = [](std::string_view text) {
    return [text](std::string_view with) { return text.starts_with(with); };
  };
  const bool is_shared = name.starts_with('[') || name.find(".so") != name.npos;
  const bool is_package = path.find("-packages/") != path.npos;  // of Python
  const bool is_library = std::ranges::any_of(libraries, begins(name)) ||
                          (!is_package && std::ranges::any_of(system_folders, begins(path)));
  return is_shared && is_library ? Owner::library : Owner::program;
}

std::string file_name(std::string_view path) {
  if (path.ends_with(deleted)) path.remove_suffix(deleted.size());
  return printable(base_name(path), 100);
}

}  // namespace tutti::doctor
