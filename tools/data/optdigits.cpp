// Fetching, splitting and writing the digits.
#include "tools/data/optdigits.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>
#include <vector>

#include "engine/data/files.hpp"
#include "engine/data/formats/hdf5_file.hpp"
#include "engine/data/formats/idx.hpp"
#include "engine/data/random.hpp"
#include "tutti/status.hpp"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t pixels = 64;
constexpr int brightest = 16;
constexpr std::uint64_t split_seed = 1797;

/// Runs a fixed shell command in `folder`, with its output in `folder`/log. Returns its exit code.
int shell(const char* line, const fs::path& folder) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "log", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  const char* argv[] = {"sh", "-c", line, nullptr};
  pid_t child = -1;
  const int error = posix_spawn(&child, "/bin/sh", &actions, nullptr, const_cast<char**>(argv), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return 127;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/// Returns ": " and the most informative line of `folder`/log: the first error, or else the last line; or an empty
/// text.
std::string said(const fs::path& folder) {
  std::ifstream log(folder / "log");
  std::string last;
  for (std::string line; std::getline(log, line);) {
    if (line.starts_with("E: ")) return ": " + line.substr(3);
    if (!line.empty()) last = line;
  }
  return last.empty() ? "" : ": " + last;
}

std::vector<std::string> read_lines(const fs::path& file) {
  const std::vector<std::uint8_t> bytes = engine::read_whole(file);
  std::istringstream in(std::string(bytes.begin(), bytes.end()));
  std::vector<std::string> lines;
  for (std::string text; std::getline(in, text);) {
    while (!text.empty() && text.back() == '\r') text.pop_back();
    if (!text.empty()) lines.push_back(std::move(text));
  }
  return lines;
}

struct Row {
  std::array<std::uint8_t, pixels> image{};
  std::uint8_t label = 0;
};

Row parse(const std::string& line, const std::string& where) {
  Row row;
  const char* at = line.data();
  const char* const end = at + line.size();
  for (std::size_t i = 0; i <= pixels; ++i) {
    int value = -1;
    const auto [rest, error] = std::from_chars(at, end, value);
    const bool last = i == pixels;
    if (error != std::errc() || value < 0 || value > (last ? 9 : brightest) ||
        (last ? rest != end : rest == end || *rest != ','))
      throw Error(Code::invalid, where + ": expected 64 values of 0..16 and a digit, separated by commas");
    if (last)
      row.label = static_cast<std::uint8_t>(value);
    else
      row.image[i] = static_cast<std::uint8_t>((value * 255 + brightest / 2) / brightest);
    at = rest + 1;
  }
  return row;
}

void append(DigitImages& data, const Row& row) {
  data.pixels.insert(data.pixels.end(), row.image.begin(), row.image.end());
  data.labels.push_back(row.label);
}

void write_part(const fs::path& folder, const std::string& prefix, const DigitImages& data) {
  const auto count = static_cast<std::int64_t>(data.size());
  engine::write_idx(folder / (prefix + "-images-idx3-ubyte"), engine::Array(data.pixels, {count, 8, 8}));
  engine::write_idx(folder / (prefix + "-labels-idx1-ubyte"), engine::Array(data.labels));
}

void write_readme(const fs::path& folder, const Digits& digits) {
  std::ofstream out(folder / "README.txt");
  out << fmt::format(
      "Handwritten digits, 8x8 pixels, in MNIST's IDX format.\n\n"
      "Source:  E. Alpaydin and C. Kaynak, \"Optical Recognition of Handwritten Digits\", UCI Machine Learning\n"
      "         Repository, 1998, https://doi.org/10.24432/C50P49; its test part, as scikit-learn distributes it.\n"
      "Licence: Creative Commons Attribution 4.0 (CC BY 4.0), https://creativecommons.org/licenses/by/4.0/\n"
      "Changes: values 0..16 scaled to 0..255; split by `tutti data optdigits` into {} training images (train-*) and\n"
      "         {} held-out images (t10k-*), a fifth of each class, always the same.\n",
      digits.train.size(), digits.test.size());
  out.close();
  if (!out) throw Error(Code::resource, (folder / "README.txt").string() + ": cannot be written");
}

}  // namespace

fs::path fetch_digits(const fs::path& folder) {
  const auto refuse = [&](const std::string& what) {
    throw Error(Code::resource, what + said(folder) +
                                    ". Where there is no Debian or no network, fetch digits.csv.gz of scikit-learn "
                                    "elsewhere and give it with --from");
  };
  if (shell("command -v apt-get && command -v dpkg-deb && command -v tar", folder) != 0)
    refuse("apt-get, dpkg-deb and tar are needed to fetch the digits, and one is not here");
  // Without the option, apt would download as its sandbox user, which may not write into a private folder.
  constexpr const char* download = "apt-get download -q -o APT::Sandbox::User=root python3-sklearn";
  if (shell(download, folder) != 0 && (shell("apt-get update -q", folder) != 0 || shell(download, folder) != 0))
    refuse("apt-get could not download python3-sklearn");
  if (shell("for p in python3-sklearn*.deb; do dpkg-deb --fsys-tarfile $p | tar x --wildcards '*digits.csv.gz'; done",
            folder) != 0)
    refuse("the package python3-sklearn could not be unpacked");
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().filename() == "digits.csv.gz") return entry.path();
  refuse("the package python3-sklearn holds no digits.csv.gz");
  return {};
}

