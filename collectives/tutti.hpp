// tutti: collectives with pluggable transports. This is the one header that programs include.
#pragma once

#include "collectives/api/communicator.hpp"
#include "collectives/mesh/mesh.hpp"
#include "transports/core/collective.hpp"
#include "transports/core/log.hpp"
#include "transports/core/store.hpp"
