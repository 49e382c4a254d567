// What a shared library of rlx shows to programs: the declarations between these two. All else is compiled
// hidden.
#pragma once

#if defined(__GNUC__)
#define RLX_EXPORT_BEGIN _Pragma("GCC visibility push(default)")
#define RLX_EXPORT_END _Pragma("GCC visibility pop")
#else
#define RLX_EXPORT_BEGIN
#define RLX_EXPORT_END
#endif
