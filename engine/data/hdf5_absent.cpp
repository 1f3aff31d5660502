// In the place of hdf5.cpp where there is no HDF5 library.
#include "engine/data/kinds.hpp"

namespace tutti::engine {

DataSplit open_hdf5(const Source& source) {
  source.refuse("this tutti was built without HDF5: install libhdf5-dev and build it again");
}

}  // namespace tutti::engine
