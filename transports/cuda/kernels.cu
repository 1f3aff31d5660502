// Fold and scale kernels: grid-stride loops over vectors of 16 bytes, and the table of dtypes and ops.
#include "transports/cuda/kernels.hpp"

#include <algorithm>
#include <type_traits>

#include "transports/cuda/elements.cuh"

namespace tutti::cuda {
namespace {

constexpr int threads = 512;
constexpr std::size_t vector_bytes = 16;

template <class T>
struct alignas(vector_bytes) Pack {
  static constexpr int lanes = vector_bytes / sizeof(T);
  T at[lanes];
};

// The type of the arithmetic: float for f16 and bf16, otherwise the element's own.
template <class T>
using Wide = typename Computed<T>::type;

template <class T, class Operator>
__device__ Wide<T> folded(Wide<T> a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return Operator::integers(a, b);
  } else {
    return Operator::floats(a, static_cast<Wide<T>>(widened(b)));
  }
}

// Divides if requested, and rounds.
template <class T, bool divides>
__device__ T settled(Wide<T> value, double divisor) {
  if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    if constexpr (divides) value = over(value, static_cast<Wide<T>>(divisor));
    return narrowed<T>(value);
  }
}

template <class T>
__device__ void put(const FoldCall& call, std::size_t i, const T& value) {
  for (int place = 0; place < call.places; ++place) static_cast<T*>(call.into[place])[i] = value;
}

// Folds in the order of the sources.
template <class T, class Operator, bool divides>
__device__ void fold_element(const FoldCall& call, std::size_t i) {
  const auto element = [&](int source) { return static_cast<const T*>(call.sources[source])[i]; };
  Wide<T> sum = widened(element(0));
  for (int source = 1; source < call.count; ++source) sum = folded<T, Operator>(sum, element(source));
  put(call, i, settled<T, divides>(sum, call.divisor));
}

template <class T, class Operator, bool divides>
__device__ void fold_pack(const FoldCall& call, std::size_t i) {
  using P = Pack<T>;
  P pack = static_cast<const P*>(call.sources[0])[i];
  Wide<T> sums[P::lanes];
#pragma unroll
  for (int lane = 0; lane < P::lanes; ++lane) sums[lane] = widened(pack.at[lane]);
  for (int source = 1; source < call.count; ++source) {
    pack = static_cast<const P*>(call.sources[source])[i];
#pragma unroll
    for (int lane = 0; lane < P::lanes; ++lane) sums[lane] = folded<T, Operator>(sums[lane], pack.at[lane]);
  }
#pragma unroll
  for (int lane = 0; lane < P::lanes; ++lane) pack.at[lane] = settled<T, divides>(sums[lane], call.divisor);
  put(call, i, pack);
}

// The first `packs` vectors, then single elements: the rest, or everything if an address is not aligned.
template <class T, class Operator, bool divides>
__global__ void __launch_bounds__(threads) fold_kernel(const __grid_constant__ FoldCall call, std::size_t packs) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::size_t i = first; i < packs; i += stride) fold_pack<T, Operator, divides>(call, i);
  for (std::size_t i = packs * Pack<T>::lanes + first; i < call.elements; i += stride)
    fold_element<T, Operator, divides>(call, i);
}

template <class T>
__global__ void __launch_bounds__(threads) scale_kernel(ScaleCall call) {
  using C = typename Computed<T>::type;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const C factor = static_cast<C>(call.factor);
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < call.elements; i += stride)
    static_cast<T*>(call.into)[i] =
        narrowed<T>(times(static_cast<C>(widened(static_cast<const T*>(call.from)[i])), factor));
}

// Enough blocks to use every multiprocessor, and not more than there is work for.
int blocks_for(std::size_t items, int processors) {
  const std::size_t wanted = (items + threads - 1) / threads;
  return static_cast<int>(std::clamp<std::size_t>(wanted, 1, static_cast<std::size_t>(processors) * 4));
}

bool is_aligned(const FoldCall& call) {
  std::uintptr_t all = 0;
  for (int i = 0; i < call.places; ++i) all |= reinterpret_cast<std::uintptr_t>(call.into[i]);
  for (int i = 0; i < call.count; ++i) all |= reinterpret_cast<std::uintptr_t>(call.sources[i]);
  return all % vector_bytes == 0;
}

