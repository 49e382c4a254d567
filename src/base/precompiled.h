// What most sources include of the standard library; compiled once. Sources still include what they use.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <format>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

// Inline functions of <format> (which <ostream>, and so <complex>, includes) make every source instantiate
// the whole machinery, half a second each. libstdc++ has these instances in its shared library, but declares
// them so for C++20 only.
#if defined(_GLIBCXX_RELEASE) && _GLIBCXX_RELEASE == 16
namespace std::__format {
extern template _Sink_iter<char> __do_vformat_to<char, 1>(_Sink_iter<char>, string_view, format_context&);
extern template _Sink_iter<wchar_t> __do_vformat_to<wchar_t, 1>(_Sink_iter<wchar_t>, wstring_view,
                                                                wformat_context&);
}  // namespace std::__format
#endif

#include "base/fail.h"
