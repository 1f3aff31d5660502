#include "engine/data/formats/hdf5.hpp"

#include <algorithm>
#include <atomic>
#include <optional>

#include "engine/data/files.hpp"
#include "engine/data/formats/hdf5_file.hpp"
#include "engine/data/formats/hdf5_reading.hpp"
#include "engine/data/formats/hdf5_store.hpp"
#include "engine/data/formats/kinds.hpp"
#include "transports/core/text_file.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;

enum class Target : std::uint8_t { classes, one_hot, numbers };

/// The index of the only 1 in a row whose other values are 0; nullopt for any other row.
std::optional<std::int64_t> hot_one(const Array& row) {
  const Array numbers = row.converted(DType::f64);
  std::optional<std::int64_t> found;
  std::int64_t at = 0;
  for (const double value : numbers.as<double>()) {
    if ((value != 0 && value != 1) || (value == 1 && found)) return std::nullopt;
    if (value == 1) found = at;
    ++at;
  }
  return found;
}

Target target_of(const Hdf5Column& column, const Array& labels) {
  if (labels.count() == column.rows()) return is_integer(column.dtype) ? Target::classes : Target::numbers;
  if (column.shape.size() != 2) return Target::numbers;
  for (std::size_t i = 0; i < column.rows(); ++i)
    if (!hot_one(labels.row(i))) return Target::numbers;
  return Target::one_hot;
}

}  // namespace

constexpr std::size_t most_listed = std::size_t{64} << 20;  // bytes of a list

std::vector<fs::path> read_list(const fs::path& list) {
  if (list.extension() == ".h5" || list.extension() == ".hdf5") return {list};
  std::vector<fs::path> files;
  std::size_t number = 0;
  for (std::string line : read_lines(list, most_listed)) {
    ++number;
    line.erase(line.find_last_not_of(" \t\r") + 1);
    line.erase(0, line.find_first_not_of(" \t"));
    if (line.empty() || line[0] == '#') continue;
    files.push_back(list.parent_path() / line);  // an absolute path stays as it is
    if (!fs::exists(files.back()))
      refuse(list.string() + ":" + std::to_string(number), files.back().string() + ": no such file");
  }
  if (files.empty()) refuse(list, "names no files: expected a path on each line");
  return files;
}

class Hdf5Dataset::Files {
 public:
  Files(std::vector<fs::path> paths, Hdf5Options options)
      : paths_(std::move(paths)), options_(std::move(options)), cache_(options_.cache) {
    for (std::size_t file = 0; file < paths_.size(); ++file) look_into(file);
    if (options_.classes > 0 && target_ != Target::numbers) classes_ = options_.classes;
    reading_ = reading_of(layouts_, {.open = options_.open, .preload = options_.preload, .memory = options_.memory});
    for (const Hdf5Reading::Part& part : reading_.parts)
      part_ends_.push_back(part.rows + (part_ends_.empty() ? 0 : part_ends_.back()));
    if (!reading_.parts.empty())
      loaded_ = std::make_unique<LoadedParts>(reading_.held, [this](std::size_t part) { return load(part); });
  }

