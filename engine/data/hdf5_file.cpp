#include "engine/data/hdf5_file.hpp"

#include <hdf5.h>

#include <functional>
#include <mutex>
#include <utility>

#include "engine/data/files.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

static_assert(sizeof(hid_t) == sizeof(std::int64_t));

/// Holds the library's lock and suppresses its error output.
class Turn {
 public:
  Turn() : lock_(mutex()) {
    H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Turn() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex only;
    return only;
  }
  std::lock_guard<std::recursive_mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
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

/// The names in a group, sorted.
std::vector<std::string> names_in(hid_t group) {
  std::vector<std::string> names;
  H5G_info_t about{};
  if (H5Gget_info(group, &about) < 0) return names;
  for (hsize_t i = 0; i < about.nlinks; ++i) {
    const ssize_t length = H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, nullptr, 0, H5P_DEFAULT);
    if (length < 0) continue;
    std::string name(static_cast<std::size_t>(length), '\0');
    H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(), name.size() + 1, H5P_DEFAULT);
    names.push_back(std::move(name));
  }
  return names;
}

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

}  // namespace

Hdf5File::Hdf5File(std::filesystem::path file) : file_(std::move(file)) {
  const Turn turn;
  if (!std::filesystem::exists(file_)) refuse(file_, "no such file");
  id_ = H5Fopen(file_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (id_ < 0) refuse(file_, "is no whole HDF5 file, or cannot be read; fetch it again");
}

Hdf5File::~Hdf5File() {
  const Turn turn;
  for (const auto& [path, id] : datasets_) H5Dclose(id);
  H5Fclose(id_);
}

/// Datasets stay open, because HDF5 keeps a chunk cache per open dataset.
std::int64_t Hdf5File::dataset(const std::string& path) const {
  if (const auto found = datasets_.find(path); found != datasets_.end()) return found->second;
  const hid_t id = H5Dopen2(id_, path.c_str(), H5P_DEFAULT);
  if (id < 0) refuse(file_, "dataset '" + path + "' cannot be opened; the file is corrupt, fetch it again");
  return datasets_[path] = id;
}

void Hdf5File::collect(const std::string& path, std::vector<Hdf5Column>& found) const {
  const Id object(H5Oopen(id_, path.c_str(), H5P_DEFAULT), H5Oclose);
  if (H5Iget_type(object) == H5I_GROUP) {
    for (const std::string& name : names_in(object)) collect(path + "/" + name, found);
    return;
  }
  Hdf5Column column{path, {}, {}};
  const hid_t id = dataset(path);
  const Id type(H5Dget_type(id), H5Tclose), space(H5Dget_space(id), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 1) refuse(file_, "dataset '" + path + "' is one value: expected a row for each sample");
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space, dims.data(), nullptr);
  column.shape.assign(dims.begin(), dims.end());
  if (!dtype_of_type(type, column.dtype))
    refuse(file_, "dataset '" + path + "' does not hold numbers of up to 8 bytes");
  found.push_back(std::move(column));
}

std::vector<Hdf5Column> Hdf5File::columns(const std::string& name) const {
  const Turn turn;
  if (H5Oexists_by_name(id_, name.c_str(), H5P_DEFAULT) <= 0) {
    const Id root(H5Gopen2(id_, "/", H5P_DEFAULT), H5Gclose);
    std::string list;
    for (const std::string& each : names_in(root)) list += (list.empty() ? "'" : ", '") + each + "'";
    refuse(file_, "has no dataset '" + name + "'; there is " + (list.empty() ? "nothing" : list));
  }
  std::vector<Hdf5Column> found;
  collect(name, found);
  if (found.empty()) refuse(file_, "group '" + name + "' is empty");
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
