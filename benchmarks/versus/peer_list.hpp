// PeerList: the libraries that tutti can be compared with, and how each is started.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/versus/variants.hpp"
#include "tools/bench/request.hpp"

namespace tutti::bench {

struct Peer {
  std::string name;     ///< "openmpi", or the name given by --peer
  std::string family;   ///< key of Families; empty until a named peer is compiled
  std::string program;  ///< the program of a rank; empty until it is compiled
  std::string launcher;
  std::string compiler;     ///< the mpicxx of a named peer
  Environment environment;  ///< variables of a named peer
  std::string missing;      ///< why the peer is not available, as a clause
};

/// A peer with its settings, ready to be run.
struct Selection {
  std::string label;    ///< "openmpi:best"
  std::string version;  ///< as the library reports it
  Peer peer;
  Family family;
  Variant variant;
  /// The command that starts a job whose ranks get the arguments `words`. `full` adds the variant's settings.
  Command command(int ranks, const std::vector<std::string>& words, bool full) const;
};

class PeerList {
 public:
  /// Reads the list of built peers, the file of settings and --peer. Throws Error{invalid} for a wrong --peer or
  /// --versus, as far as that can be found out without starting a program.
  explicit PeerList(const Request& request);

  /// The names given by --versus, and the peers named by --peer that --versus does not mention.
  const std::vector<std::string>& chosen() const noexcept { return chosen_; }

  /// Compiles the peer if necessary, and asks it for its version. Throws Error that says why it cannot be run and what
  /// to do.
  Selection select(const std::string& chosen) const;

  /// A list for the user: every peer, the reason if it is not available, and its variants.
  std::string describe() const;

 private:
  const Peer* find(const std::string& name) const;
  void add_built();
  void add_named(const std::string& spec);
  void check(const std::string& chosen) const;

  bool verbose_;
  Families families_;
  std::vector<Peer> peers_;
  std::vector<std::string> chosen_;
};

/// Compiles a named peer unless the cache has it, and returns the program's path. Throws Error.
std::string compile_peer(const Peer& peer, bool verbose);

}  // namespace tutti::bench
