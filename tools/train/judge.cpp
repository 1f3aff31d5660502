#include "tools/train/judge.hpp"

#include <ATen/Functions.h>
#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "engine/checkpoint/atomic_file.hpp"
#include "engine/checkpoint/saver.hpp"
#include "engine/data/tensors.hpp"
#include "engine/loop/all_or_none.hpp"

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

/// Returns the class that a sample's outputs predict.
std::int64_t class_of(const at::Tensor& outputs, const engine::LossInfo& loss) {
  if (outputs.numel() > 1) return outputs.argmax().item<std::int64_t>();
  const double threshold = loss.output == engine::LossInfo::Output::probabilities ? 0.5 : 0;
  return outputs.item<double>() > threshold ? 1 : 0;
}

void write_table(const at::Tensor& outputs, const engine::Config& config, bool has_classes, const fs::path& file) {
  if (outputs.dim() != 2)
    engine::refuse("the network has more than a row of outputs for a sample: say --to FILE.safetensors");
  const engine::LossInfo& loss = engine::loss_info(config.loss);
  const at::Tensor rows = outputs.to(at::kDouble).contiguous();
  engine::AtomicFile out(file);
  std::string line = has_classes ? "sample,class" : "sample";
  for (std::int64_t i = 0; i < rows.size(1); ++i) line += fmt::format(",output_{}", i);
  out.write(line + "\n");
  for (std::int64_t sample = 0; sample < rows.size(0); ++sample) {
    line = fmt::format("{}", sample);
    if (has_classes) line += fmt::format(",{}", class_of(rows[sample], loss));
    const double* const row = rows.data_ptr<double>() + sample * rows.size(1);
    for (std::int64_t i = 0; i < rows.size(1); ++i) line += fmt::format(",{:.9g}", row[i]);
    out.write(line + "\n");
  }
  out.commit();
}

}  // namespace

fs::path run_with(const fs::path& folder) {
  fs::path found = fs::path(folder.lexically_normal() / "").parent_path();
  for (int up = 0; up < 3; ++up, found = found.parent_path())
    if (fs::exists(found / "config.yaml")) return found.empty() ? fs::path(".") : found;
  engine::refuse(folder.string() + " " +
                 (fs::exists(folder) ? "is not of a run, as there is no config.yaml" : "does not exist") +
                 ": name the folder of a run, or one of its checkpoints, RUN/checkpoints/step-N");
}

void only_judge(engine::Config& config, const std::string& folder) {
  const engine::Config none;
  config.run = "none";
  config.model.from = folder;
  config.model.strict = true;
  config.strategy = none.strategy;
  config.checkpoint = none.checkpoint;
  config.pretrain = none.pretrain;
  config.deterministic = none.deterministic;
  config.batch.grains = 0;
  config.data.last = none.data.last;
  config.data.remainder = none.data.remainder;
  config.stop = none.stop;
  config.sync.batch_norm = false;
  config.optimizer.ema = 0;
  config.report.trace = 0;
  config.report.loss_file.clear();
  config.check();
}

void print_validation(engine::Trainer& trainer, const Communicator& world) {
  const engine::Validation found = trainer.validate();
  if (world.rank() != 0) return;
  std::string line = fmt::format("held-out loss {:.6g}", found.loss);
  for (const auto& [name, value] : found.metrics)
    line += engine::is_share(name) ? fmt::format("  {} {:.2f} %", name, 100 * value)
                                   : fmt::format("  {} {:.6g}", name, value);
  fmt::print("{}\n", line);
}

void write_predictions(engine::Trainer& trainer, const engine::Config& config, const engine::DataSplit& data,
                       const fs::path& file, Communicator& world) {
  const at::Tensor outputs = trainer.predict();
  engine::all_or_none(world, [&] {
    if (world.rank() != 0) return;
    if (file.extension() == ".safetensors")
      engine::write_arrays(file, {{"outputs", engine::to_array(outputs)}}, {{"format", "pt"}});
    else
      write_table(outputs, config, data.classes > 0, file);
    fmt::print("what the network says of {} held-out samples is in {}\n", outputs.size(0), file.string());
  });
}

}  // namespace tutti::tools
