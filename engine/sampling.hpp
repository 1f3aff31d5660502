// What a configuration means to the loader: which samples a rank sees, and what is done to each.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "engine/config.hpp"
#include "engine/data/dataset.hpp"
#include "engine/data/sampler.hpp"
#include "engine/data/source.hpp"
#include "engine/data/transform.hpp"

namespace tutti::engine {

/// The number of `name` among `names`. Throws Error{invalid} for another one, naming the key.
std::size_t place_of(std::string_view key, std::string_view name, std::initializer_list<std::string_view> names);

/// With batch.micro or grains: into how many micro-batches a step is cut, over all ranks; else 0.
std::size_t cuts_of(const Config& config, int ranks);

/// Of one of `size` ranks. Throws as Sampler does.
Sampler sampler_for(const Config& config, int rank, int size, const Dataset& data);

std::vector<Transform> transforms_for(const Config& config, const DataSplit& data);

}  // namespace tutti::engine