template <class T, class Operator>
cudaError_t launch(const FoldCall& call, int processors, cudaStream_t stream) {
  const std::size_t packs = is_aligned(call) ? call.elements / Pack<T>::lanes : 0;
  const int blocks = blocks_for(packs > 0 ? packs : call.elements, processors);
  if constexpr (!std::is_integral_v<T>) {
    if (call.divisor != 1.0) {
      fold_kernel<T, Operator, true><<<blocks, threads, 0, stream>>>(call, packs);
      return cudaGetLastError();
    }
  }
  fold_kernel<T, Operator, false><<<blocks, threads, 0, stream>>>(call, packs);
  return cudaGetLastError();
}

// ---- dispatch by dtype and op

// Signed integers use the unsigned versions of sum, product and bit operations.
template <class T>
cudaError_t fold_integers(Op op, const FoldCall& call, int processors, cudaStream_t stream) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case Op::sum: return launch<U, Sum>(call, processors, stream);
    case Op::prod: return launch<U, Prod>(call, processors, stream);
    case Op::min: return launch<T, Min>(call, processors, stream);
    case Op::max: return launch<T, Max>(call, processors, stream);
    case Op::band: return launch<U, Band>(call, processors, stream);
    case Op::bor: return launch<U, Bor>(call, processors, stream);
    case Op::bxor: return launch<U, Bxor>(call, processors, stream);
    default: return cudaErrorNotSupported;
  }
}

template <class T>
cudaError_t fold_floats(Op op, const FoldCall& call, int processors, cudaStream_t stream) {
  switch (op) {
    case Op::sum:
    case Op::avg:
    case Op::premul_sum: return launch<T, Sum>(call, processors, stream);
    case Op::prod: return launch<T, Prod>(call, processors, stream);
    case Op::min: return launch<T, Min>(call, processors, stream);
    case Op::max: return launch<T, Max>(call, processors, stream);
    default: return cudaErrorNotSupported;
  }
}

template <class T>
cudaError_t launch_scale(const ScaleCall& call, int processors, cudaStream_t stream) {
  scale_kernel<T><<<blocks_for(call.elements, processors), threads, 0, stream>>>(call);
  return cudaGetLastError();
}

}  // namespace

cudaError_t fold(DType dtype, Op op, const FoldCall& call, int processors, cudaStream_t stream) {
  switch (dtype) {
    case DType::i8: return fold_integers<std::int8_t>(op, call, processors, stream);
    case DType::u8: return fold_integers<std::uint8_t>(op, call, processors, stream);
    case DType::i16: return fold_integers<std::int16_t>(op, call, processors, stream);
    case DType::i32: return fold_integers<std::int32_t>(op, call, processors, stream);
    case DType::i64: return fold_integers<std::int64_t>(op, call, processors, stream);
    case DType::u16: return fold_integers<std::uint16_t>(op, call, processors, stream);
    case DType::u32: return fold_integers<std::uint32_t>(op, call, processors, stream);
    case DType::u64: return fold_integers<std::uint64_t>(op, call, processors, stream);
    case DType::f16: return fold_floats<__half>(op, call, processors, stream);
    case DType::bf16: return fold_floats<__nv_bfloat16>(op, call, processors, stream);
    case DType::f32: return fold_floats<float>(op, call, processors, stream);
    case DType::f64: return fold_floats<double>(op, call, processors, stream);
  }
  return cudaErrorNotSupported;
}

cudaError_t scale(DType dtype, const ScaleCall& call, int processors, cudaStream_t stream) {
  switch (dtype) {
    case DType::f16: return launch_scale<__half>(call, processors, stream);
    case DType::bf16: return launch_scale<__nv_bfloat16>(call, processors, stream);
    case DType::f32: return launch_scale<float>(call, processors, stream);
    case DType::f64: return launch_scale<double>(call, processors, stream);
    default: return cudaErrorNotSupported;
  }
}

}  // namespace tutti::cuda