Digits read_digits(const fs::path& csv) {
  std::array<std::vector<Row>, 10> classes;
  std::size_t number = 0;
  for (const std::string& line : read_lines(csv)) {
    const Row row = parse(line, fmt::format("{}:{}", csv.string(), ++number));
    classes[row.label].push_back(row);
  }
  if (number == 0) throw Error(Code::invalid, csv.string() + ": is empty");
  Digits digits;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    std::vector<Row>& rows = classes[label];
    engine::shuffle(std::span(rows), engine::Random::keyed(split_seed, label));
    const std::size_t held_out = (rows.size() + 2) / 5;
    for (std::size_t i = 0; i < rows.size(); ++i) append(i < held_out ? digits.test : digits.train, rows[i]);
  }
  return digits;
}

namespace {

/// Creates the folder `out` with the files that `fill` writes into the folder that it is given; creates nothing on
/// failure.
template <class Fill>
void write_folder(const fs::path& out, Fill&& fill) {
  if (fs::exists(out))
    throw Error(Code::invalid, out.string() + ": is there already; remove it or name another folder");
  fs::path partial = out;
  partial += fmt::format(".tmp{}", getpid());
  try {
    fs::create_directories(partial);
    fill(partial);
    fs::rename(partial, out);
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    const auto* system = dynamic_cast<const fs::filesystem_error*>(&error);
    if (!system) throw;
    throw Error(Code::resource, fmt::format("{}: cannot be written: {}", out.string(), system->code().message()));
  }
}

/// Returns the images [begin, end) in mpi_learn's format: pixels from 0 to 1 with the shape (n, rows, columns,
/// channels), and one-hot labels.
engine::Fields hdf5_columns(const DigitImages& images, std::size_t begin, std::size_t end) {
  std::vector<float> features, labels;
  for (std::size_t i = begin; i < end; ++i) {
    for (const std::uint8_t pixel : images.image(i)) features.push_back(static_cast<float>(pixel) / 255);
    for (std::uint8_t digit = 0; digit < 10; ++digit) labels.push_back(images.labels[i] == digit ? 1.0F : 0.0F);
  }
  const auto count = static_cast<std::int64_t>(end - begin);
  return {{"features", engine::Array(std::move(features), {count, 8, 8, 1})},
          {"labels", engine::Array(std::move(labels), {count, 10})}};
}

/// Writes NAME.txt and the HDF5 files that it lists.
void write_list(const fs::path& folder, const std::string& name, const DigitImages& images, std::size_t files) {
  std::ofstream list(folder / (name + ".txt"));
  for (std::size_t i = 0; i < files; ++i) {
    const std::string file = fmt::format("{}_{}.h5", name, i);
    engine::write_hdf5(folder / file, hdf5_columns(images, images.size() * i / files, images.size() * (i + 1) / files));
    list << file << "\n";
  }
}

/// mpi_learn's network for MNIST, with the size of these images.
constexpr const char* keras_model =
    R"({"class_name": "Sequential", "keras_version": "2.1.3", "backend": "tensorflow", "config": [
 {"class_name": "Conv2D", "config": {"batch_input_shape": [null, 8, 8, 1], "filters": 32, "kernel_size": [3, 3], "activation": "relu"}},
 {"class_name": "Conv2D", "config": {"filters": 32, "kernel_size": [3, 3], "activation": "relu"}},
 {"class_name": "MaxPooling2D", "config": {"pool_size": [2, 2]}},
 {"class_name": "Dropout", "config": {"rate": 0.25}},
 {"class_name": "Flatten", "config": {}},
 {"class_name": "Dense", "config": {"units": 128, "activation": "relu"}},
 {"class_name": "Dropout", "config": {"rate": 0.5}},
 {"class_name": "Dense", "config": {"units": 10, "activation": "softmax"}}]}
)";

}  // namespace

void write_digits(const Digits& digits, const fs::path& out) {
  write_folder(out, [&](const fs::path& folder) {
    write_part(folder, "train", digits.train);
    write_part(folder, "t10k", digits.test);
    write_readme(folder, digits);
  });
}

void write_digits_hdf5(const Digits& digits, const fs::path& out) {
  write_folder(out, [&](const fs::path& folder) {
    write_list(folder, "train", digits.train, 4);
    write_list(folder, "test", digits.test, 1);
    std::ofstream(folder / "model.json") << keras_model;
    write_readme(folder, digits);
  });
}

}  // namespace tutti::tools
