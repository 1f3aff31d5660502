// Keys and flags of other trainers that are no aliases here, because they have another meaning or form.
#include <algorithm>

#include "engine/config/tables.hpp"

namespace tutti::engine {
namespace {

struct Foreign {
  std::string_view words;   ///< with `_` for `-`, separated by blanks
  std::string_view advice;  ///< what to use here instead
};

constexpr Foreign foreign_keys[] = {
    {"accumulate_grad_batches gradient_accumulation_steps",
     "batch.micro=N, the most samples that a rank takes at once; their gradients are added up to those of "
     "batch.global"},
    {"devices num_nodes num_processes nproc_per_node gpus",
     "-np N for so many ranks on this host, or start tutti train by a launcher"},
    {"accelerator master_gpu max_gpus", "device=auto, cpu or cuda"},
    {"ckpt_path restore resume_from_checkpoint load_checkpoint", "--resume DIR, the folder of the run"},
    {"fast_dev_run", "steps=1, or --dry-run"},
    {"overfit_batches limit_train_batches", "steps=N, which ends training after so many"},
    {"val_check_interval", "validate.every_steps=N, in steps"},
    {"limit_val_batches", "validate.limit=N, in samples"},
    {"check_val_every_n_epoch",
     "validate.every_steps=N, which counts steps; without it each epoch ends in a validation"},
    {"enable_checkpointing save_top_k every_n_epochs", "checkpoint.every_epochs=N and checkpoint.keep=N"},
    {"enable_progress_bar verbose log_level log_every_n_steps", "progress=on, off or none"},
    {"profiler profile do_profile", "report.trace=N, which keeps what all ranks do in the first N steps"},
    {"callbacks early_stopping early_stopping_patience",
     "stop.patience=N, with stop.monitor=loss or a metric, and stop.min_delta"},
    {"easgd", "strategy=easgd"},
    {"trial_name experiment_name", "run=DIR, the folder that the run is kept in"},
    {"worker_optimizer_params optimizer_params", "optimizer.KEY=VALUE for each of them, as in optimizer.momentum=0.9"},
    {"features_name labels_name", "data=hdf5:TRAIN,TEST,features=NAME,labels=NAME"},
    {"cache_data", "data=hdf5:TRAIN,TEST,cache=DIR"},
    {"thread_validation", "nothing: validation needs no thread"},
    {"checkpoint", "run=DIR and checkpoint.every_epochs=N"},
    {"log_file", "run=DIR, whose metrics.csv and event files are written meanwhile"},
    {"tf torch theano backend", "nothing: there is one"},
};

}  // namespace

std::string plain_key(std::string_view key) {
  std::string plain(key);
  std::ranges::replace(plain, '-', '_');
  return plain;
}

std::string_view advice_for(std::string_view key) {
  for (const Foreign& each : foreign_keys)
    for (const std::string_view word : words(each.words))
      if (plain_key(key) == word) return each.advice;
  return {};
}

}  // namespace tutti::engine
