// Manifest: the files of a checkpoint with their sizes and checksums, by which a damaged one is told from a whole one.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "engine/checkpoint/atomic_file.hpp"

namespace tutti::engine {

/// A checkpoint's files by their names, which are in its folder itself; manifest.json is not among them.
using Manifest = std::map<std::string, FileSum>;

/// Writes FOLDER/manifest.json, durably. Throws Error{resource}.
void write_manifest(const std::filesystem::path& folder, const Manifest& files);

/// Throws Error{invalid}, in one line, with the file and what is wrong, unless the checkpoint in `folder` is whole: a
/// folder, no link, with the state of a run that can be, and with all files, no links, that its manifest names, of the
/// sizes and, with `sums`, the checksums that it says; and unless the history beside it has what its state names. A
/// checkpoint of an earlier tutti has no manifest; its files have to be such that they can be read.
void verify_checkpoint(const std::filesystem::path& folder, bool sums);

/// The files that are read from a checkpoint, each of which is compared with the manifest, if there is one that names
/// it, when it is first asked about. One thread.
class ListedFiles {
 public:
  /// A folder without a manifest, or that has no checkpoint in it, has no listed files. Throws Error{invalid}.
  explicit ListedFiles(std::filesystem::path folder);

  /// Returns true if the manifest names the file, which then has the size and the checksum that it says. Throws
  /// Error{invalid}, in one line, with the file and what is wrong.
  bool check(const std::string& name);

 private:
  std::filesystem::path folder_;
  Manifest files_;
  std::set<std::string> checked_;
};

/// Returns one line that names the checkpoint and its damage, or an empty text if it is whole. Any exception while it
/// is read counts as damage, also a lack of memory.
std::string fault_of(const std::filesystem::path& folder, bool sums);

}  // namespace tutti::engine
