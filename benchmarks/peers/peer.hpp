// The common part of the peers' programs. A peer is another library that `tutti bench --versus` measures; its program
// is one rank.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/measure.hpp"

namespace tutti::bench {

/// A peer's program is started as one rank by the library's own launcher. Its arguments are a sweep (words_of() in
/// sweep.hpp) and `board=PATH`; "then" begins another sweep. Rank 0 prints csv (lines.hpp); an error is a line on
/// stderr. With the one argument "about" and no launcher, it prints "FAMILY: VERSION", where FAMILY is a key of
/// variants.yaml.
struct Task {
  std::vector<Sweep> sweeps;  ///< one after the other
  std::string board;
};

/// The body of a peer's main(). `about` returns the version; `work` does a rank's part and returns the exit code.
int peer_main(int count, char** words, const char* family, std::string (*about)(), int (*work)(const Task&));

/// Measures and prints; `work` calls it once the library is initialised. Returns the exit code: 1 for wrong results, 2
/// if the library lacks the call (1 and 2 on all ranks), 3 for a failure that other ranks may not know of.
int measure_peer(Implementation& peer, const Task& task);

}  // namespace tutti::bench
