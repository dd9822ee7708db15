"""The Pareto distribution."""

from structir.numpy.reals import log, log1p
from structir.scipy.stats.derived import exponential, located, of_shares, outside, quantile

logpdf = located(
    "logpdf", lambda z, b, width: outside(z < 1, -(log(width / b) + (b + 1) * log(z))), "b"
)
pdf = exponential("pdf", logpdf)
cdf = located("cdf", lambda z, b, width: outside(z < 1, 1 - z**-b, 0.0), "b")
logcdf = located("logcdf", lambda z, b, width: outside(z < 1, log1p(-(z**-b))), "b")
logsf = located("logsf", lambda z, b, width: outside(z < 1, -b * log(z), 0.0), "b")
sf = exponential("sf", logsf)
ppf = quantile("ppf", lambda q, b: of_shares(q, (1 - q) ** (-1 / b)), "b")
