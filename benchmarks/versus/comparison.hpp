// Comparison: times of several implementations in the same rounds. Flag: the time until a core sees another's store.
#pragma once

#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "tools/bench/plot.hpp"
#include "tools/bench/sweep.hpp"

namespace tutti::bench {

/// One implementation.
struct Series {
  std::string name;                     ///< "tutti shm", "openmpi:best"
  std::string version;                  ///< "Open MPI v4.1.4"
  std::string settings = {};            ///< its settings beyond the defaults: "A=1 B=2"
  std::vector<std::string> notes = {};  ///< tutti's reasons for its algorithms (--explain)
  int against = -1;                     ///< index of the series of tutti that it is compared with; -1 for tutti's own
  std::map<std::size_t, std::vector<double>> rounds;  ///< bytes -> median of each round in microseconds
  std::map<std::size_t, std::vector<std::vector<double>>> extras = {};  ///< bytes -> further values of each round
};

inline constexpr double flag_change = 1.5;

struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread(std::vector<double> values);  ///< `values` must not be empty

/// The fastest peer at one size, by its median, and its ratio to tutti's time.
struct Best {
  const Series* peer = nullptr;  ///< null: no peer is compared with this series
  Spread ratio;
};

struct Comparison {
  Sweep sweep;
  int ranks = 1;
  double load = 0;  ///< load average of the machine at the start
  int cores = 1;
  std::vector<std::array<double, 2>> flags;  ///< flag_ns() before and after each round; empty: not measured
  double flag_limit = 0;                     ///< a round with a larger flag is not steady; 0: no limit
  std::vector<Series> all;

  std::size_t rounds() const;  ///< number of rounds that were run
  /// True if the machine stayed in one state: the flags before and after differ at most by the factor flag_change, and
  /// are within the limit.
  bool steady(std::size_t round) const;
  /// True if a round counts: it was steady, or fewer than half of the rounds were steady and all of them count.
  bool counts(std::size_t round) const;

  std::vector<std::size_t> sizes() const;  ///< the sizes of the first series; all series have the same
  Spread time(const Series& series, std::size_t bytes) const;
  /// The i-th value of extra_names().
  Spread extra(const Series& series, std::size_t bytes, std::size_t i) const;
  /// Peer / tutti, formed within each round; above 1, tutti is faster. `peer` is a series with `against` >= 0.
  Spread ratio(const Series& peer, std::size_t bytes) const;
  /// The best peer of tutti's series number `ours`.
  Best best(int ours, std::size_t bytes) const;
  double bus_bandwidth(const Series& series, std::size_t bytes) const;  ///< GB/s, from the median time
};

void print_table(const Comparison& what, std::FILE* to);
void print_csv(const Comparison& what, std::FILE* to);
void print_json(const Comparison& what, std::FILE* to);

/// Bus bandwidths by size, a curve for each series.
Plot plot_of(const Comparison& what);

}  // namespace tutti::bench
