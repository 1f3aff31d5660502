// data=text: text files, with bytes as tokens. A sample is `context` consecutive tokens, and its target the same
// shifted by one.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/data/files.hpp"
#include "engine/data/formats/kinds.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;

/// The .txt files of a folder; if there are none, all regular files except links.
std::vector<fs::path> text_files(const fs::path& folder) {
  constexpr std::string_view endings[] = {".txt"};
  std::vector<fs::path> files = list_folder(folder, endings);
  if (!files.empty()) return files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// The files, concatenated in the order of their names, divided into samples of `context` tokens.
class TextDataset : public Dataset {
 public:
  TextDataset(const fs::path& folder, std::size_t context) : context_(context) {
    for (const fs::path& file : text_files(folder)) {
      files_.push_back(map_file(file));
      ends_.push_back(files_.back().bytes + (ends_.empty() ? 0 : ends_.back()));
    }
    if (files_.empty()) refuse(folder, "has no files to read");
    if (ends_.back() <= context)
      refuse(folder, "has " + std::to_string(ends_.back()) + " bytes of text, too few for a context of " +
                         std::to_string(context) + ": say context=N with a smaller number");
  }

  std::size_t size() const override { return (ends_.back() - 1) / context_; }

  Sample get(std::size_t i) const override {
    std::vector<std::int64_t> tokens;
    tokens.reserve(context_ + 1);
    const std::size_t begin = i * context_;
    auto file = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
    for (std::size_t at = begin; tokens.size() <= context_; ++file) {
      const std::size_t first = ends_[file] - files_[file].bytes;
      for (; at < ends_[file] && tokens.size() <= context_; ++at)
        tokens.push_back(std::to_integer<std::int64_t>(files_[file].memory.get()[at - first]));
    }
    const Array all(std::move(tokens));
    return {{"input", all.rows(0, context_)}, {"target", all.rows(1, context_)}};
  }

 private:
  const std::size_t context_;
  std::vector<MappedFile> files_;
  std::vector<std::size_t> ends_;  // end of each file in the concatenated text
};

/// Without a separate held-out part, the last tenth of the text is held out, because neighbouring samples are similar.
DataSplit split_text(const std::shared_ptr<const Dataset>& text, const Source& source) {
  std::vector<SampleId> ids(text->size());
  std::iota(ids.begin(), ids.end(), 0U);
  if (ids.size() < 2)
    source.refuse("the text is too short to hold a part of it out; say context=N with a smaller number");
  const auto end = ids.end() - static_cast<std::ptrdiff_t>(std::max<std::size_t>(ids.size() / 10, 1));
  return split_of(source, std::make_shared<Subset>(text, std::vector(ids.begin(), end)),
                  std::make_shared<Subset>(text, std::vector(end, ids.end())));
}

}  // namespace

DataSplit open_text(const Source& source) {
  const PartFolders folders = part_folders(source.values.at(0));
  const std::size_t context = source.number("context", 128);
  const auto train = std::make_shared<TextDataset>(folders.train, context);
  DataSplit split = folders.test.empty()
                        ? split_text(train, source)
                        : split_of(source, train, std::make_shared<TextDataset>(folders.test, context));
  split.inputs = {"input"};
  split.target = "target";
  split.classes = 256;
  split.description = source.text + ": " + std::to_string(split.train->size()) + " training and " +
                      std::to_string(split.test->size()) + " held-out stretches of " + std::to_string(context) +
                      " bytes of text";
  return split;
}

}  // namespace tutti::engine
