// Checkpoints that ranks write together: equal shards, bounded copies, and one error for all.
#include "engine/checkpoint/shards.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <thread>

#include "engine/checkpoint/manifest.hpp"
#include "engine/checkpoint/saver.hpp"
#include "engine/checkpoint/stage.hpp"
#include "engine/checkpoint/state.hpp"
#include "engine/loop/together.hpp"
#include "tests/support/caught.hpp"
#include "tests/support/contents.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/worlds.hpp"

namespace tutti::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using tutti::testing::caught;
using tutti::testing::contents;
using tutti::testing::refusal;

void on_inproc(int size, const std::function<void(Communicator&)>& body) {
  tutti::testing::run_ranks(size, tutti::testing::test_settings("inproc"), body);
}

/// Tensors of several types and sizes, one of them empty, in two files.
std::vector<ShardedTensor> some_tensors() {
  return {{"model.safetensors", {"weight", DType::f32, {7, 11}}},
          {"model.safetensors", {"none", DType::f64, {0, 3}}},
          {"model.safetensors", {"count", DType::i64, {}}},
          {"model.safetensors", {"bytes", DType::u8, {13}}},
          {"optimizer.safetensors", {"weight.m", DType::f64, {7, 11}}},
          {"optimizer.safetensors", {"half", DType::f16, {5}}}};
}

std::size_t bytes_in(const ShardedTensor& tensor) {
  return std::accumulate(
      tensor.form.shape.begin(), tensor.form.shape.end(), size_of(tensor.form.dtype),
      [](std::size_t product, std::int64_t side) { return product * static_cast<std::size_t>(side); });
}

/// The value of byte `place` of tensor number `tensor`.
std::byte value(std::size_t tensor, std::size_t place) { return static_cast<std::byte>(31 * tensor + 7 * place + 1); }

StagedTensor staged_bytes(const std::string& name, const ShardedTensor& form, std::size_t tensor,
                          const ShardPiece& piece) {
  const bool whole = piece.bytes == bytes_in(form);
  return {name, form.form.dtype,
          whole ? form.form.shape : ArrayShape{static_cast<std::int64_t>(piece.bytes / size_of(form.form.dtype))},
          [tensor, piece](std::size_t begin, std::span<std::byte> into) {
            for (std::size_t i = 0; i < into.size(); ++i) into[i] = value(tensor, piece.begin + begin + i);
          }};
}

StagedFile shard_file(const std::vector<ShardedTensor>& tensors, std::size_t shard, std::size_t shards) {
  StagedFile file{shard_name(shard, shards), {}};
  for (const ShardPiece& piece : pieces_of(tensors, shard, shards))
    file.tensors.push_back(staged_bytes(tensors[piece.tensor].key(), tensors[piece.tensor], piece.tensor, piece));
  return file;
}

std::string a_state() {
  RunState state;
  state.step = state.batch = 8;
  return state.json();
}

TEST(Shards, AreOfEqualSizesAndHaveEveryByteOnce) {
  std::vector<ShardedTensor> tensors = some_tensors();
  for (const std::size_t shards : {1, 2, 3, 5, 8, 64, 1000, 8192}) {
    std::vector<std::size_t> next(tensors.size());
    std::size_t least = SIZE_MAX, most = 0;
    for (std::size_t shard = 0; shard < shards; ++shard) {
      std::size_t bytes = 0;
      for (const ShardPiece& piece : pieces_of(tensors, shard, shards)) {
        ASSERT_EQ(piece.begin, next[piece.tensor]) << shards;
        next[piece.tensor] += piece.bytes;
        bytes += piece.bytes;
        EXPECT_EQ(piece.bytes % size_of(tensors[piece.tensor].form.dtype), 0U);
      }
      least = std::min(least, bytes);
      most = std::max(most, bytes);
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) EXPECT_EQ(next[i], bytes_in(tensors[i])) << shards;
    EXPECT_LT(most - least, 16U) << shards;
  }
}

