// Directory: where the other ranks listen.
#pragma once

#include <string>
#include <vector>

#include "transports/tcp/endpoint.hpp"
#include "tutti/provider/texts.hpp"

namespace tutti::tcp {

/// The endpoints of the ranks as they told them, read only when one is needed.
class Directory {
 public:
  Directory() = default;
  /// By rank; an empty text: not known.
  explicit Directory(Texts texts) : texts_(std::move(texts)) {}
  /// Those of some of `size` ranks.
  Directory(int size, const std::vector<Endpoint>& endpoints);

  bool knows(int rank) const {
    return rank >= 0 && static_cast<std::size_t>(rank) < texts_.size() && !texts_.own(rank).empty();
  }
  /// Throws Error{protocol} if it cannot be read; the rank must be known.
  Endpoint operator[](int rank) const { return Endpoint::parse(rank, texts_.own(rank), texts_.shared(rank)); }
  /// Throws Error{protocol} if the ranks of a host write their addresses as this version does not.
  void check() const;
  /// True if all known ranks are on the host of `self`.
  bool stays_on_the_host_of(const Endpoint& self) const;

 private:
  Texts texts_;
};

}  // namespace tutti::tcp
