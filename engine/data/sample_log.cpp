#include "engine/data/sample_log.hpp"

#include <unistd.h>

#include <string>
#include <system_error>

#include "transports/core/host.hpp"
#include "tutti/status.hpp"

namespace tutti::engine {

SampleLog::SampleLog(const std::filesystem::path& folder)
    : file_(folder / (host_name() + "-" + std::to_string(::getpid()) + ".csv")) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  const bool goes_on = std::filesystem::exists(file_, failed);
  out_.open(file_, std::ios::app);
  if (!goes_on) out_ << "commit,epoch,step,samples\n" << std::flush;
  if (!out_) throw Error(Code::resource, file_.string() + ": cannot be written: name another folder by report.samples");
}

void SampleLog::step(std::int64_t commit, std::size_t epoch, std::size_t step, std::span<const SampleId> samples) {
  std::string line = std::to_string(commit) + "," + std::to_string(epoch) + "," + std::to_string(step) + ",";
  for (std::size_t i = 0; i < samples.size(); ++i) line += (i > 0 ? " " : "") + std::to_string(samples[i]);
  out_ << line << "\n" << std::flush;
  if (!out_) throw Error(Code::resource, file_.string() + ": cannot be written: see whether the disk is full");
}

}  // namespace tutti::engine
