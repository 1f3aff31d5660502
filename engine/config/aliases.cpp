// Other names of options, as other trainers have them.
#include "engine/config.hpp"

namespace tutti::engine {
namespace {

constexpr OptionAlias aliases[] = {
    {"hidden", "model.hidden"},
    {"lr", "optimizer.lr"},
    {"learning_rate", "optimizer.lr"},
    {"momentum", "optimizer.momentum"},
    {"elastic-lr", "optimizer.lr"},
    {"elastic-momentum", "optimizer.momentum"},
    {"weight_decay", "optimizer.weight_decay"},
    {"lr_step", "schedule.milestones"},
    {"gamma", "schedule.gamma"},
    {"sync.every", "strategy.every"},
    {"sync_every", "strategy.every"},
    {"sync_steps", "strategy.every"},
    {"sync_freq", "strategy.every"},
    {"avg_freq", "strategy.every"},
    {"local_sgd_steps", "strategy.every"},
    {"num_fragments", "strategy.fragments"},
    {"fragment_sync_delay", "strategy.delay"},
    {"fragment_update_alpha", "strategy.alpha"},
    {"should_quantize", "strategy.codec"},
    {"min_replica_size", "strategy.quorum"},
    {"synchronous", "strategy.members"},
    {"masters", "strategy.masters"},
    {"processes", "strategy.processes"},
    {"sync-every", "strategy.every"},
    {"elastic_force", "strategy.elastic_force"},
    {"elastic-force", "strategy.elastic_force"},
    {"server_alpha", "strategy.elastic"},
    {"worker_alpha", "strategy.elastic_here"},
    {"gem-lr", "strategy.outer_lr"},
    {"gem-momentum", "strategy.outer_momentum"},
    {"gem-kappa", "strategy.kappa"},
    {"p_sparta", "strategy.mask"},
    {"sync.compression", "strategy.codec"},
    {"sync.top_k", "strategy.top_k"},
    {"sync.power_rank", "strategy.power_rank"},
    {"sync.least_saving", "strategy.least_saving"},
    {"sync.reorder", "strategy.reorder"},
    {"sync.scale_lr", "strategy.scale_lr"},
};

}  // namespace

std::span<const OptionAlias> option_aliases() noexcept { return aliases; }

}  // namespace tutti::engine
