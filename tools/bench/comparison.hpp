// Comparison: what several implementations needed for the same sizes in the same rounds, and how to show it.
#pragma once

#include <array>
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
  std::map<std::size_t, std::vector<double>> rounds;                    ///< bytes -> a round's median in microseconds
  std::map<std::size_t, std::vector<std::vector<double>>> extras = {};  ///< and what else was measured in that round
};

inline constexpr double flag_change = 1.5;

struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread(std::vector<double> values);  ///< of at least one value

/// The fastest of the peers at one size, by its median, and its ratio to tutti's time.
struct Best {
  const Series* peer = nullptr;  ///< none: nobody is compared with this series
  Spread ratio;
};

struct Comparison {
  Sweep sweep;
  int ranks = 1;
  double load = 0;  ///< of the machine when it began: processes that wanted a core
  int cores = 1;
  std::vector<std::array<double, 2>> flags;  ///< flag_ns() before and after each round; empty: not measured
  double flag_limit = 0;                     ///< a round with a flag above it is not steady; 0: any will do
  std::vector<Series> all;

  std::size_t rounds() const;  ///< as many as were run
  /// Whether the machine stayed in one state: the flags before and after differ by at most flag_change, and are within
  /// the limit.
  bool steady(std::size_t round) const;
  /// Whether a round counts: it was steady, or fewer than half of the rounds were and all of them count.
  bool counts(std::size_t round) const;

  std::vector<std::size_t> sizes() const;  ///< of the first series; all have the same
  Spread time(const Series& series, std::size_t bytes) const;
  /// The i-th of extra_names().
  Spread extra(const Series& series, std::size_t bytes, std::size_t i) const;
  /// Peer / tutti, formed within each round: above 1, tutti is faster. Of a series that is `against` one.
  Spread ratio(const Series& peer, std::size_t bytes) const;
  /// For one of tutti's series, which `against` of the peers names.
  Best best(int ours, std::size_t bytes) const;
  double bus_bandwidth(const Series& series, std::size_t bytes) const;  ///< GB/s, of the median time
};

void print_table(const Comparison& what, std::FILE* to);
void print_csv(const Comparison& what, std::FILE* to);
void print_json(const Comparison& what, std::FILE* to);
void print_svg(const Comparison& what, std::FILE* to);
void print_plot(const Comparison& what, std::FILE* to);  ///< of characters, for a terminal

}  // namespace tutti::bench
