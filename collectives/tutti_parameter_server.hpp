// tutti's parameter server, beside tutti.hpp for programs that want one.
#pragma once

#include "collectives/parameter_server/parameter_server.hpp"
