"""The normal distribution."""

import math

from structir.numpy.reals import log
from structir.scipy.special.entropy import log_ndtr
from structir.scipy.special.functions import ndtr, ndtri
from structir.scipy.stats.derived import exponential, located, quantile

HALF_LOG_TURN = math.log(2 * math.pi) / 2

logpdf = located("logpdf", lambda z, width: -(z * z) / 2 - log(width) - HALF_LOG_TURN)
pdf = exponential("pdf", logpdf)
cdf = located("cdf", lambda z, width: ndtr(z))
logcdf = located("logcdf", lambda z, width: log_ndtr(z))
sf = located("sf", lambda z, width: ndtr(-z))
logsf = located("logsf", lambda z, width: log_ndtr(-z))
ppf = quantile("ppf", lambda q: ndtri(q))
isf = quantile("isf", lambda q: -ndtri(q))
