// Directory: where the other ranks listen.
#pragma once

#include <string>
#include <vector>

#include "transports/tcp/endpoint.hpp"
#include "tutti/provider/texts.hpp"

namespace tutti::tcp {

/// The endpoints of the ranks, as text. An endpoint is parsed when it is needed.
class Directory {
 public:
  Directory() = default;
  /// `texts`: by rank; empty if the rank is not known.
  explicit Directory(Texts texts) : texts_(std::move(texts)) {}
  /// The endpoints of some of `size` ranks.
  Directory(int size, const std::vector<Endpoint>& endpoints);

  bool knows(int rank) const {
    return rank >= 0 && static_cast<std::size_t>(rank) < texts_.size() && !texts_.own(rank).empty();
  }
  /// Throws Error{protocol} if it cannot be read; the rank must be known.
  Endpoint operator[](int rank) const { return Endpoint::parse(rank, texts_.own(rank), texts_.shared(rank)); }
  /// Throws Error{protocol} if this version cannot read the addresses of some host.
  void check() const;
  /// True if all known ranks are on the host of `self`.
  bool stays_on_the_host_of(const Endpoint& self) const;

 private:
  Texts texts_;
};

}  // namespace tutti::tcp
