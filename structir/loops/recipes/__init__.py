"""Recipes by name: each file of this package declares one; `@structir.recipe` adds others."""

from __future__ import annotations

from pathlib import Path

from structir.loops.handle import Recipe
from structir.loops.schedule.registry import Registry

RECIPES: Registry[Recipe] = Registry("recipe", __name__, Path(__file__).parent)
find_recipe, recipe_names = RECIPES.find, RECIPES.names
