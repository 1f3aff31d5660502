// Options: key=value settings of an object that is selected by name (an optimizer, a schedule, a model).
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/status.hpp"

namespace tutti::engine {

/// Throws Error{invalid} with this text.
[[noreturn]] inline void refuse(const std::string& text) { throw Error(Code::invalid, text); }

struct OptionInfo {
  enum class Kind : std::uint8_t {
    number,
    whole,
    flag,   ///< "true" or "false"
    sizes,  ///< positive integers, comma-separated; may be empty
    text,
  };
  std::string_view key;
  Kind kind = Kind::number;
  std::string_view value;  ///< the default
  std::string_view meaning;
  double least = 0;                                        ///< for numbers: the smallest allowed value
  double below = std::numeric_limits<double>::infinity();  ///< for numbers: all allowed values are below this

  bool allows(double number) const noexcept { return number >= least && number < below; }  ///< false for NaN
  std::string range() const;                                                               ///< "from 0 up, below 1"
};

/// An entry of a table: an object that can be selected, with its options.
struct ChoiceInfo {
  std::string_view name;
  std::string_view meaning;
  std::span<const OptionInfo> options;
};

/// The entry of `table` with this name. `noun` says what the table lists ("optimizer"). Throws Error{invalid} with the
/// nearest name, or all names.
const ChoiceInfo& choose(std::string_view noun, std::span<const ChoiceInfo> table, std::string_view name);

/// The words of a text, separated by blanks.
std::vector<std::string_view> words(std::string_view text);

/// The end of an error text about an unknown word: "; did you mean 'near'?", or a list of the known words.
std::string nearest_of(std::string_view word, std::span<const std::string_view> known);

/// The option values of one entry: those given, else the defaults of the table. Immutable; any thread may read.
class Options {
 public:
  using Given = std::map<std::string, std::string, std::less<>>;

  /// Parses "key=value key=value". Throws Error{invalid}.
  static Given parse(std::string_view text);

  /// Throws Error{invalid} for a key that `choice` does not have, with the nearest one, and for a value of the wrong
  /// kind.
  Options(const ChoiceInfo& choice, const Given& given);

  /// The value of a key of that kind. Throws Error{internal} for another key: a bug in the caller.
  double number(std::string_view key) const;
  std::int64_t whole(std::string_view key) const;
  bool flag(std::string_view key) const;
  std::vector<std::int64_t> sizes(std::string_view key) const;
  const std::string& text(std::string_view key) const;

  const ChoiceInfo& choice() const noexcept { return choice_; }

 private:
  const std::string& value(std::string_view key, OptionInfo::Kind kind) const;

  ChoiceInfo choice_;
  Given values_;
};

}  // namespace tutti::engine
