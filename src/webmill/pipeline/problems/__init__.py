"""Everything that went wrong in a collection, in any stage, grouped by cause: one collector for the command, the pages,
`status` and `doctor`.

    report = collect_problems(root)
    report.groups        # the most serious first; each has examples, a count of the rest, and what to do

Everything is read and nothing is changed. Memory and work have a bound whatever lies there: each group keeps a few
examples, each stage a number of groups, and files are read up to a number of bytes; counts beyond that
are lower bounds.
"""

from webmill.pipeline.problems.collect import collect_problems, count_problems
from webmill.pipeline.problems.retry import RetryResult, retry_problem
from webmill.pipeline.problems.types import ProblemExample, ProblemGroup, ProblemReport

__all__ = [
    "ProblemExample",
    "ProblemGroup",
    "ProblemReport",
    "RetryResult",
    "collect_problems",
    "count_problems",
    "retry_problem",
]
