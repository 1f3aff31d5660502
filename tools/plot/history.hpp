// History: the course of a run, read from its folder.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace tutti::plot {

using Points = std::vector<std::pair<double, double>>;  ///< (epoch, value)

/// Values by epoch. Validations within an epoch lie between whole numbers.
struct History {
  std::string name;  ///< the folder
  Points train_loss = {}, held_out_loss = {}, samples_per_second = {};
  std::string metric = {};  ///< name of the first metric, for example "accuracy"
  Points values = {};       ///< of the metric; accuracies in percent
};

/// Reads metrics.csv and, if there is one, validations.csv. Throws Error{invalid} naming the file.
History read_history(const std::filesystem::path& run);

}  // namespace tutti::plot
