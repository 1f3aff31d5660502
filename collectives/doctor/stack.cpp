#include "collectives/doctor/stack.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "collectives/doctor/call_sites.hpp"
#include "collectives/doctor/elf_file.hpp"
#include "collectives/doctor/function_name.hpp"
#include "collectives/doctor/proc_text.hpp"
#include "collectives/doctor/system_calls.hpp"
#include "collectives/doctor/unwind.hpp"
#include "transports/core/process.hpp"

namespace tutti::doctor {
namespace {

constexpr std::size_t most_frames = 512;

/// An address in code, and the function that contains it.
struct Code {
  std::uint64_t at = 0;
  const Mapping* mapping = nullptr;
  std::uint64_t in_file = 0;  ///< the address as the file counts it; 0: unknown
  Symbol function;

  Owner owner() const noexcept { return mapping == nullptr ? Owner::nobody : owner_of(mapping->path); }
  bool is_same_file(const Code& other) const noexcept {
    return mapping != nullptr && other.mapping != nullptr && mapping->path == other.mapping->path;
  }
  bool is_same_function(const Code& other) const noexcept {
    return is_same_file(other) && !function.name.empty() && function.start == other.function.start;
  }
  /// True for code that the user has written, or that Python executes for it.
  bool is_of_program() const noexcept {
    const Owner whose = owner();
    return whose == Owner::interpreter || (whose == Owner::program && !is_library_function(function.name));
  }
};

/// A function that has been entered and has not returned, if its return address is no old one.
struct Frame {
  Code here;    ///< its instruction: the next one if it is the innermost, otherwise the call
  Code called;  ///< the function that it has called; at 0: unknown
  Code behind;  ///< the instruction to which it returns; not of one that is certain
  bool is_certain = false;
};

class Walk {
 public:
  /// `call` is the name of the system call in which the process waits.
  Walk(pid_t pid, const std::vector<Mapping>& maps, std::string call)
      : pid_(pid), maps_(maps), call_(std::move(call)) {}

  /// Adds a function that is active.
  void add(const Active& active) {
    if (active.has_called)
      add_return_address(active.at, true);
    else if (const Mapping* const mapping = code_at(active.at))
      frames_.push_back({{active.at, mapping, 0, {}}, {}, {}, true});
  }

  /// Adds a frame if `word` is an address behind a call instruction.
  void add_return_address(std::uint64_t word, bool is_certain) {
    CodeBefore code;
    const Mapping* const mapping = code_at(word);
    if (mapping == nullptr || word - mapping->start < code.size() || frames_.size() >= most_frames) return;
    if (!read(word - code.size(), code.data(), code.size()) || !ends_with_call(code)) return;
    const Reads reads = [this](std::uint64_t at, void* into, std::size_t bytes) { return read(at, into, bytes); };
    const std::uint64_t called = called_function(word, code, reads);
    frames_.push_back({{word - 1, mapping, 0, {}},
                       {called, called == 0 ? nullptr : code_at(called), 0, {}},
                       {word, is_certain ? nullptr : mapping, 0, {}},
                       is_certain});
  }

  /// Finds the functions of all frames, by one look at each file.
  void find_functions();

  Place place() const;

 private:
  bool read(std::uint64_t at, void* into, std::size_t bytes) const {
    return read_memory_of(pid_, at, into, bytes) == 0;
  }
  const Mapping* code_at(std::uint64_t address) const noexcept {
    const Mapping* const mapping = mapping_at(maps_, address);
    return mapping != nullptr && mapping->executable && owner_of(mapping->path) != Owner::nobody ? mapping : nullptr;
  }
  enum class Trust : std::uint8_t { none, some, good, best };
  Trust trust(std::size_t frame) const;
  std::size_t find_program() const;
  std::string text_of_place(std::size_t frame) const;
  std::string text_of_library(std::size_t frame) const;

