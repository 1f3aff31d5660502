// Where data comes from: what `data=` names, and what a network is trained and measured on.
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
#include "engine/data/transform.hpp"

namespace tutti::engine {

struct ImageShape {
  std::size_t channels = 1, height = 0, width = 0;
  std::size_t pixels() const noexcept { return channels * height * width; }
  bool operator==(const ImageShape&) const = default;
};

/// What a network is trained and measured on, and which arrays of a sample it is about.
struct DataSplit {
  std::shared_ptr<const Dataset> train, test;
  std::vector<std::string> inputs{"image"};
  std::string target = "label";
  std::size_t classes = 0;  ///< the target is a class below it; 0: the target is what the outputs are to come near to
  /// Mean and deviation of the first input where that is bytes, on the scale 0 .. 1: one of all of it, or one for each
  /// element of its first dimension.
  std::vector<float> mean{0}, deviation{1};
  std::string description;  ///< one line for the user: what it is, how many

  /// Shape of the only input. Throws Error{invalid} with one line unless that is of channels x height x width.
  ImageShape image() const;

  /// What every sample needs before a network takes it: bytes become f32 with mean 0 and deviation 1, classes become
  /// i64 and are checked. Other transforms, such as shift(), go before these.
  std::vector<Transform> preparation() const;
};

/// The text of `data=`, taken apart: KIND:VALUE,VALUE,key=value,...
struct Source {
  std::string text, kind;
  std::vector<std::string> values = {};
  std::map<std::string, std::string, std::less<>> options = {};
  std::size_t random_samples = 0;  ///< of random:, unless the text says samples=
  std::uint64_t seed = 0;          ///< of random:

  /// Throws Error{invalid}: "data=TEXT: what; expected FORM".
  [[noreturn]] void refuse(const std::string& what) const;
  std::string option(std::string_view key, std::string_view otherwise = {}) const;
  std::size_t number(std::string_view key, std::size_t otherwise) const;  ///< a whole number from 1 up
  bool flag(std::string_view key) const;                                  ///< key or key=on, key=off; off if not given
};

/// A kind of data that `data=` can name.
struct SourceKind {
  std::string_view name, form, meaning;
  std::string_view options;  ///< keys, separated by blanks
  std::size_t least_values = 1, most_values = 1;
  DataSplit (*open)(const Source&) = nullptr;
};
std::span<const SourceKind> source_kinds() noexcept;

/// Opens what `source` names, one of source_kinds(); a plain folder is an idx: one. Throws Error{invalid} with one line
/// that names the file and what is wrong with it, or lists what there is.
DataSplit load(const std::string& source, std::size_t random_samples, std::uint64_t seed);

}  // namespace tutti::engine
