"""Distributions, and statistics of samples."""

from structir.lazy import lazy_members

__getattr__, __dir__ = lazy_members(
    __name__,
    (
        *("bernoulli:", "beta:", "betabinom:", "binom:", "cauchy:", "chi2:", "dirichlet:"),
        *("expon:", "gamma:", "gennorm:", "geom:", "gumbel_l:", "gumbel_r:", "laplace:"),
        *("logistic:", "multinomial:", "multivariate_normal:", "nbinom:", "norm:", "pareto:"),
        *("poisson:", "t:", "truncnorm:", "uniform:", "vonmises:", "wrapcauchy:"),
        *("samples", "density_estimation"),
    ),
)
