// Comparison: what several implementations needed for the same sizes in the same rounds, and how to show it.
#pragma once

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "tools/bench/sweep.hpp"

namespace tutti::bench {

/// One implementation.
struct Series {
  std::string name;                     ///< "tutti shm", "openmpi:best"
  std::string version;                  ///< "Open MPI v4.1.4"
  std::string settings = {};            ///< what it was given beyond its defaults: "A=1 B=2"
  std::vector<std::string> notes = {};  ///< why tutti took which algorithm
  int against = -1;                     ///< the index of tutti's series that it is compared with; -1 for tutti's own
  std::map<std::size_t, std::vector<double>> rounds;  ///< bytes -> a round's median in microseconds
};

struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread(std::vector<double> values);  ///< of at least one value

struct Comparison {
  Sweep sweep;
  int ranks = 1;
  double load = 0;  ///< of the machine when it began: processes that wanted a core
  int cores = 1;
  std::vector<Series> all;

  std::vector<std::size_t> sizes() const;  ///< of the first series; all have the same
  Spread time(const Series& series, std::size_t bytes) const { return spread(series.rounds.at(bytes)); }
  /// Peer / tutti, formed within each round: above 1, tutti is faster. Of a series that is `against` one.
  Spread ratio(const Series& peer, std::size_t bytes) const;
  double bus_bandwidth(const Series& series, std::size_t bytes) const;  ///< GB/s, of the median time
};

void print_table(const Comparison& what, std::FILE* to);
void print_csv(const Comparison& what, std::FILE* to);
void print_json(const Comparison& what, std::FILE* to);
void print_svg(const Comparison& what, std::FILE* to);
void print_plot(const Comparison& what, std::FILE* to);  ///< of characters, for a terminal

}  // namespace tutti::bench
