// tutti: collectives with pluggable transports. This is the one header that programs include.
#pragma once

#include "tutti/collective.hpp"
#include "tutti/communicator.hpp"
#include "tutti/log.hpp"
#include "tutti/mesh.hpp"
#include "tutti/store.hpp"