TEST(Shards, OfALargeModelAreAsLargeAsTheModelDividedByTheRanks) {
  std::vector<ShardedTensor> tensors;
  for (int layer = 0; layer < 96; ++layer)
    tensors.push_back({"model.safetensors", {"layer" + std::to_string(layer), DType::bf16, {12288, 49152 + layer}}});
  std::size_t total = 0;
  for (const ShardedTensor& each : tensors) total += bytes_in(each);
  for (const std::size_t shards : {64, 1024, 8192, 65536})
    for (const std::size_t shard : {std::size_t{0}, shards / 3, shards - 1}) {
      std::size_t bytes = 0;
      for (const ShardPiece& piece : pieces_of(tensors, shard, shards)) bytes += piece.bytes;
      EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(total) / static_cast<double>(shards), 16) << shards;
    }
  EXPECT_THAT(refusal([&] {
                pieces_of(std::vector<ShardedTensor>(4, {"a", {"b", DType::f64, {1LL << 59}}}), 0, 2);
              }),
              HasSubstr("more bytes than can be counted"));
}

TEST(Stage, HoldsATenthOfWhatItWrites) {
  const testing::TemporaryFolder temporary;
  const ShardedTensor form{"model.safetensors", {"weight", DType::f32, {3000, 1000}}};
  const std::size_t bytes = bytes_in(form);
  StagedFile file{"model.safetensors", {staged_bytes("weight", form, 0, {0, 0, bytes})}};
  Stage stage({std::move(file)}, bytes / 10);
  std::map<std::string, FileSum> sums;
  std::thread writer([&] { sums = stage.write(temporary.path(), {{"format", "pt"}}); });
  stage.fill();
  writer.join();
  EXPECT_EQ(stage.bytes(), bytes);
  EXPECT_LE(stage.peak(), bytes / 10);
  EXPECT_GT(stage.peak(), 0U);
  const Safetensors read(fs::path(temporary.path()) / "model.safetensors");
  const SavedTensor& found = read.at("weight");
  EXPECT_EQ(found.shape, (ArrayShape{3000, 1000}));
  ASSERT_EQ(found.bytes.size(), bytes);
  for (std::size_t i = 0; i < bytes; i += 997) ASSERT_EQ(found.bytes[i], value(0, i)) << i;
  EXPECT_EQ(sums.at("model.safetensors").bytes, contents(fs::path(temporary.path()) / "model.safetensors").size());
}

