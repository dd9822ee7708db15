"""The right-skewed Gumbel distribution."""

from structir.numpy.reals import exp, expm1, log
from structir.scipy.stats.derived import exponential, located, quantile
from structir.scipy.stats.gumbel_l import inside, of_positive_scale

logpdf = located("logpdf", of_positive_scale(lambda z, width: -(log(width) + z + exp(-z))))
pdf = exponential("pdf", logpdf)
logcdf = located("logcdf", of_positive_scale(lambda z, width: -exp(-z)))
cdf = exponential("cdf", logcdf)
logsf = located("logsf", of_positive_scale(lambda z, width: log(-expm1(-exp(-z)))))
sf = located("sf", of_positive_scale(lambda z, width: -expm1(-exp(-z))))
ppf = quantile("ppf", inside(lambda q: -log(-log(q))))
