// The map of a process that is looked at, the program that it runs, and the names of its functions.
#include "collectives/doctor/elf_file.hpp"
#include "collectives/doctor/function_name.hpp"
#include "collectives/doctor/memory_map.hpp"
#include "collectives/doctor/unwind_table.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {
namespace {

bool take_program(Input input) {
  const doctor::ElfFile file(file_with(input, ".elf").string());
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t offset = 0; offset < input.size(); offset += 256)
    if (const auto address = file.address_at(offset)) addresses.push_back(*address);
  const auto functions = file.functions_at(addresses);
  expect(functions.size() == addresses.size(), "not every address has an answer");
  bool found = false;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const std::string name = doctor::readable_function(functions[i].name);
    expect(name.size() < 1000, "a name is too long");
    doctor::is_library_function(functions[i].name);
    found |= !name.empty() && doctor::frame_rules(file, addresses[i]).has_value();
  }
  return found;
}

}  // namespace

bool take(Input input) {
  if (text_of(input).starts_with("\x7f"
                                 "ELF"))
    return take_program(input);
  const auto maps = doctor::parse_maps(text_of(input));
  for (const doctor::Mapping& mapping : maps) {
    expect(mapping.start < mapping.end, "an empty mapping");
    doctor::file_name(mapping.path);
    doctor::owner_of(mapping.path);
  }
  return !maps.empty();
}

}  // namespace tutti::fuzz
