// The names that other libraries give to the tensors of a network.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace tutti::engine {

/// Names in torchvision.models, by the names here, for the model `model` of model_table() with the tensors `names`:
/// alexnet, resnet18, resnet50, vgg16 without normalisation, and googlenet with it, some of whose filters have another
/// size there. Empty for other networks, which torchvision does not have. Throws Error{invalid} for a tensor that the
/// model does not have.
std::map<std::string, std::string> torchvision_names(std::string_view model, std::span<const std::string> names);

}  // namespace tutti::engine
