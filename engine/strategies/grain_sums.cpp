#include "engine/strategies/grain_sums.hpp"

#include <ATen/ops/sub.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "nn/tensor.hpp"

namespace tutti::engine::exchange {

void GrainSum::add(const GrainSum& other) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < sections.size(); ++i) sections[i].values.add_(other.sections[i].values);
}

GrainTensors::GrainTensors(const Replica& replica) : tensor_device_(replica.tensor_device) {
  for (const auto& [name, tensor] : replica.parameters)
    if (tensor.requires_grad()) parameters_.push_back(placed(tensor, {}));
  for (const auto& [name, tensor] : replica.buffers)
    if (tensor.is_floating_point()) buffers_.push_back(placed(tensor, tensor.clone()));
}

GrainTensors::Item GrainTensors::placed(const at::Tensor& tensor, const at::Tensor& before) {
  const auto found = std::ranges::find(types_, tensor.scalar_type());
  const auto section = static_cast<std::size_t>(found - types_.begin());
  if (found == types_.end()) {
    types_.push_back(tensor.scalar_type());
    elements_.push_back(0);
    marks_.push_back(0);
  }
  const Item item{
      .tensor = tensor, .before = before, .section = section, .offset = elements_[section], .mark = marks_[section]};
  elements_[section] += tensor.numel();
  ++marks_[section];
  return item;
}

GrainSum GrainTensors::make() {
  if (!spare_.empty()) {
    GrainSum sum = std::move(spare_.back());
    spare_.pop_back();
    return sum;
  }
  GrainSum sum;
  for (std::size_t i = 0; i < types_.size(); ++i) {
    GrainSum::Section section;
    const std::int64_t all = elements_[i] + marks_[i];
    const auto count = static_cast<std::size_t>(all);
    section.memory = tensor_device_->scratch(count * c10::elementSize(types_[i]));
    section.values = tensor_device_->tensor(section.memory, 0, {all}, types_[i]);
    section.buffer = Buffer(section.memory.get(), count, nn::dtype_of(section.values), tensor_device_->where());
    sum.sections.push_back(std::move(section));
  }
  return sum;
}

at::Tensor GrainTensors::marks(const GrainSum& sum, std::size_t section) const {
  return sum.sections[section].values.narrow(0, elements_[section], marks_[section]);
}

at::Tensor GrainTensors::part(const GrainSum& sum, const Item& item) const {
  return sum.sections[item.section].values.narrow(0, item.offset, item.tensor.numel()).view(item.tensor.sizes());
}

void GrainTensors::begin_step() {
  const at::NoGradGuard no_grad;
  forget_gradients();
  if (!given_.sections.empty()) give_back(std::exchange(given_, {}));
  for (Item& each : buffers_) each.before.copy_(each.tensor);
}

void GrainTensors::forget_gradients() {
  for (Item& each : parameters_) each.tensor.mutable_grad() = at::Tensor();
}

GrainSum GrainTensors::take() {
  const at::NoGradGuard no_grad;
  GrainSum sum = make();
  const auto mark = [&](const Item& item, bool there) {
    marks(sum, item.section).select(0, item.mark).fill_(there ? 1 : 0);
  };
  for (Item& each : parameters_) {
    const at::Tensor& gradient = each.tensor.grad();
    at::Tensor into = part(sum, each);
    mark(each, gradient.defined());
    if (!gradient.defined())
      into.zero_();
    else if (gradient.layout() == at::kStrided)
      into.copy_(gradient);
    else
      throw Error(Code::unsupported,
                  "deterministic=membership takes dense gradients: make an Embedding's sparse=false");
  }
  for (Item& each : buffers_) {
    const bool same = each.tensor.equal(each.before);
    at::Tensor into = part(sum, each);
    mark(each, !same);
    if (same) {
      into.zero_();
    } else {
      at::sub_out(into, each.tensor, each.before);
      each.tensor.copy_(each.before);
    }
  }
  return sum;
}

void GrainTensors::give(GrainSum sum, std::size_t grains) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> found;  // by section, on the host: nonzero for tensors with a gradient or change
  for (std::size_t i = 0; i < types_.size(); ++i) found.push_back(marks(sum, i).to(at::kCPU, at::kDouble));
  const auto there = [&](const Item& item) { return found[item.section].data_ptr<double>()[item.mark] > 0; };
  for (Item& each : parameters_) each.tensor.mutable_grad() = there(each) ? part(sum, each) : at::Tensor();
  for (Item& each : buffers_)
    if (there(each)) each.tensor.add_(part(sum, each).div_(static_cast<double>(grains)));
  given_ = std::move(sum);
}

}  // namespace tutti::engine::exchange
