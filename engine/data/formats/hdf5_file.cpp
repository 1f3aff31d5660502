#include "engine/data/formats/hdf5_file.hpp"

#include <hdf5.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "engine/data/formats/trial.hpp"
#include "transports/core/checked.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

static_assert(sizeof(hid_t) == sizeof(std::int64_t));

/// Holds the library's lock, and turns HDF5's error output off. The output stays off, because after a corrupt file HDF5
/// also prints errors at the end of the process.
class Turn {
 public:
  Turn() : lock_(mutex()) { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

  /// Replaces the lock in a forked child, where a thread of the parent still holds it.
  static void begin_anew() { new (&mutex()) std::recursive_mutex; }

 private:
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex only;
    return only;
  }
  std::lock_guard<std::recursive_mutex> lock_;
};

/// An HDF5 identifier, closed by the destructor.
class Id {
 public:
  Id(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Id() {
    if (id_ >= 0) close_(id_);
  }
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  operator hid_t() const noexcept { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

constexpr int most_depth = 64;                // groups within one another
constexpr std::size_t most_objects = 10'000;  // groups and datasets that are visited
constexpr std::size_t tried_bytes = std::size_t{16} << 20;

/// The names in a group, sorted; at most most_objects + 1 of them.
std::vector<std::string> names_in(hid_t group) {
  std::vector<std::string> names;
  const auto add = [](hid_t /*group*/, const char* name, const auto* /*about*/, void* all) -> herr_t {
    auto& into = *static_cast<std::vector<std::string>*>(all);
    try {
      into.emplace_back(name);
    } catch (...) {
      return -1;
    }
    return into.size() > most_objects ? 1 : 0;
  };
  H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names);
  return names;
}

/// HDF5 calls this before it follows a link to another file. Stores that file's name and refuses.
herr_t forbid(const char* /*parent*/, const char* /*group*/, const char* file, const char* /*object*/,
              unsigned* /*flags*/, hid_t /*access*/, void* into) {
  try {
    *static_cast<std::string*>(into) = file;
  } catch (...) {  // then the error message does not name the file
  }
  return -1;
}

constexpr const char* say_more = "; fetch it again, or raise data.max_compression if that is right";
constexpr const char* say_external = ": say data.external_files=true if that is right";

/// Sets `dtype` to the element type for an HDF5 type. Returns false if there is none.
bool dtype_of_type(hid_t type, DType& dtype) {
  const std::size_t bytes = H5Tget_size(type);
  if (H5Tget_class(type) == H5T_FLOAT) {
    dtype = bytes <= 4 ? DType::f32 : DType::f64;
    return bytes <= 8;
  }
  // h5py stores booleans as an enum
  if (H5Tget_class(type) != H5T_INTEGER && H5Tget_class(type) != H5T_ENUM) return false;
  const bool unsigned_one = H5Tget_class(type) == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_NONE;
  if (bytes == 1)
    dtype = unsigned_one ? DType::u8 : DType::i8;
  else if (bytes == 2)
    dtype = unsigned_one ? DType::i32 : DType::i16;
  else
    dtype = bytes == 4 && !unsigned_one ? DType::i32 : DType::i64;
  return bytes <= 8;
}

hid_t memory_type(DType dtype) {
  switch (dtype) {
    case DType::i8: return H5T_NATIVE_INT8;
    case DType::u8: return H5T_NATIVE_UINT8;
    case DType::i16: return H5T_NATIVE_INT16;
    case DType::i32: return H5T_NATIVE_INT32;
    case DType::i64: return H5T_NATIVE_INT64;
    case DType::f32: return H5T_NATIVE_FLOAT;
    default: return H5T_NATIVE_DOUBLE;
  }
}

constexpr std::size_t least_chunk_cache = std::size_t{1} << 20;  // bytes, the default of HDF5

/// The chunks of a dataset.
struct Chunks {
  bool compressed = false;    // or changed by another filter, so that a chunk can be read only as a whole
  std::size_t rows = 0;       // rows in a chunk
  std::size_t along = 0;      // number of chunks along the first dimension
  std::size_t bytes = 0;      // of a chunk
  std::size_t row_bytes = 0;  // of all chunks that a row is in
};

/// nullopt for a dataset without chunks, or with impossible ones, which check_storage() refuses.
std::optional<Chunks> chunks_of(hid_t id) {
  const Id layout(H5Dget_create_plist(id), H5Pclose), type(H5Dget_type(id), H5Tclose),
      space(H5Dget_space(id), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space);
  if (H5Pget_layout(layout) != H5D_CHUNKED || rank < 1) return std::nullopt;
  std::vector<hsize_t> sides(static_cast<std::size_t>(rank)), chunk(sides.size());
  H5Sget_simple_extent_dims(space, sides.data(), nullptr);
  if (H5Pget_chunk(layout, rank, chunk.data()) != rank) return std::nullopt;
  std::size_t across = 1;
  for (std::size_t d = 0; d < chunk.size(); ++d) {
    if (chunk[d] == 0 || sides[d] > PTRDIFF_MAX) return std::nullopt;
    const auto product = checked_product(across, d == 0 ? 1 : std::size_t{(sides[d] + chunk[d] - 1) / chunk[d]});
    if (!product) return std::nullopt;
    across = *product;
  }
  const auto bytes = checked_product(H5Tget_size(type), std::vector<std::int64_t>(chunk.begin(), chunk.end()));
  const auto all = bytes ? checked_product(*bytes, across, PTRDIFF_MAX / 8) : std::nullopt;
  if (!all || *bytes == 0) return std::nullopt;
  return Chunks{.compressed = H5Pget_nfilters(layout) > 0,
                .rows = chunk[0],
                .along = (sides[0] + chunk[0] - 1) / chunk[0],
                .bytes = *bytes,
                .row_bytes = *all};
}

/// The number of places in a chunk cache's hash table: a prime, as HDF5 recommends, of about 100 places per chunk. So
/// few chunks share a place. Two chunks that share one evict each other.
std::size_t slots_for(std::size_t chunks) {
  constexpr std::size_t least = 521, most = std::size_t{1} << 18;  // places; the least is HDF5's own number
  const auto is_prime = [](std::size_t n) {
    for (std::size_t d = 3; d * d <= n; d += 2)
      if (n % d == 0) return false;
    return true;
  };
  std::size_t slots = std::clamp(std::min(chunks, most) * 100, least, most) | 1U;
  while (!is_prime(slots)) slots += 2;
  return slots;
}

}  // namespace

Hdf5File::Hdf5File(std::filesystem::path file, const ReadLimits& limits, std::size_t chunk_cache)
    : file_(std::move(file)), limits_(limits), chunk_cache_left_(chunk_cache) {
  const Turn turn;
  std::error_code failed;
  if (!std::filesystem::exists(file_, failed)) refuse(file_, "no such file");
  if (!std::filesystem::is_regular_file(file_, failed)) refuse(file_, "is no regular file");
  stored_ = std::filesystem::file_size(file_, failed);
  id_ = H5Fopen(file_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (id_ < 0) refuse(file_, "is no whole HDF5 file, or cannot be read; fetch it again");
  access_ = H5Pcreate(H5P_DATASET_ACCESS);
  if (!limits_.external_files) H5Pset_elink_cb(access_, forbid, &other_file_);
}

Hdf5File::~Hdf5File() {
  const Turn turn;
  for (const auto& [path, id] : datasets_) H5Dclose(id);
  H5Pclose(access_);
  H5Fclose(id_);
}

void Hdf5File::try_out(const std::filesystem::path& file, const ReadLimits& limits,
                       const std::vector<std::string>& names) {
  const Turn turn;
  try_in_child(file, "libhdf5", [&] {
    Turn::begin_anew();
    const Hdf5File opened(file, limits);
    for (const std::string& name : names) {
      const std::vector<Hdf5Column> columns = opened.columns(name);
      for (const Hdf5Column& column : columns) {
        const std::size_t row_bytes = checked_product(size_of(column.dtype), column.row_shape()).value_or(tried_bytes);
        const std::size_t share = tried_bytes / columns.size();
        opened.read(column, 0, std::min(column.rows(), 1 + share / std::max<std::size_t>(row_bytes, 1)));
      }
    }
  });
}

void Hdf5File::refuse_dataset(const std::string& path, const std::string& what) const {
  refuse(file_, "dataset '" + path + "' " + what);
}

/// Returns the open dataset. Datasets stay open, because HDF5 keeps a chunk cache per open dataset. The cache's size
/// depends on properties of the open dataset, so a dataset with chunks is opened twice.
std::int64_t Hdf5File::dataset(const std::string& path) const {
  if (const auto found = datasets_.find(path); found != datasets_.end()) return found->second;
  hid_t id = H5Dopen2(id_, path.c_str(), access_);
  if (id >= 0) {
    if (const Id access(access_to(id), H5Pclose); access >= 0) {
      H5Dclose(id);
      id = H5Dopen2(id_, path.c_str(), access);
    }
  }
  if (id < 0) refuse_dataset(path, "cannot be opened; the file is corrupt, fetch it again");
  return datasets_[path] = id;
}

/// The access properties, with a chunk cache, for opening a dataset with chunks; negative for any other dataset.
/// Without compression the cache is empty: HDF5 then reads the requested rows and not their whole chunks.
std::int64_t Hdf5File::access_to(std::int64_t id) const {
  const std::optional<Chunks> chunks = chunks_of(id);
  if (!chunks) return -1;
  Hdf5ChunkCache cache;
  if (chunks->compressed) {
    const std::size_t few = chunks->row_bytes * std::min<std::size_t>(chunks->along, 4);
    const std::size_t given = std::min(few, chunk_cache_left_);
    chunk_cache_left_ -= given;
    cache.bytes = std::max({given, chunks->row_bytes, least_chunk_cache});
    cache.slots = slots_for(cache.bytes / chunks->bytes);
  }
  const hid_t access = H5Pcopy(access_);
  H5Pset_chunk_cache(access, cache.slots, cache.bytes, H5D_CHUNK_CACHE_W0_DEFAULT);
  return access;
}

Hdf5ChunkCache Hdf5File::chunk_cache(const std::string& path) const {
  const Turn turn;
  const hid_t id = dataset(path);
  Hdf5ChunkCache found;
  double preemption = 0;
  const Id access(H5Dget_access_plist(id), H5Pclose);
  if (chunks_of(id)) H5Pget_chunk_cache(access, &found.slots, &found.bytes, &preemption);
  return found;
}

/// Throws if the header claims more data than is stored, because memory is allocated as the header says, and HDF5 1.10
/// reads beyond the end of a compact dataset.
void Hdf5File::check_storage(const Hdf5Column& column, std::int64_t id) const {
  const Id layout(H5Dget_create_plist(id), H5Pclose), type(H5Dget_type(id), H5Tclose);
  const bool elsewhere = H5Pget_layout(layout) == H5D_VIRTUAL || H5Pget_external_count(layout) > 0;
  if (elsewhere && !limits_.external_files)
    refuse_dataset(column.path, "has its data in other files" + std::string(say_external));
  const auto claimed = checked_product(H5Tget_size(type), column.shape);
  if (!claimed || !checked_product(size_of(column.dtype), column.shape))
    refuse_dataset(column.path, "has an impossible shape, " + describe(column.shape) + "; the file is corrupt");
  if (elsewhere) return;
  const std::size_t held = H5Dget_storage_size(id);
  std::size_t most = held;
  if (H5Pget_layout(layout) == H5D_CHUNKED) {
    std::vector<hsize_t> chunk(column.shape.size());
    H5Pget_chunk(layout, static_cast<int>(chunk.size()), chunk.data());
    const std::vector<std::int64_t> sides(chunk.begin(), chunk.end());
    const auto bytes = checked_product(H5Tget_size(type), sides);
    if (!bytes || *bytes > limits_.unpacked(stored_))
      refuse_dataset(column.path, "has chunks of " + describe(sides) + ", far more than the file stores" + say_more);
    most = limits_.unpacked(held);
  }
  if (held > stored_ || *claimed > most)
    refuse_dataset(column.path, "is said to be " + describe(column.shape) + ", " + std::to_string(*claimed) +
                                    " bytes, but " + std::to_string(std::min(held, stored_)) + " are stored" +
                                    say_more);
}

void Hdf5File::collect(const std::string& path, int depth, std::size_t& objects, std::vector<Hdf5Column>& found) const {
  if (depth > most_depth || ++objects > most_objects)
    refuse(file_, "group '" + path.substr(0, 80) + (path.size() > 80 ? "...'" : "'") + " has more than " +
                      (depth > most_depth ? std::to_string(most_depth) + " groups within one another"
                                          : std::to_string(most_objects) + " datasets") +
                      ": name a group or dataset within it, if it does not contain itself");
  other_file_.clear();
  const Id object(H5Oopen(id_, path.c_str(), access_), H5Oclose);
  if (object < 0 && !other_file_.empty()) refuse_dataset(path, "is in another file, " + other_file_ + say_external);
  if (H5Iget_type(object) == H5I_GROUP) {
    for (const std::string& name : names_in(object)) collect(path + "/" + name, depth + 1, objects, found);
    return;
  }
  Hdf5Column column{path, {}, {}, 0};
  const hid_t id = dataset(path);
  const Id type(H5Dget_type(id), H5Tclose), space(H5Dget_space(id), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 1) refuse(file_, "dataset '" + path + "' is one value: expected a row for each sample");
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space, dims.data(), nullptr);
  for (const hsize_t side : dims) {
    if (side > PTRDIFF_MAX) refuse_dataset(path, "has a side of " + std::to_string(side) + "; the file is corrupt");
    column.shape.push_back(static_cast<std::int64_t>(side));
  }
  if (!dtype_of_type(type, column.dtype))
    refuse(file_, "dataset '" + path + "' does not hold numbers of up to 8 bytes");
  check_storage(column, id);
  if (const auto chunks = chunks_of(id); chunks && chunks->compressed && chunks->rows > 1)
    column.chunk_rows = std::min(chunks->rows, column.rows());
  found.push_back(std::move(column));
}

std::vector<Hdf5Column> Hdf5File::columns(const std::string& name) const {
  const Turn turn;
  other_file_.clear();
  if (H5Oexists_by_name(id_, name.c_str(), access_) <= 0) {
    if (!other_file_.empty()) refuse_dataset(name, "is in another file, " + other_file_ + say_external);
    const Id root(H5Gopen2(id_, "/", H5P_DEFAULT), H5Gclose);
    std::string list;
    for (const std::string& each : names_in(root)) list += (list.empty() ? "'" : ", '") + each + "'";
    refuse(file_, "has no dataset '" + name + "'; there is " + (list.empty() ? "nothing" : list));
  }
  std::vector<Hdf5Column> found;
  std::size_t objects = 0;
  collect(name, 0, objects, found);
  if (found.empty()) refuse(file_, "group '" + name + "' is empty");
  // check_storage() has limited each dataset; all of them together have a limit, too.
  std::size_t left = limits_.unpacked(stored_);
  for (const Hdf5Column& column : found) {
    const auto bytes = checked_product(size_of(column.dtype), column.shape, left);
    if (!bytes && !limits_.external_files)
      refuse(file_, "the datasets of '" + name + "' are far more than the file stores" + std::string(say_more));
    left -= bytes.value_or(0);
  }
  return found;
}

Array Hdf5File::read(const Hdf5Column& column, std::size_t begin, std::size_t rows) const {
  const Turn turn;
  ArrayShape shape = column.shape;
  shape[0] = static_cast<std::int64_t>(rows);
  std::vector<hsize_t> start(shape.size()), counts(shape.begin(), shape.end());
  start[0] = begin;
  const hid_t id = dataset(column.path);
  const Id space(H5Dget_space(id), H5Sclose);
  const Id memory(H5Screate_simple(static_cast<int>(counts.size()), counts.data(), nullptr), H5Sclose);
  return Array::make(column.dtype, shape, [&](std::byte* into) {
    if (rows == 0) return;
    if (H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, counts.data(), nullptr) < 0 ||
        H5Dread(id, memory_type(column.dtype), memory, space, H5P_DEFAULT, into) < 0)
      refuse(file_, "dataset '" + column.path + "': rows " + std::to_string(begin) + " to " +
                        std::to_string(begin + rows - 1) + " cannot be read; the file is corrupt, fetch it again");
  });
}

namespace {

bool write_column(hid_t file, hid_t groups, const std::string& name, const Array& column) {
  const std::vector<hsize_t> shape(column.shape().begin(), column.shape().end());
  const Id space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose);
  const hid_t type = memory_type(column.dtype());
  const Id data(H5Dcreate2(file, name.c_str(), type, space, groups, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
  return data >= 0 && H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, column.bytes().data()) >= 0;
}

}  // namespace

void write_hdf5(const std::filesystem::path& file, const Fields& columns) {
  const Turn turn;
  const Id out(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  const Id groups(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  bool written = out >= 0 && H5Pset_create_intermediate_group(groups, 1) >= 0;
  for (const auto& [name, column] : columns) {
    const bool halves = column.dtype() == DType::f16 || column.dtype() == DType::bf16;
    written = written && write_column(out, groups, name, halves ? column.converted(DType::f32) : column);
  }
  if (!written || H5Fflush(out, H5F_SCOPE_LOCAL) < 0)
    throw Error(Code::resource, file.string() + ": cannot be written");
}

}  // namespace tutti::engine
