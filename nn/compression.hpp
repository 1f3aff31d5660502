// Compression: sends gradients in fewer bytes; each rank ends with an approximation of their mean.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nn/encoding.hpp"
#include "nn/exchange.hpp"
#include "nn/module.hpp"

namespace tutti::nn {

/// The gradients of one bucket, all of one element type.
struct FlatBucket {
  at::Tensor gradients;  ///< (count): the parameters' gradients one after the other
  /// each parameter's name and its gradient, a view into `gradients`, in the same order
  std::vector<NamedTensor> parts;
};

/// The compression of one bucket, with the state that it keeps between steps. One thread at a time.
///
/// In each step GradientSync calls start() once, when this rank's gradients are in the bucket. Then it calls advance()
/// each time the started collectives are done, until advance() returns true. The gradients already include this rank's
/// weight (GradientSync::weight). A parameter without a gradient has a gradient of zero.
class Codec {
 public:
  virtual ~Codec() = default;

  /// Starts the first collectives. Called on autograd's thread while backward is running, or by finish().
  virtual void start(Exchange& exchange) = 0;

  /// Returns true when the bucket's gradients hold the mean, bitwise equal on all ranks; false when it has started more
  /// collectives.
  virtual bool advance(Exchange& exchange) = 0;

  /// This rank's tensors that later steps depend on, named by parameter ("fc1.weight.error"). The tensors are borrowed;
  /// copying values into them restores the state.
  virtual std::vector<NamedTensor> state() const { return {}; }
};

/// The shapes and the element type of a bucket's parameters, for Compression::bytes().
struct BucketShape {
  std::vector<std::vector<std::int64_t>> shapes;
  std::int64_t width = 4;  ///< bytes per element
  std::int64_t count() const;
};

/// A kind of compression, the same on all ranks. To add one, derive from this class and from Codec.
class Compression {
 public:
  virtual ~Compression() = default;

  /// Makes the codec of one bucket. The bucket's tensors are those of the GradientSync, and `exchange` is used by this
  /// bucket only. Collective.
  virtual std::unique_ptr<Codec> codec(const FlatBucket& bucket, Exchange& exchange) const = 0;

  virtual std::string describe() const = 0;  ///< "f16", "PowerSGD of rank 2"

  /// Bytes that a rank passes to collectives per step for a bucket, from the formula of the compression; -1 if there is
  /// none.
  virtual std::int64_t bytes(const BucketShape& bucket, std::int64_t ranks) const {
    static_cast<void>(bucket), static_cast<void>(ranks);
    return -1;
  }
};

/// Rounds gradients to f16 or bf16 for the allreduce. Gradients with elements of at most two bytes are not converted.
/// f16 overflows above 65504. Throws Error{invalid} for any other `wire`.
std::shared_ptr<const Compression> cast_compression(DType wire);

/// Sends the largest `part` of each bucket's elements by magnitude, at least one, in an allgather. The elements that
/// were not sent, times `feedback`, are added to the next step's gradients (error feedback). Throws Error{invalid}
/// unless 0 < part <= 1.
///
///   bytes passed to the allgather per rank and bucket: k (width + 4), rounded up to 8, with k = ceil(part count)
///
/// Stich et al., "Sparsified SGD with Memory", NeurIPS 2018.
std::shared_ptr<const Compression> top_k_compression(double part, double feedback = 1);

struct PowerSgdOptions {
  std::int64_t rank = 2;    ///< r of the two factors that are sent instead of a gradient matrix; at least 1
  double least_saving = 1;  ///< a matrix is compressed if that makes it more than this many times smaller; 0: always
  std::uint64_t seed = 1;   ///< seed of the initial factors Q; the same on all ranks
  double feedback = 1;      ///< the fraction of the approximation error that is added to the next step's gradient
};

/// Sends a gradient of n rows (its first dimension) and m columns as two factors, (n, r) and (m, r); a bucket has one
/// allreduce for each of the two. The factor Q starts as that of the last step (warm start), and the approximation
/// error is added to the next step's gradient (error feedback). Gradients with one dimension are sent uncompressed.
/// Results are bitwise equal on ranks with the same type of processor.
///
///   elements passed to allreduce: (n + m) r for each matrix, with r = min(rank, n, m)
///
/// Vogels, Karimireddy and Jaggi, "PowerSGD", NeurIPS 2019.
std::shared_ptr<const Compression> power_sgd_compression(const PowerSgdOptions& options = {});

/// Sends gradients in an encoding. The error of the encoding, times `feedback`, is added to the next step's gradients;
/// throws Error{invalid} unless 0 <= feedback <= 1. If Encoding::block() > 0 this is an allreduce: an alltoall of
/// encoded blocks, a fold in f32 (f64 for f64 gradients), and an allgather of the means of the blocks, which are
/// encoded a second time. Otherwise it is an allgather of the encoded buckets.
///
///   bytes passed to collectives per rank and bucket, with p ranks and b the encoded bytes of a block of
///   encoded_block() values: (p + 1) b for the allreduce, in which a rank sends 2 (p - 1) b to others; the encoded
///   bucket for the allgather.
///
/// Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014; Tang et al., "DoubleSqueeze", ICML 2019.
std::shared_ptr<const Compression> encoded_compression(EncodingPtr encoding, double feedback = 1);

/// Values per block if `count` values are divided among `ranks`, rounded up to a multiple of `scale`.
std::int64_t encoded_block(std::int64_t count, std::int64_t ranks, std::int64_t scale);

struct MaskOptions {
  double part = 0.005;  ///< fraction of a bucket's values that a step sends, above 0 and at most 1; at least one value
  std::uint64_t seed = 1;    ///< seed of the permutations; the same on all ranks
  double feedback = 1;       ///< the fraction of the values not sent that is added to the next step's gradients
  bool keep_others = false;  ///< true: values not sent stay as they are (for parameters); false: they become 0
};

/// Averages a different set of mask_size() values in each step, the same set on all ranks. The sets are consecutive
/// slices of a permutation that is drawn from the seed, so every value is sent once in ceil(1 / part) steps.
///
///   elements passed to allreduce: mask_size(), or the rest of the permutation in its last slice
///
/// SPARTA (Baioumy and Cheema 2025).
std::shared_ptr<const Compression> mask_compression(const MaskOptions& options);
std::int64_t mask_size(std::int64_t count, double part);

}  // namespace tutti::nn
