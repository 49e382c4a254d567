// The commands of the program, each in its own file. A function here adds a command to the arguments;
// what it does runs when they are parsed.
#pragma once

#include "cli/arguments.h"

namespace rlx::cli {

void add_devices(Arguments& arguments);
void add_ops(Arguments& arguments);
void add_plan(Arguments& arguments);
void add_info(Arguments& arguments);
void add_compile(Arguments& arguments);
void add_run(Arguments& arguments);
void add_profile(Arguments& arguments);
void add_tune(Arguments& arguments);
void add_calibrate(Arguments& arguments);
void add_cost(Arguments& arguments);
void add_verify(Arguments& arguments);
void add_convert(Arguments& arguments);
void add_bench(Arguments& arguments);
void add_gpu_report(Arguments& arguments);
void add_conformance(Arguments& arguments);
void add_ocr(Arguments& arguments);
void add_transcribe(Arguments& arguments);
void add_splat(Arguments& arguments);
void add_spectrogram(Arguments& arguments);
void add_demo(Arguments& arguments);

}  // namespace rlx::cli
