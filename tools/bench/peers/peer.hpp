// What all peers' programs share: a rank of a library that is measured, told what to do by `tutti bench`.
#pragma once

#include <string>

#include "tools/bench/measure.hpp"

namespace tutti::bench {

/// A peer's program is started as one rank, by the library's own launcher, with the words of a sweep (sweep.hpp) and
/// `board=PATH`. Rank 0 prints csv (lines.hpp), and on stderr one line where something failed. With the one word
/// "about" and no launcher it prints "FAMILY: VERSION", where FAMILY is a name of variants.yaml.
struct Task {
  Sweep sweep;
  std::string board;
};

/// The body of a peer's main(): `about` gives the version, `work` does a rank's part and returns the exit code.
int peer_main(int count, char** words, const char* family, std::string (*about)(), int (*work)(const Task&));

/// Measures and prints; to be called by `work` once the library is up. Returns the exit code: 1 for wrong results, 2
/// for what the library cannot do (both on all ranks), 3 for a failure of which other ranks may not know.
int measure_peer(Implementation& peer, const Task& task);

}  // namespace tutti::bench
