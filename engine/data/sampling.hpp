// The sampler and the transforms that a configuration describes.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "engine/config.hpp"
#include "engine/data/data_split.hpp"
#include "engine/data/dataset.hpp"
#include "engine/data/sampler.hpp"
#include "engine/data/transform.hpp"

namespace tutti::engine {

/// The index of `name` in `names`. Throws Error{invalid} with the key for another name.
std::size_t place_of(std::string_view key, std::string_view name, std::initializer_list<std::string_view> names);

/// The number of micro-batches per step over all ranks, if batch.micro or deterministic=membership sets one; else 0.
std::size_t cuts_of(const Config& config, int ranks);

/// The sampler of rank `rank` of `size`. Throws as Sampler does.
Sampler sampler_for(const Config& config, int rank, int size, const Dataset& data);

std::vector<Transform> transforms_for(const Config& config, const DataSplit& data);

}  // namespace tutti::engine
