"""The Cauchy distribution."""

import math

from structir.numpy.reals import arctan, log, log1p, tan
from structir.scipy.stats.derived import exponential, located, logarithm, mirrored, quantile

logpdf = located("logpdf", lambda z, width: -(log(math.pi * width) + log1p(z * z)))
pdf = exponential("pdf", logpdf)
cdf = located("cdf", lambda z, width: arctan(z) / math.pi + 0.5)
logcdf = logarithm("logcdf", cdf)
sf = mirrored("sf", cdf)
logsf = mirrored("logsf", logcdf)
ppf = quantile("ppf", lambda q: tan(math.pi * q - math.pi / 2))
isf = quantile("isf", lambda q: tan(math.pi / 2 - math.pi * q))
