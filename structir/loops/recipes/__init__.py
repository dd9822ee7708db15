"""Recipes by name: every file of this folder is one, and `@structir.recipe` adds more."""

from __future__ import annotations

from pathlib import Path

from structir.loops.recipe import Recipe
from structir.loops.registry import Registry

RECIPES: Registry[Recipe] = Registry("recipe", __name__, Path(__file__).parent)
find_recipe, recipe_names = RECIPES.find, RECIPES.names
