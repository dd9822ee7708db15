# Written by structir.tools.stubs; tests/tools/test_stubs.py holds it to the package.

from structir.rewriting.extract import extract_matches as extract_matches
from structir.rewriting.guards import acts_element_wise as acts_element_wise
from structir.rewriting.guards import dims_of as dims_of
from structir.rewriting.guards import divisible as divisible
from structir.rewriting.guards import dtype_of as dtype_of
from structir.rewriting.guards import made_by as made_by
from structir.rewriting.guards import rank_of as rank_of
from structir.rewriting.guards import same_sizes as same_sizes
from structir.rewriting.guards import used_once as used_once
from structir.rewriting.guards import value_of as value_of
from structir.rewriting.rule import Parallel as Parallel
from structir.rewriting.rule import Rule as Rule
from structir.rewriting.rule import rewrite as rewrite
