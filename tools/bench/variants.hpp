// Variants: with which settings a peer is run, as the file of settings (peers/variants.yaml) says.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/bench/subprocess.hpp"

namespace tutti::bench {

struct Variant {
  std::string about;
  Environment environment, crowded;  ///< crowded: with more ranks than cores
  std::int64_t from = 0;             ///< bytes; below, the peer runs without `environment`
  std::string transport;             ///< of tutti, to compare with
};

struct Family {
  std::string title;
  std::string transport = "shm";
  Environment always, crowded;  ///< as of Variant
  std::map<std::string, Variant> variants;
};

using Families = std::map<std::string, Family>;

/// Adds what the file says to `families`. Throws Error{invalid} naming the file and the line.
void read_variants(const std::string& file, Families& families);

/// share/tutti/bench beside the folder of this program, in the build folder as where it is installed.
std::string share_folder();

}  // namespace tutti::bench
