// Data sources: what `data=` can name, and the data set that it opens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/data_split.hpp"
#include "engine/data/files.hpp"

namespace tutti::engine {

/// The parsed text of `data=`: KIND:VALUE,VALUE,key=value,...
struct Source {
  std::string text, kind;
  std::vector<std::string> values = {};
  std::map<std::string, std::string, std::less<>> options = {};
  std::size_t random_samples = 0;  ///< number of samples of random:, unless the text has samples=
  std::uint64_t seed = 0;          ///< seed of random:
  ReadLimits limits = {};

  /// Throws Error{invalid} with the text "data=TEXT: what; expected FORM".
  [[noreturn]] void refuse(const std::string& what) const;
  std::string option(std::string_view key, std::string_view otherwise = {}) const;
  std::size_t number(std::string_view key, std::size_t otherwise) const;  ///< a positive integer
  bool flag(std::string_view key) const;                                  ///< key or key=on, key=off; off by default
};

/// A kind of data that `data=` can name.
struct SourceKind {
  std::string_view name, form, meaning;
  std::string_view options;  ///< keys, separated by blanks
  std::size_t least_values = 1, most_values = 1;
  DataSplit (*open)(const Source&) = nullptr;
};
std::span<const SourceKind> source_kinds() noexcept;

/// Opens a source of one of source_kinds(); a folder without a kind is idx:. Throws Error{invalid}, in one line, with
/// the file and the problem, or with a list of the kinds.
DataSplit load(const std::string& source, std::size_t random_samples, std::uint64_t seed,
               const ReadLimits& limits = {});

}  // namespace tutti::engine
