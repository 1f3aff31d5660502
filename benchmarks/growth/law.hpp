// Law: how a quantity grows with the number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tutti::growth {

/// How a figure came about.
enum class How : std::uint8_t {
  function,   ///< asked of a pure function
  simulated,  ///< one rank, or one thread for all ranks, and peers that are not there
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
  double bound = 0;    ///< at the last size
  bool judged = true;  ///< false: a time, which is shown only
};

struct Measured {
  const Law* law = nullptr;
  std::vector<double> values;
  double exponent = 0;
  /// Returns true for a law that is not judged, and false if a figure could not be had (not finite, below 0).
  bool holds() const;
};

/// Asks for the value at each size.
Measured measure(const Law& law);

/// The table as Markdown: part, quantity, how, the values at 64, 1,024, 8,192 and 65,536, exponent, bound.
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
std::vector<Law> checkpoint_laws();  // where the engine is built

}  // namespace tutti::growth
