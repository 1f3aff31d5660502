#include "engine/data/formats/image_file.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>

#include "transports/core/checked.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {
namespace {

constexpr std::size_t longest_side = 1'000'000;  // pixels

/// The weights, with sum 1, of the input pixels from `first` on that make up one output pixel.
struct Mix {
  std::size_t first = 0;
  std::vector<float> weights;
  std::size_t end() const noexcept { return first + weights.size(); }
};

/// The weights for output pixel `i` when `from` input pixels become `to` output pixels.
Mix mix_of(std::size_t i, std::size_t from, std::size_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(scale, 1.0);
  const double centre = (static_cast<double>(i) + 0.5) * scale;
  const double begin = std::max(centre - reach + 0.5, 0.0),
               end = std::min(centre + reach + 0.5, static_cast<double>(from));
  Mix mix{static_cast<std::size_t>(begin), {}};
  double total = 0;
  for (std::size_t j = mix.first; j < static_cast<std::size_t>(end); ++j) {
    const double weight = std::max(1 - std::abs(static_cast<double>(j) + 0.5 - centre) / reach, 0.0);
    mix.weights.push_back(static_cast<float>(weight));
    total += weight;
  }
  for (float& weight : mix.weights) weight = static_cast<float>(weight / total);
  return mix;
}

}  // namespace

/// Resizes each row to the new width and then adds it to the output rows to which it contributes, which are few and
/// consecutive.
class Canvas::Resizing {
 public:
  Resizing(std::size_t from_height, std::size_t from_width, const Canvas& canvas)
      : from_height_(from_height),
        to_height_(canvas.height_),
        channels_(canvas.channels_),
        narrowed_(canvas.width_ * channels_),
        done_(canvas.width_ * channels_) {
    for (std::size_t x = 0; x < canvas.width_; ++x) columns_.push_back(mix_of(x, from_width, canvas.width_));
  }

  /// Takes row `y` and calls `put(row, pixels)` for each output row that is complete with it.
  template <class Put>
  void take(std::size_t y, const std::uint8_t* pixels, Put&& put) {
    narrow(pixels);
    while (next_ < to_height_ && (open_.empty() || !open_.back().begins_after(y))) {
      open_.push_back({mix_of(next_++, from_height_, to_height_), std::vector<float>(narrowed_.size())});
    }
    for (Row& row : open_) {
      if (row.begins_after(y)) continue;
      const float weight = row.mix.weights[y - row.mix.first];
      for (std::size_t i = 0; i < narrowed_.size(); ++i) row.sums[i] += weight * narrowed_[i];
    }
    while (!open_.empty() && open_.front().mix.end() == y + 1) {
      for (std::size_t i = 0; i < done_.size(); ++i)
        done_[i] = static_cast<std::uint8_t>(std::clamp(std::lround(open_.front().sums[i]), 0L, 255L));
      put(next_ - open_.size(), done_.data());
      open_.pop_front();
    }
  }

 private:
  struct Row {
    Mix mix;
    std::vector<float> sums;
    bool begins_after(std::size_t y) const noexcept { return mix.first > y; }
  };

  void narrow(const std::uint8_t* pixels) {
    std::ranges::fill(narrowed_, 0.0F);
    for (std::size_t x = 0; x < columns_.size(); ++x) {
      const std::uint8_t* from = pixels + columns_[x].first * channels_;
      for (const float weight : columns_[x].weights)
        for (std::size_t c = 0; c < channels_; ++c)
          narrowed_[x * channels_ + c] += weight * static_cast<float>(*from++);
    }
  }

  const std::size_t from_height_, to_height_, channels_;
  std::vector<Mix> columns_;
  std::vector<float> narrowed_;
  std::vector<std::uint8_t> done_;
  std::deque<Row> open_;
  std::size_t next_ = 0;  // the output row after those that are open or complete
};

Canvas::Canvas(std::size_t channels, std::size_t height, std::size_t width)
    : channels_(channels), resizes_(height > 0), height_(height), width_(width) {}

Canvas::~Canvas() = default;

void Canvas::begin(std::size_t height, std::size_t width) {
  if (!resizes_) {
    height_ = height;
    width_ = width;
  }
  if (height_ != height || width_ != width) resizing_ = std::make_unique<Resizing>(height, width, *this);
  planes_.resize(height_ * width_ * channels_);
}

void Canvas::row(const std::uint8_t* pixels) {
  const std::size_t y = next_++;
  if (resizing_)
    resizing_->take(y, pixels, [&](std::size_t row, const std::uint8_t* done) { put(row, done); });
  else
    put(y, pixels);
}

/// Converts interleaved channels to one plane per channel.
void Canvas::put(std::size_t y, const std::uint8_t* pixels) {
  for (std::size_t c = 0; c < channels_; ++c) {
    std::uint8_t* const out = planes_.data() + (c * height_ + y) * width_;
    for (std::size_t x = 0; x < width_; ++x) out[x] = pixels[x * channels_ + c];
  }
}

Array Canvas::finish() {
  return Array(std::move(planes_), {static_cast<std::int64_t>(channels_), static_cast<std::int64_t>(height_),
                                    static_cast<std::int64_t>(width_)});
}

void check_pixels(std::size_t height, std::size_t width, bool whole, std::size_t most, const ReadLimits& limits) {
  const std::string size = std::to_string(height) + "x" + std::to_string(width) + " pixels";
  if (height == 0 || width == 0) throw Error(Code::invalid, "has no pixels");
  if (height > longest_side || width > longest_side)
    throw Error(Code::invalid, "has " + size + ", and a side may have " + std::to_string(longest_side));
  if (!checked_product(height, width, most))
    throw Error(Code::invalid, "says that it has " + size + ", more than it has bytes for; fetch it again");
  const std::size_t allowed = whole ? limits.max_pixels / 4 : limits.max_pixels;
  if (!checked_product(height, width, allowed))
    throw Error(Code::invalid,
                "has " + size + ", more than the " + std::to_string(allowed) + " that " +
                    (whole ? "an image may have that is progressive, interlaced or not resized" : "an image may have") +
                    ": raise data.max_pixels if that is right");
}

Array read_image(const std::filesystem::path& file, std::size_t channels, std::size_t height, std::size_t width,
                 const ReadLimits& limits) {
  const MappedFile mapped = map_file(file);
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(mapped.memory.get()), mapped.bytes);
  const auto begins = [&](std::initializer_list<std::uint8_t> magic) {
    return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
  };
  const bool jpeg = begins({0xff, 0xd8});
  if (!jpeg && !begins({0x89, 'P', 'N', 'G'})) refuse(file, "is neither a JPEG nor a PNG file");
  Canvas canvas(channels, height, width);
  try {
    (jpeg ? decode_jpeg : decode_png)(bytes, limits, canvas);
  } catch (const Error& error) {
    refuse(file, error.what());
  }
  return canvas.finish();
}

}  // namespace tutti::engine
