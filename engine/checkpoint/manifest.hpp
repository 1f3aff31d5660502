// Manifest: the sizes and checksums of a checkpoint's files, to detect a damaged checkpoint.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "engine/checkpoint/atomic_file.hpp"

namespace tutti::engine {

/// The size and checksum of each file in a checkpoint's folder, by the file's name; without manifest.json itself.
using Manifest = std::map<std::string, FileSum>;

/// Writes FOLDER/manifest.json, durably. Throws Error{resource}.
void write_manifest(const std::filesystem::path& folder, const Manifest& files);

/// Throws Error{invalid}, in one line, with the file and what is wrong, unless the checkpoint in `folder` is whole.
/// Whole means: `folder` is a folder and no link, with a state of a run that does not contradict itself. All files that
/// the manifest names are regular files with the size and, with `sums`, the checksum in the manifest. The history
/// beside `folder` has what the state refers to. A checkpoint of an earlier tutti has no manifest; its tensors must be
/// readable.
void verify_checkpoint(const std::filesystem::path& folder, bool sums);

/// Checks the files of a checkpoint against its manifest, each file when check() is first called for it. One thread.
class ListedFiles {
 public:
  /// A folder without a manifest, or without a checkpoint, has no listed files. Throws Error{invalid} if the manifest
  /// cannot be read.
  explicit ListedFiles(std::filesystem::path folder);

  /// Returns false if the manifest does not name the file. If it names the file, compares the file's size and checksum
  /// with the manifest: returns true if they are equal, else throws Error{invalid}, in one line, with what is wrong.
  bool check(const std::string& name);

 private:
  std::filesystem::path folder_;
  Manifest files_;
  std::set<std::string> checked_;
};

/// Returns one line that names the checkpoint and its damage, or an empty text if it is whole. Any exception during
/// reading counts as damage, even a lack of memory.
std::string fault_of(const std::filesystem::path& folder, bool sums);

}  // namespace tutti::engine
