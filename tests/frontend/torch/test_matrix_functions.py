"""Matrix exponentials, linear systems and decompositions, compared with torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install structir[torch]")

import structir  # noqa: E402
from structir.frontend.torch import from_exported_program  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Call(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *operands: Any) -> Any:
        return self.function(*operands)


def assert_equal_to_torch(function: Any, *operands: Any) -> None:
    auto = torch.export.Dim.AUTO
    sizes = {"operands": tuple([{0: auto}] * len(operands))}
    program = torch.export.export(Call(function), operands, dynamic_shapes=sizes)
    module = from_exported_program(program)
    for values in (operands, [x[:1] for x in operands]):
        result = structir.interpret(module, "main", *[x.numpy() for x in values])
        expected = function(*values)
        pairs = (
            [(result, expected)]
            if isinstance(expected, torch.Tensor)
            else zip(result, expected, strict=True)
        )
        for actual, reference in pairs:
            assert actual.dtype == reference.numpy().dtype
            scale = np.abs(reference.numpy()).max(initial=0)
            np.testing.assert_allclose(actual, reference.numpy(), rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("scale", [0.0, 0.1, 2.0, 20.0])
def test_matrix_exponential_of_any_norm(scale: float) -> None:
    torch.manual_seed(0)
    a = torch.randn(3, 5, 5, dtype=torch.float64) * scale
    a[1] *= 0.01  # the number of squarings differs within the batch
    assert_equal_to_torch(torch.linalg.matrix_exp, a)


def test_matrix_exponential_of_rotations_by_large_angles() -> None:
    angle = torch.tensor([3.0, 700.0, 30000.0], dtype=torch.float64)[:, None, None]
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    assert_equal_to_torch(torch.linalg.matrix_exp, angle * turn)


def test_orthogonal_parametrizations_import() -> None:
    torch.manual_seed(0)
    model = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(6, 6))
    program = torch.export.export(model, (torch.ones(2, 6),))
    result = structir.interpret(from_exported_program(program), "main", np.ones((2, 6), "float32"))
    np.testing.assert_allclose(result, model(torch.ones(2, 6)).detach().numpy(), rtol=1e-4)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("unitriangular", [False, True])
def test_triangular_systems_use_one_triangle(upper: bool, left: bool, unitriangular: bool) -> None:
    torch.manual_seed(0)
    a = torch.randn(2, 4, 4) + torch.eye(4) * 4
    b = torch.randn(2, 4, 3) if left else torch.randn(2, 3, 4)
    options = {"upper": upper, "left": left, "unitriangular": unitriangular}
    assert_equal_to_torch(lambda a, b: torch.linalg.solve_triangular(a, b, **options), a, b)


def matrices(*shape: int) -> Any:
    torch.manual_seed(0)
    return torch.randn(3, *shape, dtype=torch.float64)


def symmetric() -> Any:
    x = matrices(4, 4)
    return x @ x.mT + torch.eye(4)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (1, 3), (3, 1)])
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_qr_factors_have_the_signs_of_torch(shape: tuple[int, int], mode: str) -> None:
    assert_equal_to_torch(lambda x: tuple(torch.linalg.qr(x, mode)), matrices(*shape))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
@pytest.mark.parametrize("is_full", [False, True])
def test_singular_values_and_vectors(shape: tuple[int, int], is_full: bool) -> None:
    def product(x: Any) -> Any:
        u, s, vh = torch.linalg.svd(x, full_matrices=is_full)
        count = s.shape[-1]
        return s, (u[..., :count] * s[..., None, :]) @ vh[..., :count, :], u @ u.mT, vh @ vh.mT

    assert_equal_to_torch(product, matrices(*shape))
    assert_equal_to_torch(lambda x: torch.svd(x, some=not is_full).S, matrices(*shape))


@pytest.mark.parametrize("triangle", ["L", "U"])
def test_symmetric_eigenvalues_read_one_triangle(triangle: str) -> None:
    def product(x: Any) -> Any:
        values, vectors = torch.linalg.eigh(x, UPLO=triangle)
        return values, (vectors * values[..., None, :]) @ vectors.mT

    assert_equal_to_torch(product, matrices(4, 4))  # the matrices are not symmetric
    assert_equal_to_torch(lambda x: torch.linalg.eigvalsh(x, UPLO=triangle), matrices(4, 4))


RANK_ONE = torch.ones(3, 4, 3, dtype=torch.float64)
FUNCTIONS = {
    "svdvals": (torch.linalg.svdvals, matrices(5, 3)),
    "norm": (lambda x: torch.linalg.matrix_norm(x, "nuc"), matrices(5, 3)),
    "cond": (torch.linalg.cond, matrices(5, 3)),
    "rank": (torch.linalg.matrix_rank, RANK_ONE),
    "pinv": (torch.linalg.pinv, matrices(5, 3)),
    "pinv of rank 1": (torch.linalg.pinv, RANK_ONE),
    "pinv of float32": (torch.linalg.pinv, RANK_ONE.float()),
    "pinv, atol": (lambda x: torch.linalg.pinv(x, atol=0.5), matrices(3, 5)),
    "pinv, tensor": (lambda x: torch.linalg.pinv(x, rtol=x[:, 0, 0].abs() / 4), matrices(3, 5)),
    "pinverse": (lambda x: torch.pinverse(x, rcond=0.5), matrices(3, 5)),
    "solve from the right": (
        lambda x: torch.linalg.solve(x, x[:, :2] + 1, left=False),
        symmetric(),
    ),
    "solve_ex": (lambda x: tuple(torch.linalg.solve_ex(x, x + 1)), symmetric()),
    "tensorinv": (lambda x: torch.linalg.tensorinv(x.reshape(-1, 2, 2, 2, 2)[0], 2), symmetric()),
    "det": (lambda x: torch.ops.aten._linalg_det(x)[0], symmetric()),
    "slogdet": (lambda x: torch.ops.aten._linalg_slogdet(x)[:2], symmetric()),
    "square root": (torch.linalg.matrix_sqrth, symmetric()),
    "polar": (lambda x: tuple(torch.linalg.polar(x)), matrices(5, 3)),
    "cholesky_inverse": (lambda x: torch.cholesky_inverse(torch.linalg.cholesky(x)), symmetric()),
    "triangular_solve": (lambda x: tuple(torch.triangular_solve(x[..., :2], x)), symmetric()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_matrices(name: str) -> None:
    assert_equal_to_torch(*FUNCTIONS[name])


@pytest.mark.parametrize("upper", [False, True])
def test_systems_of_cholesky_factors(upper: bool) -> None:
    def solution(x: Any) -> Any:
        factor = torch.linalg.cholesky(x, upper=upper)
        return torch.cholesky_solve(x[..., :2], factor, upper=upper)

    assert_equal_to_torch(solution, symmetric())


def test_decomposed_checks_of_matrices_import() -> None:
    x = symmetric()
    program = torch.export.export(Call(torch.linalg.inv), (x,)).run_decompositions()
    assert "token" in str(program.graph_signature)  # the order of the checks
    result = structir.interpret(from_exported_program(program), "main", x.numpy())
    np.testing.assert_allclose(result, torch.linalg.inv(x).numpy())


LAPACK: dict[str, Any] = {
    "ldl": lambda x: tuple(torch.linalg.ldl_factor_ex(square(x))),
    "ldl of two": lambda x: tuple(torch.linalg.ldl_factor(without_diagonal(x))),
    "ldl_solve": lambda x: torch.linalg.ldl_solve(*torch.linalg.ldl_factor(square(x)), x[..., :1]),
    "eigenvalues": lambda x: ordered(torch.linalg.eigvals(square(x) + x @ x[:1].mT)),
    "eigenvectors": lambda x: product_of_eigenvectors(square(x) + x @ x[:1].mT),
    "complex": lambda x: ordered(torch.linalg.eigvals(torch.complex(square(x), x @ x[:1].mT))),
}


def square(x: Any) -> Any:
    return x @ x.mT - torch.eye(x.shape[-2], dtype=x.dtype) * 3


def without_diagonal(x: Any) -> Any:
    return square(x) * (1 - torch.eye(x.shape[-2], dtype=x.dtype))


def ordered(values: Any) -> Any:
    """Returns sums of powers, which do not depend on the order."""
    return tuple([torch.view_as_real((values**k).sum(-1)) for k in (1, 2, 3)])


def product_of_eigenvectors(a: Any) -> Any:
    values, vectors = torch.linalg.eig(a)
    residual = a.to(vectors.dtype) @ vectors - vectors * values[..., None, :]
    return residual.abs() < 1e-9, vectors.abs().square().sum(-2)


@pytest.mark.parametrize("shape", [(4, 6), (2, 3), (1, 2)])
@pytest.mark.parametrize("name", LAPACK)
def test_factors_in_the_conventions_of_lapack(name: str, shape: tuple[int, int]) -> None:
    if name != "ldl of two" or shape[0] > 1:  # a zero matrix is singular
        assert_equal_to_torch(LAPACK[name], matrices(*shape))


@pytest.mark.parametrize("shape", [(2, 0, 0), (0, 3, 3), (2, 3, 0), (2, 0, 3), (2, 5, 3), (1, 4)])
def test_packed_factors_of_static_sizes(shape: tuple[int, ...]) -> None:
    """Compares results of any size: torch exports `geqrf` with static sizes only."""
    torch.manual_seed(0)
    functions = [lambda x: tuple(torch.geqrf(x))]
    if shape[-1] == shape[-2]:
        functions.append(lambda x: tuple(torch.linalg.ldl_factor_ex(x)))
        functions.append(lambda x: (torch.view_as_real(torch.linalg.eigvals(x)),))
    for function in functions:
        x = torch.randn(shape)
        module = from_exported_program(torch.export.export(Call(function), (x,)))
        results = structir.interpret(module, "main", x.numpy())
        results = results if isinstance(results, tuple | list) else [results]
        for result, wanted in zip(results, function(x), strict=True):
            assert (result.shape, result.dtype) == (wanted.shape, wanted.numpy().dtype)
            np.testing.assert_allclose(result, wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_a_singular_matrix_has_a_status_or_is_an_error() -> None:
    x = torch.zeros(3, 3)
    program = torch.export.export(Call(lambda x: tuple(torch.linalg.ldl_factor_ex(x))), (x,))
    results = structir.interpret(from_exported_program(program), "main", x.numpy())
    assert results[2] == torch.linalg.ldl_factor_ex(x).info
    program = torch.export.export(Call(lambda x: tuple(torch.linalg.ldl_factor(x))), (x,))
    with pytest.raises(ValueError, match="singular"):
        structir.interpret(from_exported_program(program), "main", x.numpy())
