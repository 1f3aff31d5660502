// Data sources: what `data=` can name, and the data set that it opens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/dataset.hpp"
#include "engine/data/files.hpp"
#include "engine/data/transform.hpp"

namespace tutti::engine {

struct ImageShape {
  std::size_t channels = 1, height = 0, width = 0;
  std::size_t pixels() const noexcept { return channels * height * width; }
  bool operator==(const ImageShape&) const = default;
};

/// The training and held-out samples, and the arrays of a sample that are inputs and target.
struct DataSplit {
  std::shared_ptr<const Dataset> train, test;
  std::vector<std::string> inputs{"image"};
  std::string target = "label";
  std::size_t classes = 0;  ///< number of classes if the target is a class; 0: the target is numbers
  /// Mean and standard deviation of the first input if it is bytes, on the scale 0 .. 1: one value for all elements, or
  /// one per element of the first dimension.
  std::vector<float> mean{0}, deviation{1};
  std::string description;  ///< one line for the user: the kind of data and the numbers of samples

  /// The shape of the only input. Throws Error{invalid}, in one line, unless it is channels x height x width.
  ImageShape image() const;

  /// The transforms that a network's inputs need: bytes become f32 with mean 0 and standard deviation 1; classes become
  /// i64 and are range-checked. Apply other transforms, such as shift(), before these.
  std::vector<Transform> preparation() const;
};

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
