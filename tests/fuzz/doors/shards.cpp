// The list of tensors of a checkpoint whose files are intact: two shards of one tensor.
#include "engine/checkpoint/shards.hpp"

#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {
namespace {

namespace fs = std::filesystem;

fs::path make_shards() {
  const fs::path made = folder() / "step-8";
  fs::create_directory(made);
  const float numbers[] = {1, 2, 3, 4};
  for (const std::size_t shard : {0, 1}) {
    const engine::SavedTensor half{
        "model.safetensors/weight", DType::f32, {2}, std::as_bytes(std::span(numbers)).subspan(8 * shard, 8)};
    engine::write_safetensors(made / engine::shard_name(shard, 2), {&half, 1});
  }
  return made;
}

}  // namespace

bool take(Input input) {
  static const fs::path made = make_shards();
  write(made / engine::shards_file, input);
  return !refuses(
      [&] {
        std::size_t bytes = 0;
        const engine::Fields arrays = engine::arrays_of(made, "model.safetensors", true);
        for (const auto& [name, array] : arrays) bytes += array.byte_count();
        expect(bytes <= 16, "tensors have more bytes than the shards");
      },
      made.string());
}

}  // namespace tutti::fuzz
