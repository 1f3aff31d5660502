// Law: how a quantity grows with the number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tutti::growth {

/// How a value is obtained.
enum class How : std::uint8_t {
  function,   ///< a pure function computes it
  simulated,  ///< one rank with simulated peers, or one thread that plays all ranks
  threads,    ///< each rank is a thread
  processes,  ///< each rank, or each host, is a process
};
std::string text_of(How how);

/// A quantity at several numbers of ranks. It is judged by the exponent of its growth from the first size to the last,
/// and by its value at the last.
struct Law {
  std::string part;      ///< "start"
  std::string quantity;  ///< "requests to the store, of each rank"
  How how = How::function;
  std::vector<std::int64_t> sizes;
  std::function<double(std::int64_t)> at;
  double most_exponent = 0;
  double bound = 0;    ///< greatest value allowed at the last size
  bool judged = true;  ///< false: a time, which is shown only
};

struct Measured {
  const Law* law = nullptr;
  std::vector<double> values;
  double exponent = 0;
  /// True if the law is not judged, or if the exponent and the last value are within their limits. False if a value is
  /// infinite, not a number, or below 0.
  bool holds() const;
};

/// Computes the value at each size, and the exponent.
Measured measure(const Law& law);

/// The table as Markdown: part, quantity, how, the values at 64, 1,024, 8,192 and 65,536, exponent and both limits.
std::string table_of(const std::vector<Measured>& rows);

// Each file of this folder has one function, which returns its laws.
std::vector<Law> start_laws();
std::vector<Law> memory_laws();
std::vector<Law> call_laws();
std::vector<Law> plan_laws();
std::vector<Law> server_laws();
std::vector<Law> late_laws();
std::vector<Law> descriptor_laws();
std::vector<Law> launcher_laws();
std::vector<Law> training_laws();
std::vector<Law> checkpoint_laws();  // defined only in builds with the engine

}  // namespace tutti::growth
