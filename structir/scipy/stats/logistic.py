"""The logistic distribution."""

from structir.numpy import reals
from structir.numpy.reals import log
from structir.scipy.special.functions import expit, logit
from structir.scipy.stats.derived import exponential, located, quantile

logpdf = located("logpdf", lambda z, width: -2 * reals.logaddexp(z / 2, -z / 2) - log(width))
pdf = exponential("pdf", logpdf)
cdf = located("cdf", lambda z, width: expit(z))
sf = located("sf", lambda z, width: expit(-z))
ppf = quantile("ppf", lambda q: logit(q))
isf = quantile("isf", lambda q: -logit(q))
