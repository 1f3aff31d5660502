#include "collectives/doctor/unwind.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "collectives/doctor/call_sites.hpp"
#include "collectives/doctor/elf_file.hpp"
#include "collectives/doctor/proc_text.hpp"
#include "collectives/doctor/registers.hpp"
#include "collectives/doctor/unwind_table.hpp"
#include "transports/core/process.hpp"

namespace tutti::doctor {
namespace {

constexpr std::size_t most_active = 128, most_looks = 500;

/// The rules for an instruction, and where its function starts in memory.
struct Located {
  FrameRules rules;
  std::uint64_t begin = 0;
};

/// The address of the first word of the sample's stack.
std::uint64_t first_word(const Sample& sample) noexcept { return (sample.top + 7) & ~std::uint64_t{7}; }

/// A word of the stack, if the sample has it.
std::optional<std::uint64_t> word_at(const Sample& sample, std::uint64_t address) noexcept {
  const std::uint64_t begin = first_word(sample), index = (address - begin) / 8;
  const bool is_there = address >= begin && address % 8 == 0 && index < sample.stack.size();
  return is_there ? std::optional(sample.stack[index]) : std::nullopt;
}

std::optional<std::uint64_t> value_of(const Sample& sample, const Registers& registers, std::uint64_t frame,
                                      std::size_t which, const RegisterRule& rule) noexcept {
  const std::uint64_t place = frame + static_cast<std::uint64_t>(rule.number);
  switch (rule.kind) {
    case RegisterRule::Kind::same: return registers[which];
    case RegisterRule::Kind::stored: return word_at(sample, place);
    case RegisterRule::Kind::sum: return place;
    case RegisterRule::Kind::moved:
      return static_cast<std::uint64_t>(rule.number) < register_count ? registers[static_cast<std::size_t>(rule.number)]
                                                                      : std::nullopt;
    case RegisterRule::Kind::undefined: break;
  }
  return std::nullopt;
}

/// The registers of the caller.
Registers callers(const Sample& sample, const Registers& registers, std::uint64_t frame, const FrameRules& rules) {
  Registers of_caller;
  for (std::size_t i = 0; i < register_count; ++i)
    of_caller[i] = value_of(sample, registers, frame, i, rules.registers[i]);
  of_caller[stack_register] = frame;
  return of_caller;
}

/// The files of a process, each opened once.
class Files {
 public:
  explicit Files(pid_t pid) : pid_(pid) {}

  std::optional<Located> rules(const std::vector<Mapping>& maps, std::uint64_t at) {
    const Mapping* const mapping = mapping_at(maps, at);
    if (mapping == nullptr || !mapping->executable || !mapping->path.starts_with('/')) return std::nullopt;
    auto found = files_.find(mapping->path);
    if (found == files_.end()) found = files_.emplace(mapping->path, ElfFile(openable(pid_, mapping->path))).first;
    const auto address = found->second.address_at(at - mapping->start + mapping->offset);
    const auto rules = address ? frame_rules(found->second, *address) : std::nullopt;
    return rules ? std::optional(Located{*rules, at - (*address - rules->begin)}) : std::nullopt;
  }

 private:
  pid_t pid_;
  std::map<std::string_view, ElfFile> files_;
};

/// The frame of the function that starts at `begin`, where a register that tells it is not known: found by the first
/// return address on the stack whose call enters that function.
std::optional<std::uint64_t> frame_by_call(pid_t pid, const std::vector<Mapping>& maps, const Sample& sample,
                                           std::uint64_t top, const Located& located) {
  const RegisterRule& rule = located.rules.registers[located.rules.return_register];
  if (rule.kind != RegisterRule::Kind::stored) return std::nullopt;
  const Reads read = [pid](std::uint64_t at, void* into, std::size_t bytes) {
    return read_memory_of(pid, at, into, bytes) == 0;
  };
  std::size_t looks = 0;
  for (std::uint64_t place = std::max((top + 7) & ~std::uint64_t{7}, first_word(sample)); looks < most_looks;
       place += 8) {
    const auto word = word_at(sample, place);
    if (!word) break;
    const std::uint64_t at = plain_address(*word);
    const Mapping* const mapping = mapping_at(maps, at);
    CodeBefore code;
    if (mapping == nullptr || !mapping->executable || at - mapping->start < code.size()) continue;
    ++looks;
    if (read(at - code.size(), code.data(), code.size()) && ends_with_call(code) &&
        called_function(at, code, read) == located.begin)
      return place - static_cast<std::uint64_t>(rule.number);
  }
  return std::nullopt;
}

}  // namespace

std::string openable(pid_t pid, const std::string& path) {
  return link_of(proc_path(pid, "exe")) == path ? proc_path(pid, "exe") : proc_path(pid, "root") + path;
}

std::vector<Active> unwind(pid_t pid, const std::vector<Mapping>& maps, const Sample& sample, bool& complete) {
  Files files(pid);
  Registers registers = sample.registers;
  registers[stack_register] = sample.top;
  std::vector<Active> active = {{sample.at, false, sample.top}};
  complete = false;
  while (active.size() < most_active) {
    const Active& inner = active.back();
    const auto located = files.rules(maps, inner.at - (inner.has_called ? 1 : 0));
    if (!located) break;
    const FrameRules& rules = located->rules;
    complete = rules.registers[rules.return_register].kind == RegisterRule::Kind::undefined;
    if (complete) break;
    std::optional<std::uint64_t> frame;
    if (rules.base < register_count && registers[rules.base])
      frame = *registers[rules.base] + static_cast<std::uint64_t>(rules.offset);
    else
      frame = frame_by_call(pid, maps, sample, inner.top, *located);
    if (!frame || (active.size() == 1 ? *frame < inner.top : *frame <= inner.top)) break;
    const Registers outer = callers(sample, registers, *frame, rules);
    const auto at = outer[rules.return_register];
    if (!at || *at == 0) break;
    registers = outer;
    active.push_back({plain_address(*at), !rules.is_signal, *frame});
  }
  return active;
}

}  // namespace tutti::doctor