  pid_t pid_;
  const std::vector<Mapping>& maps_;
  std::string call_;
  std::vector<Frame> frames_;  // the innermost first
};

void Walk::find_functions() {
  std::map<std::string_view, std::vector<Code*>> by_file;
  for (Frame& frame : frames_)
    for (Code* const code : {&frame.here, &frame.called, &frame.behind})
      if (code->mapping != nullptr && code->mapping->path.starts_with('/'))
        by_file[code->mapping->path].push_back(code);
  for (const auto& [path, codes] : by_file) {
    const ElfFile file(openable(pid_, std::string(path)));
    std::vector<std::uint64_t> addresses;
    for (Code* const code : codes) {
      code->in_file = file.address_at(code->at - code->mapping->start + code->mapping->offset).value_or(0);
      addresses.push_back(code->in_file);
    }
    std::vector<Symbol> functions = file.functions_at(addresses);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i]->function = std::move(functions[i]);
  }
}

/// Sorts out return addresses that earlier calls have left on the stack. An active frame has called a function that is
/// active, too; a library may have left its function for another one.
Walk::Trust Walk::trust(std::size_t frame) const {
  if (frames_[frame].is_certain) return Trust::best;
  if (frames_[frame].here.function.name == "main") return Trust::good;
  const Code& behind = frames_[frame].behind;
  if (!behind.function.name.empty() && behind.function.start == behind.in_file) return Trust::none;  // it is a pointer
  const auto active = [&](const Frame& inner) { return inner.here.is_same_function(frames_[frame].called); };
  const auto begin = frames_.begin(), here = begin + static_cast<std::ptrdiff_t>(frame);
  const Code& called = frames_[frame].called;
  const auto uncertain = std::ranges::find(frames_, false, &Frame::is_certain);
  const bool enters_last = uncertain != begin && std::prev(uncertain)->here.is_same_file(called);
  if (enters_last && called.function.name == call_) return Trust::best;
  if (called.mapping != nullptr && !called.function.name.empty())
    return called.owner() != Owner::program || std::any_of(begin, here, active) ? Trust::good : Trust::none;
  if (called.mapping != nullptr) return Trust::good;  // nothing is known of the file's functions
  const bool is_called = std::any_of(here + 1, frames_.end(),
                                     [&](const Frame& outer) { return here->here.is_same_function(outer.called); });
  return is_called ? Trust::good : Trust::some;
}

/// The innermost frame of the program with the most trust; the number of frames if there is none.
std::size_t Walk::find_program() const {
  for (const Trust least : {Trust::best, Trust::good, Trust::some, Trust::none})
    for (std::size_t i = 0; i < frames_.size(); ++i)
      if (frames_[i].here.is_of_program() && trust(i) >= least) return i;
  for (std::size_t i = 0; i < frames_.size(); ++i)  // all is tutti's: the program may be one of its own
    if (frames_[i].here.owner() == Owner::program) return i;
  return frames_.size();
}

std::string hexadecimal(std::uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

std::string Walk::text_of_place(std::size_t frame) const {
  const Code& code = frames_[frame].here;
  if (code.owner() == Owner::interpreter) return "Python";
  const std::uint64_t at = code.in_file + (frame == 0 ? 0 : 1);  // of a call: the instruction behind it, as usual
  const std::string text = code.function.name.empty()
                               ? hexadecimal(at)
                               : readable_function(code.function.name) + "+" + hexadecimal(at - code.function.start);
  return text + " in " + file_name(code.mapping->path);
}

/// The library function that a frame has called: as its call instruction says, else the outermost one inside it.
std::string Walk::text_of_library(std::size_t frame) const {
  const auto text = [](const Code& code) {
    return readable_function(code.function.name) + " in " + file_name(code.mapping->path);
  };
  const auto is_known = [](const Code& code) {
    return code.mapping != nullptr && !code.function.name.empty() && !code.is_of_program();
  };
  if (frame == 0) return {};
  if (is_known(frames_[frame].called)) return text(frames_[frame].called);
  for (std::size_t inner = frame; inner-- > 0;)
    if (is_known(frames_[inner].here) && trust(inner) >= Trust::good) return text(frames_[inner].here);
  return file_name(frames_[0].here.mapping->path);
}

Place Walk::place() const {
  const std::size_t found = find_program();
  const std::string innermost = frames_.empty() ? "" : readable_function(frames_[0].here.function.name);
  if (found == frames_.size()) return {{}, {}, innermost};
  return {text_of_place(found), text_of_library(found), innermost};
}

}  // namespace

Place place_of(pid_t pid, const std::vector<Mapping>& maps, const Sample& sample) {
  if (!sample.known) return {};
  Walk walk(pid, maps, sample.call < 0 ? std::string() : call_name(sample.call));
  bool complete = false;
  const std::vector<Active> active = unwind(pid, maps, sample, complete);
  for (const Active& one : active) walk.add(one);
  // Behind what could be unwound, whatever looks like a return address.
  const std::size_t known = (active.back().top - sample.top) / sizeof(std::uint64_t);
#ifdef __aarch64__
  if (active.size() == 1 && sample.registers[link_register])
    walk.add_return_address(plain_address(*sample.registers[link_register]), false);
#endif
  for (std::size_t i = known; i < sample.stack.size() && !complete; ++i)
    walk.add_return_address(plain_address(sample.stack[i]), false);
  walk.find_functions();
  return walk.place();
}

}  // namespace tutti::doctor
