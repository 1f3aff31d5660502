// Variants: the settings with which a peer is run, from a file of settings (peers/variants.yaml).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "benchmarks/versus/subprocess.hpp"

namespace tutti::bench {

struct Variant {
  std::string about;
  Environment environment, crowded;  ///< crowded: if there are more ranks than cores
  std::int64_t from = 0;             ///< bytes; smaller sizes run without the variant's settings
  std::string transport;             ///< transport of tutti to compare with
};

struct Family {
  std::string title;
  std::string transport = "shm";
  Environment always, crowded;  ///< `always` applies to all variants; crowded as in Variant
  std::map<std::string, Variant> variants;
};

using Families = std::map<std::string, Family>;

/// Adds the contents of a file to `families`. Throws Error{invalid} naming the file and the line.
void read_variants(const std::string& file, Families& families);

/// The folder share/tutti/bench beside the folder of this program. It exists in a build folder as well as installed.
std::string share_folder();

}  // namespace tutti::bench
