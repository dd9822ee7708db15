"""Samplers that need loops or special functions; `structir.random` exports them."""
