// Letters of other hosts about ranks and hosts, as the doctor reads them, and the diagnosis that follows.
#include "collectives/doctor/letter.hpp"

#include "collectives/doctor/clocks.hpp"
#include "collectives/doctor/diagnosis.hpp"
#include "tests/fuzz/door.hpp"

namespace tutti::fuzz {

bool take(Input input) {
  constexpr doctor::Time now = 1'700'000'000'000'000'000;
  std::vector<doctor::Patient> patients;
  std::vector<doctor::AskedHost> hosts;
  const bool refused = refuses([&] { patients.push_back(doctor::read_patient(text_of(input))); });
  const bool no_host = refuses([&] { hosts.push_back(doctor::read_host(text_of(input))); });
  if (!refused) {
    const std::string letter = doctor::letter_of(patients.front(), RecordedRank::records_in_ring);
    expect(!refuses([&] { doctor::read_patient(letter); }), "a letter that was read is refused when it is sent on");
    patients.push_back(patients.front());
    patients.back().recording.host += "2";
    doctor::align(patients, doctor::clocks_of(patients, {}));
  }
  if (!no_host)
    expect(!refuses([&] { doctor::read_host(letter_of(hosts.front())); }), "a host that was read is refused");
  for (const char c : doctor::diagnose(patients, now, doctor::usual_patience, hosts).paragraph())
    expect(static_cast<unsigned char>(c) >= ' ', "a diagnosis of several lines");
  return !refused || !no_host;
}

}  // namespace tutti::fuzz
