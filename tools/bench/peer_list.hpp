// PeerList: the libraries that tutti can be compared with here, and how each is started.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/request.hpp"
#include "tools/bench/variants.hpp"

namespace tutti::bench {

struct Peer {
  std::string name;     ///< "openmpi", or as --peer says
  std::string family;   ///< of Families; "" until a named peer is compiled
  std::string program;  ///< what runs as a rank; "" until it is compiled
  std::string launcher;
  std::string compiler;     ///< mpicxx of a named peer
  Environment environment;  ///< of a named peer
  std::string missing;      ///< why this one is not here, as a clause
};

/// A peer with its settings, ready to be run.
struct Selection {
  std::string label;    ///< "openmpi:best"
  std::string version;  ///< what the library says of itself
  Peer peer;
  Family family;
  Variant variant;
  /// What a rank's program is told, and with what around it. `full`: with the variant's settings.
  Command command(int ranks, const std::vector<std::string>& words, bool full) const;
};

class PeerList {
 public:
  /// Reads what was built, the file of settings and --peer. Throws Error{invalid} for a --peer or a --versus that
  /// cannot be meant: whatever can be told without starting anything.
  explicit PeerList(const Request& request);

  /// The names of --versus, and the named peers that it leaves out.
  const std::vector<std::string>& chosen() const noexcept { return chosen_; }

  /// Compiles it where that has not been done, and asks it for its version. Throws Error saying why it cannot be run
  /// and what to do.
  Selection select(const std::string& chosen) const;

  /// For people: every peer, whether it is here, and its variants.
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

/// Compiles a named peer, unless the cache has it already, and returns the program's path. Throws Error.
std::string compile_peer(const Peer& peer, bool verbose);

}  // namespace tutti::bench
