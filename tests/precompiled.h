// What every test includes; compiled once for all of them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "base/precompiled.h"
#include "rlx/executable.h"
#include "rlx/tensor.h"
