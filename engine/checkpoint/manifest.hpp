// Manifest: the files of a checkpoint with their sizes and checksums, by which a damaged one is told from a whole one.
#pragma once

#include <filesystem>
#include <map>
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
/// checkpoint of an earlier tutti has no manifest; its files have
/// to be such that they can be read.
void verify_checkpoint(const std::filesystem::path& folder, bool sums);

/// Returns one line that names the checkpoint and its damage, or an empty text if it is whole. Any exception while it
/// is read counts as damage, also a lack of memory.
std::string fault_of(const std::filesystem::path& folder, bool sums);

}  // namespace tutti::engine
