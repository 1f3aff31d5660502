// `tutti data`: makes data sets to train on.
#include "tools/command.hpp"

#include <fmt/core.h>
#include <stdlib.h>

#include <filesystem>

#include "tools/data/optdigits.hpp"
#include "tools/options.hpp"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

/// A private folder that is removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "tutti-data-XXXXXX").string();
    if (!mkdtemp(name.data())) throw Error(Code::resource, name + ": cannot be made; set TMPDIR to a writable folder");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const noexcept { return path_; }

 private:
  fs::path path_;
};

int run(const std::vector<std::string>& arguments) {
  std::string set, from, format = "idx";
  fs::path out;
  CLI::App app("Makes a data set to train on.", "tutti data");
  app.add_option("set", set, "optdigits: 1,797 real handwritten digits of 8x8 pixels (UCI, CC BY 4.0)")->required();
  app.add_option("out", out, "the folder to make")->required();
  app.add_option("--from", from, "a digits.csv.gz of scikit-learn, instead of downloading it");
  app.add_option("--format", format,
                 "idx: MNIST's files; hdf5: mpi_learn's lists of HDF5 files, and a network for them")
      ->check(CLI::IsMember({"idx", "hdf5"}));
  parse(app, arguments);
  if (set != "optdigits") usage_error(app, fmt::format("no data set '{}': there is optdigits; ", set));
  out = fs::absolute(out).lexically_normal();
  if (out.filename().empty()) out = out.parent_path();
  if (fs::exists(out))
    throw Error(Code::invalid, out.string() + ": is there already; remove it or name another folder");
  const TemporaryFolder folder;
  const Digits digits = read_digits(from.empty() ? fetch_digits(folder.path()) : fs::path(from));
  if (format == "hdf5")
    write_digits_hdf5(digits, out);
  else
    write_digits(digits, out);
  fmt::print(
      "{}: {} training and {} held-out images of 8x8 (UCI optical recognition of handwritten digits, CC BY 4.0)\n",
      out.string(), digits.train.size(), digits.test.size());
  return 0;
}

}  // namespace

extern const Command data_command;
const Command data_command = {"make a data set to train on", run};

}  // namespace tutti::tools
