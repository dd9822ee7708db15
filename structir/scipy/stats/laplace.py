"""The Laplace distribution."""

from structir.numpy.elementwise import where
from structir.numpy.reals import exp, log
from structir.scipy.stats.derived import exponential, located
from structir.tracing.array import TracedArray


def _share_below(z: TracedArray, width: TracedArray) -> TracedArray:
    tail = exp(-abs(z)) / 2
    return where(z <= 0, tail, 1 - tail)


logpdf = located("logpdf", lambda z, width: -(abs(z) + log(2 * width)))
pdf = exponential("pdf", logpdf)
cdf = located("cdf", _share_below)