  Sample get(std::size_t i) {
    const auto file = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin());
    const std::size_t row = i - (file == 0 ? 0 : ends_[file - 1]);
    if (!loaded_) return sample_of(read_row(file, row), file, row);
    const std::size_t part = part_of(i);
    const auto rows = loaded_->get(part);
    std::vector<Array> arrays;
    for (const Array& each : *rows) arrays.push_back(each.row(row - reading_.parts[part].begin));
    return sample_of(arrays, file, row);
  }

  /// Reads parts ahead if all parts that are in use at the same time fit into memory. Otherwise, as with random access,
  /// parts would be removed before they are used.
  void expect(const Coming& coming) {
    if (!loaded_) return;
    std::vector<std::size_t> order, samples(reading_.parts.size());
    coming([&](SampleId id) { ++samples[part_of(id)]; });
    std::vector<bool> seen(samples.size());
    std::size_t in_use = 0, most_in_use = 0;
    coming([&](SampleId id) {
      const std::size_t part = part_of(id);
      if (!seen[part]) {
        seen[part] = true;
        order.push_back(part);
        most_in_use = std::max(most_in_use, ++in_use);
      }
      if (--samples[part] == 0) --in_use;
    });
    if (most_in_use > reading_.held) order.clear();
    loaded_->expect(std::move(order));
  }

  std::vector<std::size_t> counts() const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < ends_.size(); ++i) found.push_back(ends_[i] - (i == 0 ? 0 : ends_[i - 1]));
    return found;
  }
  std::size_t size() const { return ends_.back(); }
  std::size_t most_open() const { return options_.preload && loaded_ ? loaded_->most() : most_open_.load(); }
  std::size_t opened() const { return options_.preload ? reads() : opened_.load(); }
  std::size_t reads() const { return loaded_ ? loaded_->loads() : 0; }
  const Hdf5Reading& reading() const { return reading_; }

  std::vector<std::string> inputs_;
  std::string target_name_;
  std::size_t classes_ = 0;

 private:
  /// Reads the layout of a file and checks that it equals that of the first file.
  void look_into(std::size_t number) {
    const fs::path& path = paths_[number];
    Hdf5File::try_out(path, options_.limits, {options_.features, options_.labels});
    const Hdf5File file(path, options_.limits);
    std::vector<Hdf5Column> columns = file.columns(options_.features), labels = file.columns(options_.labels);
    if (labels.size() != 1) refuse(path, "'" + options_.labels + "' is a group: expected one dataset of labels");
    columns.push_back(labels[0]);
    for (const Hdf5Column& each : columns)
      if (each.rows() != columns[0].rows())
        refuse(path, "dataset '" + each.path + "' has " + std::to_string(each.rows()) + " rows, and '" +
                         columns[0].path + "' " + std::to_string(columns[0].rows()) + ": expected one for each sample");
    layouts_.push_back(layout_of(columns));
    ends_.push_back(columns[0].rows() + (ends_.empty() ? 0 : ends_.back()));
    if (number == 0) {
      columns_ = columns;
      for (std::size_t i = 0; i + 1 < columns.size(); ++i) inputs_.push_back(columns[i].path);
      target_ = target_of(labels[0], file.read(labels[0]));
      target_name_ = target_ == Target::numbers ? "target" : "label";
      if (target_ == Target::one_hot) classes_ = static_cast<std::size_t>(labels[0].shape[1]);
    }
    check_alike(path, columns);
    if (target_ == Target::classes)
      classes_ = std::max(
          classes_,
          count_classes(file.read(labels[0]), path.string() + ": dataset '" + options_.labels + "'", options_.classes));
  }

  void check_alike(const fs::path& path, const std::vector<Hdf5Column>& columns) const {
    const auto text = [](const Hdf5Column& c) { return std::string(name(c.dtype)) + " of " + describe(c.row_shape()); };
    for (std::size_t i = 0; i < std::max(columns.size(), columns_.size()); ++i) {
      if (i >= columns.size() || i >= columns_.size() || columns[i].path != columns_[i].path)
        refuse(path, "has other datasets than " + paths_[0].string() + ": expected the same in all files");
      if (columns[i].dtype != columns_[i].dtype || columns[i].row_shape() != columns_[i].row_shape())
        refuse(path, "dataset '" + columns[i].path + "' is " + text(columns[i]) + " for each sample, that of " +
                         paths_[0].string() + " " + text(columns_[i]) + ": expected the same in all files");
    }
  }

  std::size_t part_of(std::size_t i) const {
    return static_cast<std::size_t>(std::upper_bound(part_ends_.begin(), part_ends_.end(), i) - part_ends_.begin());
  }

  /// Reads a part of a file. With preload, a file is open only during this call.
  LoadedParts::Columns load(std::size_t number) {
    const Hdf5Reading::Part& part = reading_.parts[number];
    if (!options_.preload) return read_rows(part.file, part.begin, part.rows);
    return rows_of(*open(part.file), part.file, part.begin, part.rows);
  }

  std::vector<Hdf5Column> here(std::size_t number) const {
    std::vector<Hdf5Column> found = columns_;
    for (Hdf5Column& each : found)
      each.shape[0] = static_cast<std::int64_t>(ends_[number] - (number == 0 ? 0 : ends_[number - 1]));
    return found;
  }

  std::unique_ptr<Hdf5File> open(std::size_t number) {
    const std::size_t most_files = std::min(options_.open, paths_.size());
    return std::make_unique<Hdf5File>(cache_.local(number, paths_[number]), options_.limits,
                                      options_.memory / 8 / most_files);
  }

  std::vector<Array> rows_of(const Hdf5File& file, std::size_t number, std::size_t begin, std::size_t rows) const {
    std::vector<Array> arrays;
    for (const Hdf5Column& each : here(number)) arrays.push_back(file.read(each, begin, rows));
    return arrays;
  }

  /// Reads rows. The file stays open until `open` other files have been used more recently.
  std::vector<Array> read_rows(std::size_t number, std::size_t begin, std::size_t rows) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(open_.begin(), open_.end(), [&](const auto& each) { return each.first == number; });
    if (found == open_.end()) {
      if (open_.size() >= options_.open) open_.erase(open_.begin());
      open_.emplace_back(number, open(number));
      most_open_ = std::max(most_open_.load(), open_.size());
      ++opened_;
    } else {
      std::rotate(found, found + 1, open_.end());
    }
    return rows_of(*open_.back().second, number, begin, rows);
  }

  std::vector<Array> read_row(std::size_t number, std::size_t row) {
    std::vector<Array> arrays = read_rows(number, row, 1);
    for (Array& each : arrays) each = each.row(0);
    return arrays;
  }

  Sample sample_of(const std::vector<Array>& arrays, std::size_t file, std::size_t row) const {
    Sample sample;
    for (std::size_t i = 0; i < inputs_.size(); ++i) sample[inputs_[i]] = arrays[i];
    const Array& label = arrays.back();
    if (target_ == Target::numbers) {
      sample[target_name_] = label.converted(DType::f32);
    } else if (target_ == Target::classes) {
      sample[target_name_] = label.converted(DType::i64).reshaped({});
    } else {
      const auto hot = hot_one(label);
      if (!hot)
        refuse(paths_[file],
               "dataset '" + options_.labels + "': row " + std::to_string(row) + " has not one 1 and else 0");
      sample[target_name_] = Array::scalar(*hot);
    }
    return sample;
  }

  const std::vector<fs::path> paths_;
  const Hdf5Options options_;
  FileCache cache_;
  std::vector<Hdf5Column> columns_;  // of the first file: inputs, then labels
  std::vector<std::size_t> ends_;    // cumulative numbers of samples
  std::vector<Hdf5Layout> layouts_;
  Hdf5Reading reading_;
  std::vector<std::size_t> part_ends_;  // cumulative numbers of samples of its parts
  Target target_ = Target::classes;

  std::mutex mutex_;
  std::vector<std::pair<std::size_t, std::unique_ptr<Hdf5File>>> open_;  // least recently used first
  std::atomic<std::size_t> most_open_{0}, opened_{0};
  std::unique_ptr<LoadedParts> loaded_;  // declared last, because its thread uses the other members
};

