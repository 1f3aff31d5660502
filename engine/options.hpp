// Options: what belongs to a thing that is chosen by name (an optimizer, a schedule, a model), as key=value.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::engine {

struct OptionInfo {
  enum class Kind : std::uint8_t {
    number,
    whole,
    flag,   ///< true or false
    sizes,  ///< whole numbers from 1 up, comma-separated; may be none
    text,
  };
  std::string_view key;
  Kind kind = Kind::number;
  std::string_view value;  ///< what holds unless it is given
  std::string_view meaning;
  double least = 0;                                        ///< numbers: from here
  double below = std::numeric_limits<double>::infinity();  ///< numbers: and not up to here

  bool allows(double number) const noexcept { return number >= least && number < below; }  ///< not NaN
  std::string range() const;                                                               ///< "from 0 up, below 1"
};

/// One of those that can be chosen.
struct ChoiceInfo {
  std::string_view name;
  std::string_view meaning;
  std::span<const OptionInfo> options;
};

/// The entry of `table` with this name. `noun` is what the table lists ("optimizer"). Throws Error{invalid} with the
/// nearest name, or all of them.
const ChoiceInfo& choose(std::string_view noun, std::span<const ChoiceInfo> table, std::string_view name);

/// The words of a text between blanks.
std::vector<std::string_view> words(std::string_view text);

/// "; did you mean 'near'?", or a list of what there is: the end of a sentence about an unknown word.
std::string nearest_of(std::string_view word, std::span<const std::string_view> known);

/// The values of one choice's options: those given, over those of the table. Immutable; any thread may read.
class Options {
 public:
  using Given = std::map<std::string, std::string, std::less<>>;

  /// "key=value key=value", with spaces between: a text of a configuration. Throws Error{invalid}.
  static Given parse(std::string_view text);

  /// Throws Error{invalid} for a key that `choice` does not have, with the nearest one, and for a value that is not of
  /// its kind.
  Options(const ChoiceInfo& choice, const Given& given);

  /// Each wants a key of that kind; another one is a defect of the caller, and throws Error{internal}.
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