TEST(Stage, ThatNobodyWritesOrThatCannotBeCopiedKeepsNobodyWaiting) {
  const testing::TemporaryFolder temporary;
  const ShardedTensor form{"a", {"b", DType::u8, {100'000}}};
  {
    Stage stage({StagedFile{"a", {staged_bytes("b", form, 0, {0, 0, 100'000})}}}, 1000);
    EXPECT_THAT(refusal([&] { stage.write(fs::path(temporary.path()) / "none", {}); }, Code::resource),
                HasSubstr("none/a"));
    stage.fill();
  }
  StagedTensor bad = staged_bytes("b", form, 0, {0, 0, 100'000});
  bad.copy = [](std::size_t, std::span<std::byte>) { throw Error(Code::internal, "the device is gone"); };
  Stage stage({StagedFile{"a", {bad}}}, 1000);
  std::thread filler([&] { EXPECT_THROW(stage.fill(), Error); });
  EXPECT_THAT(refusal([&] { stage.write(temporary.path(), {}); }, Code::resource), HasSubstr("could not be copied"));
  filler.join();
  EXPECT_TRUE(fs::is_empty(temporary.path()));
}

/// Writes a checkpoint of step 8 with a shard of each rank.
void write_shards(Communicator& world, const CheckpointStore& store) {
  const auto rank = static_cast<std::size_t>(world.rank()), ranks = static_cast<std::size_t>(world.size());
  const auto stage = std::make_shared<Stage>(std::vector<StagedFile>{shard_file(some_tensors(), rank, ranks)}, 1 << 20);
  RankFiles mine{.stage = stage, .metadata = {{"model", "mlp"}}, .texts = {}, .history = {}};
  if (rank == 0) mine.texts = {{RunState::file, a_state()}, {shards_file, shards_text(some_tensors(), ranks)}};
  stage->fill();
  write_together(world, store, 8, mine, true);
}

void expect_all_there(const fs::path& checkpoint) {
  const std::vector<ShardedTensor> tensors = some_tensors();
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    ASSERT_TRUE(has_arrays(checkpoint, file));
    const Fields arrays = arrays_of(checkpoint, file, true);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].file != file) continue;
      const Array& found = arrays[tensors[i].form.name];
      EXPECT_EQ(found.shape(), tensors[i].form.shape);
      ASSERT_EQ(found.byte_count(), bytes_in(tensors[i]));
      for (std::size_t at = 0; at < found.byte_count(); ++at) ASSERT_EQ(found.bytes()[at], value(i, at));
    }
  }
  EXPECT_FALSE(has_arrays(checkpoint, "ema.safetensors"));
  EXPECT_EQ(metadata_of(checkpoint, "model.safetensors").at("model"), "mlp");
}

TEST(Together, AnyNumberOfRanksWritesWhatAnyNumberReads) {
  for (const int size : {1, 2, 3, 8, 30}) {
    const testing::TemporaryFolder temporary;
    const fs::path folder = fs::path(temporary.path()) / "checkpoints";
    const CheckpointStore store(folder, 0, true);
    on_inproc(size, [&](Communicator& world) { write_shards(world, store); });
    EXPECT_EQ(store.last(), folder / "step-8");
    EXPECT_EQ(fault_of(folder / "step-8", true), "");
    on_inproc(3, [&](Communicator&) { expect_all_there(folder / "step-8"); });
    const auto entries = std::distance(fs::directory_iterator(folder / "step-8"), fs::directory_iterator());
    EXPECT_EQ(entries, size + 3) << "a shard of each rank, the state, the list of tensors and the manifest";
    fs::resize_file(folder / "step-8" / shard_name(0, static_cast<std::size_t>(size)), 20);
    EXPECT_THAT(fault_of(folder / "step-8", false), HasSubstr("has 20 bytes of"));
  }
}

TEST(Together, AFailureOfOneRankIsOneLineForAllAndTheOlderOneStays) {
  const testing::TemporaryFolder temporary;
  const fs::path folder = fs::path(temporary.path()) / "checkpoints";
  const CheckpointStore store(folder, 0, true);
  store.save(
      4, [](const fs::path& into) { std::ofstream(into / "file") << "older"; }, true);
  on_inproc(4, [&](Communicator& world) {
    // The folder that rank 2 looks at is not the one that rank 0 makes.
    const CheckpointStore mine(world.rank() == 2 ? fs::path(temporary.path()) / "elsewhere" : folder, 0, false);
    const Error error = caught([&] { write_shards(world, mine); });
    EXPECT_EQ(error.code(), Code::resource);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("rank 2: "), HasSubstr("elsewhere"), HasSubstr("all of them have to see")));
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  });
  EXPECT_EQ(store.last(), folder / "step-4");
  EXPECT_EQ(store.best(), folder / "step-4");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 3) << "step-4, last and best";
  on_inproc(2, [&](Communicator& world) { write_shards(world, store); });
  EXPECT_EQ(fault_of(folder / "step-8", true), "");
}

/// Flips a bit of the byte at the distance `from_end` from the file's end.
void flip(const fs::path& file, std::size_t from_end) {
  std::string bytes = contents(file);
  bytes[bytes.size() - from_end] = static_cast<char>(bytes[bytes.size() - from_end] ^ 4);
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

TEST(Shards, WithAFlippedBitAreRefused) {
  const testing::TemporaryFolder temporary;
  const fs::path folder = fs::path(temporary.path()) / "checkpoints", step = folder / "step-8";
  const CheckpointStore store(folder, 0, true);
  on_inproc(3, [&](Communicator& world) { write_shards(world, store); });
  flip(step / shard_name(0, 3), 3);  // damages the network
  const std::string shard = (step / shard_name(0, 3)).string();
  EXPECT_EQ(refusal([&] { arrays_of(step, "model.safetensors", true); }),
            shard + ": is damaged: its checksum is wrong");
  EXPECT_NO_THROW(arrays_of(step, "model.safetensors", false)) << "checksums are left out";
  flip(step / shard_name(0, 3), 3);
  flip(step / shard_name(2, 3), 3);  // damages the optimizer's state only
  EXPECT_NO_THROW(arrays_of(step, "model.safetensors", true));
  EXPECT_THAT(refusal([&] { arrays_of(step, "optimizer.safetensors", true); }), HasSubstr(shard_name(2, 3)));
  fs::remove(step / "manifest.json");
  EXPECT_NO_THROW(arrays_of(step, "optimizer.safetensors", true)) << "nothing tells";
}

// Files that a single rank writes have one checksum for the file, not one for each tensor.
TEST(Together, AFlippedBitInAFileOfARankIsFound) {
  const testing::TemporaryFolder temporary;
  const fs::path folder = fs::path(temporary.path()) / "checkpoints", step = folder / "step-8";
  const CheckpointStore store(folder, 0, true);
  on_inproc(1, [&](Communicator& world) {
    const ShardedTensor form{"model.safetensors", {"weight", DType::f32, {100}}};
    const auto stage = std::make_shared<Stage>(
        std::vector<StagedFile>{{"model.safetensors", {staged_bytes("weight", form, 0, {0, 0, 400})}}}, 1 << 20);
    stage->fill();
    write_together(world, store, 8, {.stage = stage, .metadata = {}, .texts = {{RunState::file, a_state()}}}, false);
  });
  EXPECT_NO_THROW(arrays_of(step, "model.safetensors", true));
  flip(step / "model.safetensors", 3);
  EXPECT_THAT(refusal([&] { arrays_of(step, "model.safetensors", true); }),
              HasSubstr("model.safetensors: is damaged: its checksum is wrong"));
  fs::resize_file(step / "model.safetensors", 100);
  EXPECT_THAT(refusal([&] { arrays_of(step, "model.safetensors", true); }), HasSubstr("has 100 bytes of"));
  // A file beside another program's manifest.json does not belong to a checkpoint.
  fs::remove(step / RunState::file);
  std::ofstream(step / "manifest.json", std::ios::trunc) << "[]";
  EXPECT_THAT(refusal([&] { arrays_of(step, "model.safetensors", true); }), Not(HasSubstr("manifest")));
}

// Rank 1's disk takes longer than the timeout of a call.
TEST(Together, ASlowDiskIsNoFailure) {
  const testing::TemporaryFolder temporary;
  const fs::path folder = fs::path(temporary.path()) / "checkpoints";
  const CheckpointStore store(folder, 0, true);
  Settings settings = tutti::testing::test_settings("inproc");
  settings.timeout = 0.5;
  tutti::testing::run_ranks(3, settings, [&](Communicator& world) {
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    write_shards(world, store);
  });
  EXPECT_EQ(fault_of(folder / "step-8", true), "");
}

TEST(Shards, ThatAreNotWhatTheirListSaysAreRefused) {
  const testing::TemporaryFolder temporary;
  const fs::path folder = fs::path(temporary.path()) / "checkpoints", step = folder / "step-8";
  const CheckpointStore store(folder, 0, true);
  on_inproc(2, [&](Communicator& world) { write_shards(world, store); });
  const std::string whole = contents(step / shards_file);
  const auto with = [&](const std::string& what, const std::string& by) {
    std::string text = whole;
    text.replace(text.find(what), what.size(), by);
    std::ofstream(step / shards_file, std::ios::trunc) << text;
    EXPECT_THAT(refusal([&] { arrays_of(step, "model.safetensors", true); }),
                HasSubstr((step / shards_file).string() + ": "))
        << "it is not what the manifest says";
    const std::string said = refusal([&] { arrays_of(step, "model.safetensors", false); });
    EXPECT_THAT(said, HasSubstr(step.string())) << by;
    return said;
  };
  EXPECT_THAT(with("\"shards\": 2", "\"shards\": 3"), HasSubstr("shard-0-of-3.safetensors"));
  for (const char* number : {"0", "-1", "2.5", "9999999999"})
    EXPECT_THAT(with("\"shards\": 2", std::string("\"shards\": ") + number), HasSubstr("number of shards")) << number;
  EXPECT_THAT(with("7,", "8,"), HasSubstr("is not the piece that shards.json asks for"));
  EXPECT_THAT(with("7,", "4611686018427387904,"), HasSubstr("more bytes than can be counted"));
  EXPECT_THAT(with("\"F32\"", "\"F31\""), HasSubstr("element type"));
  EXPECT_THAT(with("\"weight\"", "\"weights\""), HasSubstr("no tensor 'model.safetensors/weights'"));
  EXPECT_THAT(with("\"version\": 1", "\"version\": 2"), HasSubstr("another version"));
  EXPECT_THAT(with("\"file\"", "\"files\""), HasSubstr("no list of shards"));
}

}  // namespace
}  // namespace tutti::engine
