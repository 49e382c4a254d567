// What every test includes; compiled once for all of them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "cmake/precompiled.h"
#include "rlx/tensor.h"