Hdf5Dataset::Hdf5Dataset(std::vector<fs::path> files, Hdf5Options options) {
  if (files.empty()) throw Error(Code::invalid, "no HDF5 files: expected one at least");
  if (options.open < (options.preload ? 2U : 1U))
    throw Error(Code::invalid, "open=" + std::to_string(options.open) + ": expected 1 or more files, with preload 2");
  files_ = std::make_unique<Files>(std::move(files), std::move(options));
}

Hdf5Dataset::~Hdf5Dataset() = default;
std::size_t Hdf5Dataset::size() const { return files_->size(); }
Sample Hdf5Dataset::get(std::size_t i) const { return files_->get(i); }
std::vector<std::size_t> Hdf5Dataset::files() const { return files_->counts(); }
Blocks Hdf5Dataset::blocks() const { return files_->reading().blocks; }
void Hdf5Dataset::expect(const Coming& coming) const { files_->expect(coming); }
const std::vector<std::string>& Hdf5Dataset::inputs() const noexcept { return files_->inputs_; }
const std::string& Hdf5Dataset::target() const noexcept { return files_->target_name_; }
std::size_t Hdf5Dataset::classes() const noexcept { return files_->classes_; }
std::size_t Hdf5Dataset::most_open() const noexcept { return files_->most_open(); }
std::size_t Hdf5Dataset::opened() const noexcept { return files_->opened(); }
std::size_t Hdf5Dataset::reads() const noexcept { return files_->reads(); }
const std::string& Hdf5Dataset::note() const noexcept { return files_->reading().note; }

namespace {

/// The option memory=, which is in MiB.
std::size_t memory_of(const Source& source, std::size_t otherwise) {
  constexpr std::size_t unit = std::size_t{1} << 20, most = std::size_t{1} << 40;
  const std::size_t given = source.number("memory", otherwise / unit);
  if (given > most / unit) source.refuse("memory=" + source.option("memory") + " is in MiB: expected 1 to 1048576");
  return given * unit;
}

}  // namespace

DataSplit open_hdf5(const Source& source) {
  const Hdf5Options defaults;
  const Hdf5Options options{.features = source.option("features", defaults.features),
                            .labels = source.option("labels", defaults.labels),
                            .classes = source.number("classes", 0),
                            .open = source.number("open", defaults.open),
                            .preload = source.flag("preload"),
                            .memory = memory_of(source, defaults.memory),
                            .cache = source.option("cache"),
                            .limits = source.limits};
  std::vector<std::shared_ptr<const Hdf5Dataset>> parts;
  for (const std::string& list : source.values)
    parts.push_back(std::make_shared<Hdf5Dataset>(read_list(list), options));
  DataSplit split = split_of(source, parts[0], parts.size() > 1 ? parts[1] : nullptr);
  split.inputs = parts[0]->inputs();
  split.target = parts[0]->target();
  for (const auto& part : parts) {
    split.classes = std::max(split.classes, part->classes());
    if (part->inputs() != split.inputs || part->target() != split.target)
      source.refuse("training and held-out files have not the same datasets");
  }
  measure(split);
  split.description =
      source.text + ": " + summary(split, "samples of " + std::to_string(parts[0]->files().size()) + " files");
  if (!parts[0]->note().empty()) split.description += "; " + parts[0]->note();
  return split;
}

}  // namespace tutti::engine
