// The manifest of a checkpoint whose other files are intact. In an input, @FILE stands for the size and the checksum of
// that file.
#include <fstream>

#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/safetensors.hpp"
#include "engine/checkpoint/state.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {
namespace {

namespace fs = std::filesystem;

struct Checkpoint {
  fs::path folder;
  std::map<std::string, std::string> entries;  ///< key: the text that stands for it in an input
};

std::string entry(const engine::FileSum& sum) {
  return "\"bytes\": " + std::to_string(sum.bytes) + ", \"crc32\": " + std::to_string(sum.crc32);
}

Checkpoint make_checkpoint() {
  Checkpoint made{folder() / "step-8", {}};
  fs::create_directory(made.folder);
  engine::RunState state;
  state.step = state.batch = 8;
  const std::string text = state.json();
  std::ofstream(made.folder / engine::RunState::file) << text;
  made.entries["@state.json"] = entry({text.size(), engine::crc32_of(std::as_bytes(std::span(text)))});
  const float numbers[] = {1, 2, 3, 4};
  const engine::SavedTensor tensor{"weight", DType::f32, {2, 2}, std::as_bytes(std::span(numbers))};
  made.entries["@model.safetensors"] =
      entry(engine::write_safetensors(made.folder / "model.safetensors", {&tensor, 1}));
  return made;
}

}  // namespace

bool take(Input input) {
  static const Checkpoint checkpoint = make_checkpoint();
  std::string text(text_of(input));
  for (const auto& [word, sum] : checkpoint.entries)
    for (std::size_t at = 0; (at = text.find(word, at)) != text.npos; at += sum.size())
      text.replace(at, word.size(), sum);
  write(checkpoint.folder / "manifest.json", {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  return !refuses([&] { engine::verify_checkpoint(checkpoint.folder, true); }, checkpoint.folder.string());
}

}  // namespace tutti::fuzz
