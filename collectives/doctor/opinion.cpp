#include "collectives/doctor/opinion.hpp"

#include <unistd.h>

#include <algorithm>
#include <exception>

#include "collectives/doctor/words.hpp"

#include "transports/core/ticks.hpp"

namespace tutti::doctor {
namespace {

using Kind = Finding::Kind;

constexpr std::size_t most_text = 900;

bool says_more(Kind kind) noexcept {
  return kind != Kind::failed && kind != Kind::healthy && kind != Kind::slow && kind != Kind::outside &&
         kind != Kind::connecting;
}

/// Cuts the text after a sentence, and says where the rest is.
std::string shortened(std::string text, const std::string& recorder) {
  if (text.size() <= most_text) return text;
  const std::size_t end = text.rfind(". ", most_text);
  text.resize(end == text.npos ? most_text : end + 1);
  const bool has_files = recorder.find('/') != recorder.npos;
  return text + " `tutti doctor " + (has_files ? recorder : std::to_string(::getpid())) + "` says the rest" +
         (has_files ? "." : " while this process lives.");
}

}  // namespace

Time real_now() noexcept { return static_cast<Time>(real_time()); }

std::vector<Patient> patients_of(const std::string& job, int file, Look how) {
  std::vector<Patient> patients = patients_in(file);
  for (Patient& one : patients) one.source = "/proc/self/fd/" + std::to_string(file);
  if (patients.size() < 2)
    for (FoundJob& found : find_jobs())
      if (found.name == job) patients = std::move(found.patients);
  look_at(patients, how);
  return patients;
}

std::string opinions(const std::string& which, Time patience) {
  std::string text;
  for (FoundJob& job : find_jobs(which)) {
    look_at(job.patients, Look::at_places);
    text += (text.empty() ? "job " : "\n\njob ") + job.name + ": " +
            diagnose(job.patients, real_now(), patience).paragraph();
  }
  return text;
}

std::string last_sentence(const std::string& job, int file, const std::string& recorder, Time patience) noexcept {
  try {
    const Diagnosis found = diagnose(patients_of(job, file, Look::at_state), real_now(), patience);
    return says_more(found.finding.kind) ? shortened(found.paragraph(), recorder) : std::string();
  } catch (const std::exception&) {  // for example out of memory: the error is told without it
    return {};
  }
}

std::string last_words(int file, std::size_t slot) noexcept {
  try {
    const auto recording = read_recording(file, slot);
    if (!recording || recording->stage == Stage::ended || recording->calls.empty()) return {};
    const std::vector<Patient> dead = {{*recording, Patient::Life::gone}};
    return end_text(Job(dead, real_now(), usual_patience), recording->rank);
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace tutti::doctor
