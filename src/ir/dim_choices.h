// Dims in which minima are known to be one of their two dims: min(3,n) is n where n is at most 3.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rlx/shape.h"

namespace rlx {

// By the text of the minimum, which one it is.
using DimChoices = std::map<std::string, Dim, std::less<>>;

struct Minimum {
  std::string text;
  Dim a, b;
};

// Those in the dim, each once; one that is inside of another comes before it.
std::vector<Minimum> minima(const Dim& dim);

Dim choose(const Dim& dim, const DimChoices& choices);

// What the first few of these may be, in the order of how many are chosen, and numbers before symbols.
std::vector<DimChoices> choices_of(std::vector<Minimum> minima);

// The dim without the minima that are always the same one of their dims while no symbol is more than its
// capacity.
Dim within_capacities(const Dim& dim, const std::map<std::string, int64_t>& capacities);

}  // namespace rlx
