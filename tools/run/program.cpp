// Examines the program's file: a text's first line, or the loader that a binary names.
#include "tools/run/program.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "tools/run/environment.hpp"
#include "transports/core/descriptor.hpp"

namespace tutti::tools {
namespace {

constexpr std::string_view blanks = " \t", mark = "#!";

/// Returns the first 4096 bytes of a file; empty if the file cannot be read.
std::string beginning_of(const std::string& file) {
  std::string text(4096, '\0');
  const Descriptor in(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t n = in ? read(in.fd(), text.data(), text.size()) : 0;
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return text;
}

/// Returns the text after "#!" in the first line, without leading blanks; empty if there is no "#!".
std::string first_line_of(const std::string& beginning) {
  if (!beginning.starts_with(mark)) return {};
  const std::string line = beginning.substr(0, beginning.find('\n'));
  const std::size_t begin = line.find_first_not_of(blanks, mark.size());
  return begin == line.npos ? std::string() : line.substr(begin);
}

/// Returns the loader that a 64-bit ELF file names; empty if the file is no such file, or is static.
std::string loader_of(const std::string& beginning) {
  Elf64_Ehdr header;
  if (beginning.size() < sizeof header || !beginning.starts_with(ELFMAG)) return {};
  std::memcpy(&header, beginning.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) return {};
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    const std::size_t at = header.e_phoff + i * sizeof part;
    if (at > beginning.size() - sizeof part) return {};
    std::memcpy(&part, beginning.data() + at, sizeof part);
    if (part.p_type == PT_INTERP && part.p_offset < beginning.size())
      return std::string(beginning.c_str() + part.p_offset);
  }
  return {};
}

std::string missing(const std::string& what, const std::string& file, const std::string& otherwise) {
  if (access(file.c_str(), F_OK) != 0) return fmt::format("{} {} does not exist", what, file);
  if (access(file.c_str(), X_OK) != 0) return fmt::format("{} {} may not be executed", what, file);
  return otherwise;
}

std::string ends_with_return(const std::string& file) {
  return fmt::format(
      "its first line ends with a carriage return, as in files from Windows; mend it: sed -i 's/\\r$//' {}", file);
}

}  // namespace

std::string find_program(const std::string& name) {
  std::string file = find_executable(name);
  if (!file.empty() || name.find('/') != name.npos) return file;
  const int why = errno;
  file = find_executable("./" + name);
  if (file.empty() && errno == ENOENT) errno = why;
  return file;
}

bool is_for_the_shell(const std::string& file) {
  const std::string text = beginning_of(file);
  return !text.starts_with(mark) && text.find('\0') == text.npos;
}

bool names_no_program(const std::string& file) {
  const std::string line = first_line_of(beginning_of(file));
  return line.ends_with('\r') && line.substr(0, line.find_first_of(blanks)).ends_with("/env");
}

std::string why_not_executed(const std::string& file, int error) {
  const std::string otherwise = std::strerror(error), beginning = beginning_of(file);
  if (const std::string line = first_line_of(beginning); !line.empty()) {
    if (line.ends_with('\r')) return ends_with_return(file);
    return missing("its interpreter", line.substr(0, line.find_first_of(blanks)), otherwise);
  }
  if (const std::string loader = loader_of(beginning); error == ENOENT && !loader.empty())
    return missing("the loader that it was linked for,", loader, otherwise);
  return error == ENOEXEC ? "it is no program for this machine (" + otherwise + ")" : otherwise;
}

}  // namespace tutti::tools
