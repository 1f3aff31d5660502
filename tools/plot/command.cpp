// `tutti plot`: draws the course of training runs.
#include "tools/command.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>

#include "tools/options.hpp"
#include "tools/plot/picture.hpp"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

int run(const std::vector<std::string>& arguments) {
  std::vector<std::string> folders;
  fs::path out;
  CLI::App app("Draws loss, metric and throughput of one or more runs, by epoch, as SVG.", "tutti plot");
  app.add_option("runs", folders, "folders of runs, as runs/lenet-20261125-093000")->required();
  app.add_option("-o,--out", out, "the file to write [one run: curves.svg in its folder; several: curves.svg here]");
  parse(app, arguments);
  std::vector<plot::History> runs;
  for (const std::string& folder : folders) runs.push_back(plot::read_history(folder));
  if (out.empty()) out = runs.size() == 1 ? fs::path(folders[0]) / "curves.svg" : fs::path("curves.svg");
  std::ofstream file(out);
  file << plot::picture(runs) << std::flush;
  if (!file) throw Error(Code::resource, out.string() + ": cannot be written");
  fmt::print("{}\n", out.string());
  return 0;
}

}  // namespace

extern const Command plot_command;
const Command plot_command = {"draw loss, accuracy and throughput of training runs", run};

}  // namespace tutti::tools
