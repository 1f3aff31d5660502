// History: the course of a run, read from its folder.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace tutti::plot {

using Points = std::vector<std::pair<double, double>>;  ///< (epoch, value)

/// Values by epoch. Validations within an epoch have positions between whole numbers.
struct History {
  std::string name;  ///< the folder
  Points train_loss = {}, held_out_loss = {}, samples_per_second = {};
  std::string metric = {};  ///< name of the first metric, for example "accuracy"
  Points values = {};       ///< values of this metric; accuracies in percent
  Points ranks = {};        ///< of an elastic run: how many ranks there were from then on; else empty
};

/// Reads metrics.csv and, where they are, validations.csv and ranks.csv of a run. Throws Error{invalid} that names the
/// file.
History read_history(const std::filesystem::path& run);

}  // namespace tutti::plot
