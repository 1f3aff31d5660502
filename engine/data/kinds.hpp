// The kinds of data that `data=` can name: how each is opened. What they are is in the table of source.cpp.
#pragma once

#include "engine/data/source.hpp"

namespace tutti::engine {

DataSplit open_idx(const Source& source);
DataSplit open_random(const Source& source);

}  // namespace tutti::engine
