// Cases and models as work for two programs of rlx: the same words, files and values for both.
#pragma once

#include "cli/bench_subjects.h"
#include "measure/beside.h"

namespace rlx::cli {

// `subject` and `peer` must outlive the result.
//
// A case is the text of its graph and a file of values, so that a program that does not have the case
// measures the same work. States and encoded weights have no values in files: a case with these goes by its
// name if the peer has it too. Of the others, states stay zero on both sides, and encoded weights are
// refused, as is a case with another length in each run.
measure::RlxSubject rlx_subject(const BenchSubject& subject, const BenchOptions& o,
                                const measure::RlxProgram& peer);

}  // namespace rlx::cli
