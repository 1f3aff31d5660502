// History: what a run's folder tells of its course.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace tutti::plot {

using Points = std::vector<std::pair<double, double>>;  ///< (epoch, value)

/// Values by epoch; those of validations within an epoch lie between whole numbers.
struct History {
  std::string name;  ///< the folder
  Points train_loss = {}, held_out_loss = {}, samples_per_second = {};
  std::string metric = {};  ///< the first one's name: "accuracy"
  Points values = {};       ///< of the metric; accuracies in percent
};

/// From metrics.csv and, where there is one, validations.csv. Throws Error{invalid}: one line that names the file.
History read_history(const std::filesystem::path& run);

}  // namespace tutti::plot
